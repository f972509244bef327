"""DSP001: `auto` in a DeepSpeed file at a key that nobody fills in. It may stand anywhere, so this rule is Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint.expressions.facts import Facts
from memlint.ruleset.rule import Hit

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
deepspeed: ds_z3.json
output_dir: out
"""
_ZERO3 = """\
{
  "train_batch_size": "auto",
  "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": "auto",
  "gradient_clipping": "auto",
  "bf16": {"enabled": "auto"},
  "zero_optimization": {
    "stage": 3,
    "overlap_comm": OVERLAP,
    "reduce_bucket_size": "auto",
    "stage3_prefetch_bucket_size": "auto",
    "stage3_param_persistence_threshold": "auto",
    "stage3_gather_16bit_weights_on_model_save": "auto"
  }
}
"""
_ALONE = """\
{
  "train_micro_batch_size_per_gpu": LIVE,
  "bf16": {"enabled": true},
  "zero_optimization": {"stage": 3, "stage3_max_live_parameters": "auto"}
}
"""
FIELDS: Mapping[str, Any] = {
    "id": "DSP001",
    "name": "deepspeed/auto-that-nobody-fills",
    "title": "auto stands where neither transformers nor accelerate fills it in",
    "severity": "error",
    "formats": ["llamafactory", "trainer", "deepspeed"],
    "purposes": ["train", "partial"],
    "at": ["config.deepspeed"],
    "why": (
        "transformers replaces `auto` at the keys that follow from the training arguments, accelerate at a few more. "
        "Where one is left, accelerate raises ValueError when it prepares the model, after the weights are loaded. "
        "DeepSpeed itself knows no `auto`."
    ),
    "sources": [
        "accelerate 1.15.0 utils/dataclasses.py:1368",
        "accelerate 1.15.0 accelerator.py:2355",
        "transformers 5.23.0 integrations/deepspeed.py:126",
    ],
    "examples": [
        {
            "fails": _CONFIG,
            "files": {"ds_z3.json": _ZERO3.replace("OVERLAP", '"auto"')},
            "points": '"auto"',
            "says": "zero_optimization.overlap_comm",
        },
        {"passes": _CONFIG, "files": {"ds_z3.json": _ZERO3.replace("OVERLAP", "true")}},
        {"fails": _ALONE.replace("LIVE", '"auto"'), "format": "deepspeed", "says": "stage3_max_live_parameters"},
        {
            "passes": _CONFIG,
            "files": {
                "ds_z3.json": _ZERO3.replace("OVERLAP", "true").replace('"bf16"', '"amp": {"enabled": "auto"}, "bf16"')
            },
            "note": "transformers 4 fills it in",
        },
        {
            "passes": _ALONE.replace("LIVE", "4").replace("{\n", '{\n  "steps_per_print": "auto",\n', 1),
            "format": "deepspeed",
            "note": "accelerate replaces it whatever it is",
        },
        {
            "passes": _ALONE.replace("LIVE", "4"),
            "format": "deepspeed",
            "note": "without Hugging Face DeepSpeed drops the value and takes its default",
        },
    ],
}

# transformers 5.23 integrations/deepspeed.py:126-257; accelerate 1.15 utils/dataclasses.py:1281, accelerator.py:2207.
_FILLED = frozenset(
    {
        *("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping"),
        "steps_per_print",  # accelerate sets it whatever it is (1.15.0 utils/dataclasses.py:1326, 0.20.3:583)
        *("optimizer.params.lr", "optimizer.params.betas", "optimizer.params.eps", "optimizer.params.weight_decay"),
        *("scheduler.params.warmup_min_lr", "scheduler.params.warmup_max_lr"),
        *("scheduler.params.warmup_num_steps", "scheduler.params.total_num_steps"),
        # until transformers 5, for apex (4.57 integrations/deepspeed.py, trainer_config_process)
        *("fp16.enabled", "bf16.enabled", "amp.enabled", "amp.opt_level"),
        *("zero_optimization.stage", "zero_optimization.reduce_bucket_size"),
        *("zero_optimization.stage3_prefetch_bucket_size", "zero_optimization.stage3_param_persistence_threshold"),
        "zero_optimization.stage3_gather_16bit_weights_on_model_save",
        *("zero_optimization.offload_optimizer.device", "zero_optimization.offload_param.device"),
        *("zero_optimization.offload_optimizer.nvme_path", "zero_optimization.offload_param.nvme_path"),
    }
)
_FOR_HUGGING_FACE = frozenset({"train_batch_size", "train_micro_batch_size_per_gpu", "fp16.enabled", "bf16.enabled"})
_DEPTH = 8
_PREPARED_BY_ACCELERATE = (4, 30)  # transformers trainer.py: before, deepspeed.initialize took the file as it was


def check(facts: Facts) -> Iterator[Hit]:
    """One hit for each key. A DeepSpeed file without a run is judged only if other `auto` values show that it is meant
    for Hugging Face."""
    if () < facts.run.stack.transformers < _PREPARED_BY_ACCELERATE:
        return
    found = list(_autos(facts.raw.get("deepspeed"), ""))
    if facts.run.purpose != "train" and not _FOR_HUGGING_FACE & set(found):
        return
    for key in found:
        if key not in _FILLED:
            yield Hit(
                f"`{key}` is `auto`, which nobody fills in: accelerate raises ValueError after the model is loaded",
                at=f"deepspeed.{key}",
            )


def _autos(value: Any, prefix: str, depth: int = _DEPTH) -> Iterator[str]:
    """Dotted keys of mappings whose value is `auto`; accelerate does not look into lists."""
    if not isinstance(value, dict) or not depth:
        return
    for key, inner in value.items():
        if isinstance(key, str) and "." not in key:
            if inner == "auto":
                yield prefix + key
            else:
                yield from _autos(inner, f"{prefix}{key}.", depth - 1)
