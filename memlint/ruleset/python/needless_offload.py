"""OFF001: offloading that the run does not need. Only an estimate without it can tell, so this rule is Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint.expressions.facts import Facts
from memlint.expressions.functions import FUNCTIONS
from memlint.hardware.named import may_be_smaller
from memlint.memory.card.device import usable_bytes
from memlint.memory.estimate import estimate_unless_over
from memlint.ruleset.rule import Hit
from memlint.run import Run, replace

_CONFIG = """\
model_name_or_path: meta-llama/Meta-Llama-3-8B
stage: sft
do_train: true
finetuning_type: lora
dataset: alpaca_en_demo
template: llama3
cutoff_len: 1024
per_device_train_batch_size: 1
bf16: true
deepspeed: ds_z3_offload.json
output_dir: out
"""
_ZERO3 = """\
{
  "train_batch_size": "auto",
  "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": "auto",
  "bf16": {"enabled": "auto"},
  "zero_optimization": {
    "stage": 3,
    "offload_param": {"device": "cpu", "pin_memory": true},
    "reduce_bucket_size": "auto",
    "stage3_prefetch_bucket_size": "auto",
    "stage3_param_persistence_threshold": "auto"
  }
}
"""
FIELDS: Mapping[str, Any] = {
    "id": "OFF001",
    "name": "offload/without-need",
    "title": "Offloading slows a run that fits without it",
    "severity": "warning",
    "purposes": ["train"],
    "at": ["deepspeed.zero_optimization.offload_param", "deepspeed.zero_optimization.offload_optimizer"],
    "why": (
        "Offloaded weights and states cross the PCIe bus in every step, and a step of Adam on the CPU takes seconds. "
        "Where the card holds everything, offloading costs that time and saves nothing that is needed."
    ),
    "sources": ["https://arxiv.org/abs/2101.06840", "deepspeed 0.19.8 runtime/zero/offload_config.py"],
    "variables": {
        "asked": 'default(config.optim, default(config.optimizer, "adamw_torch"))',
        "plain": (
            'offload.optimizer == "none" or given(deepspeed.optimizer) '
            'or asked in ["adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw_apex_fused"]'
        ),
    },
    "fix": [
        {
            "title": "keep everything on the card",
            "when": "plain",
            "set": {"offload.parameters": "none", "offload.optimizer": "none"},
            "safe": True,
        },
        {
            "title": "keep everything on the card",
            "when": "not plain",
            "set": {"offload.parameters": "none", "offload.optimizer": "none"},
            "quality": "none",
            "note": "the optimizer that was asked for runs then, in place of Adam on the CPU",
        },
    ],
    "examples": [
        {"fails": _CONFIG, "files": {"ds_z3_offload.json": _ZERO3}, "gpu": "A100-80GB", "gpus": 4, "says": "without"},
        {"passes": _CONFIG, "files": {"ds_z3_offload.json": _ZERO3}, "gpu": "16GiB", "gpus": 1},
        {"passes": _CONFIG, "files": {"ds_z3_offload.json": _ZERO3}, "note": "nobody said which card"},
    ],
}


def _names_file(facts: Facts) -> bool:
    """Whether the config names its DeepSpeed file: other configs may name the same one, and need the offload."""
    config = facts.raw.get("config")
    return isinstance(config, dict) and isinstance(config.get("deepspeed"), str)


def check(facts: Facts) -> Iterator[Hit]:
    """One hit where the estimate without offloading ends well below the card, by the upper end of its interval."""
    run, offload = facts.run, facts.run.offload
    if (offload.parameters, offload.optimizer) == ("none", "none") or not usable_bytes(run) or facts.estimated is None:
        return
    card = run.origins.get("hardware.gpu")
    if card is not None and may_be_smaller(card.detail):
        return
    without = estimate_unless_over(_without_offload(run))
    if without is None or without.verdict != "fits" or without.device_high_bytes is None:
        return
    gib = FUNCTIONS["gib"].call
    words = {"parameters": "the parameters", "optimizer": "the optimizer's states"}
    moved = [word for word in words if getattr(offload, word) != "none"]
    high, budget = without.device_high_bytes, without.budget_bytes
    yield Hit(
        f"{' and '.join(words[word] for word in moved)} are offloaded, but without that the run needs at most "
        f"{gib(high)} of {gib(budget)}",
        at="config.deepspeed" if _names_file(facts) else f"offload.{moved[0]}",
        data={"peak_without": high, "budget": budget},
    )


def _without_offload(run: Run) -> Run:
    """The run with everything on the card, and with AdamW there in place of DeepSpeed's Adam for the CPU."""
    changes: dict[str, object] = {"offload.parameters": "none", "offload.optimizer": "none"}
    if run.optimizer.name == "cpu_adam":
        changes |= {"optimizer.name": "adamw_torch", "optimizer.engine": "torch"}
    return replace(run, changes)
