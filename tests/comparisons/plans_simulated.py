"""Ten plans for runs over their card, each simulated as its files say it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from memlint.fixes.plan_options import options
from memlint.fixes.written_plans import WrittenPlan
from memlint.hardware import find
from memlint.lint.analyse_file import uniform_analyser
from memlint.memory.estimate import estimate
from memlint.memory.values import Estimate
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.run import Origin, Run

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "plans_simulated.jsonl"
GIB = 1 << 30
_ROUNDING = 1.001  # an interval may end at the whole card, and a simulated step lie a few kB above the closed form
_ASSUMED = Origin("setting", detail="assumed by the benchmark")
_FACTORY = {"stage": "sft", "do_train": True, "dataset": "d", "output_dir": "out", "bf16": True, "template": "default"}
_FULL = {**_FACTORY, "finetuning_type": "full"}
_LORA = {**_FACTORY, "finetuning_type": "lora", "lora_target": "all", "lora_rank": 16}
_TRAINER = {"output_dir": "out", "bf16": True}


class Case(NamedTuple):
    card: str
    config: dict[str, Any]


def _case(card: str, base: dict[str, Any], model: str, batch: int, length: int, **more: Any) -> Case:
    key = "max_length" if "bf16" in base and "stage" not in base else "cutoff_len"
    shape = {"per_device_train_batch_size": batch, "gradient_accumulation_steps": 4, key: length}
    return Case(card, {"model_name_or_path": model, **base, **shape, **more})


CASES = (
    _case("RTX4090", _LORA, "Qwen/Qwen2.5-7B-Instruct", 2, 2048),
    _case("RTX4090", _FULL, "Qwen/Qwen3-1.7B", 4, 2048),
    _case("RTX4090", _LORA, "meta-llama/Meta-Llama-3-8B-Instruct", 4, 1024),
    _case("RTX4090", _TRAINER, "google/gemma-2b", 16, 2048, use_peft=True, lora_target_modules="all-linear"),
    _case("L40S", _FULL, "TinyLlama/TinyLlama-1.1B-Chat-v1.0", 12, 2048, flash_attn="disabled"),
    _case("L40S", _FULL, "microsoft/Phi-3-mini-4k-instruct", 4, 2048),
    _case("L40S", _LORA, "mistralai/Mistral-7B-v0.1", 16, 4096),
    _case("L40S", _FULL, "allenai/OLMo-2-0425-1B", 8, 4096),
    _case("A100-80GB", _FULL, "meta-llama/Meta-Llama-3-8B", 2, 4096),
    _case("A100-80GB", _LORA, "Qwen/Qwen2.5-14B-Instruct", 8, 4096),
)


def planned(case: Case) -> tuple[Estimate, WrittenPlan, Run]:
    """The estimate of the config as it is, its first plan for one GPU alone, and the run that the changed file says."""
    workspace = in_memory({"train.yaml": json.dumps(case.config)})
    facts = {"gpu": find(case.card), "gpu_origin": _ASSUMED, "gpus": 1, "gpus_origin": _ASSUMED, "gpus_per_node": 1}
    engine = Engine(())  # no rules: estimates and plans alone
    analyser = uniform_analyser(engine, facts, cwd="/", workspace=workspace)
    analysis = analyser.analyse("train.yaml", fixes=False).analyses[0]
    for found in options(analysis, 0, engine.estimator, analyser.reanalysis(analysis, workspace)).options:
        after = found.tried.after.runs[0] if found.tried.after else None
        if after is not None and after.parallelism.engine == "single":  # the simulation has no engine that offloads
            return analysis.estimates[0], found, after
    raise ValueError(f"{case.config['model_name_or_path']}: no plan of one GPU alone")


def kept() -> dict[int, dict[str, Any]]:
    read = [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]
    return {one["case"]: one for one in read}


def lines() -> list[str]:
    """Ten plans for runs over their card, each simulated as its changed file says it: GiB."""
    head = "| config | card | before | plan | tensors | simulated | apart | card at most | usable |"
    return [head, "|---" * 9 + "|", *map(_row, confirmed()), "", *_SAID]


_SAID = [
    "Every simulation has all layers. `before` is the upper end of the interval without the plan, `card at most` the",
    "same with it; `tensors` is the closed form of the run that the changed file says.",
]


class Confirmed(NamedTuple):
    case: Case
    before: Estimate
    title: str
    after: Estimate
    peak: int  # simulated, bytes; 0 where the plan is no longer the one that was simulated

    @property
    def holds(self) -> bool:
        """The simulated tensors, with all that the interval adds to them, fit the card."""
        added = (self.after.device_high_bytes or 0) - (self.after.allocated_bytes or 0)
        return self.peak > 0 and self.peak + added <= _ROUNDING * self.after.budget_bytes


@cache
def confirmed() -> tuple[Confirmed, ...]:
    """Every case with its first plan, as the files say it now, beside the simulation that was kept."""
    return tuple(_confirmed(kept()))


def _confirmed(results: dict[int, dict[str, Any]]) -> Iterator[Confirmed]:
    for number, case in enumerate(CASES):
        before, option, run = planned(case)
        title = "; ".join(one.title for one in option.plan.steps)
        known = results.get(number, {})
        peak = known["peak"] if known.get("plan") == title else 0
        yield Confirmed(case, before, title, estimate(run), peak)


def _row(one: Confirmed) -> str:
    config, after = one.case.config, one.after
    method = config.get("finetuning_type") or ("lora" if config.get("use_peft") else "full")
    shape = f"{config['per_device_train_batch_size']} x {config.get('cutoff_len') or config.get('max_length')}"
    name = f"{config['model_name_or_path'].rpartition('/')[2]}, {method}, {shape}"
    tensors = after.allocated_bytes or 0
    apart = f"{abs(tensors / one.peak - 1):.2%}" if one.peak else "-"
    figures = [tensors, one.peak, after.device_high_bytes or 0, after.budget_bytes]
    shown = [f"{size / GIB:.2f}" if size else "-" for size in figures]
    middle = f"{(one.before.device_high_bytes or 0) / GIB:.1f} | {one.title}"
    return f"| {name} | {one.case.card} | {middle} | {shown[0]} | {shown[1]} | {apart} | {shown[2]} | {shown[3]} |"
