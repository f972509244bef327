"""Writes the figures and tables of docs/guide/what-fills-a-gpu.md from the estimator, and the table of
docs/comparison.md. `--check` changes nothing and says what is stale.

Each bar is what `memlint estimate` says of a config: `BASE` with the changes that stand beside the bar. The page's
tables are between `<!-- table: NAME -->` and `<!-- end -->`, and hold the same numbers.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from generated import ROOT, settle
from svg_bars import Bar, Chart, number, svg

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tests.comparisons.six_cases as six_cases
from memlint.cli import main as memlint
from memlint.report.table import COMPONENTS

GUIDE = ROOT / "docs" / "guide"
PAGE = GUIDE / "what-fills-a-gpu.md"
COMPARISON = ROOT / "docs" / "comparison.md"
SIX_CASES = re.compile(r"(<!-- six-cases: begin -->\n).*?(<!-- six-cases: end -->)", re.DOTALL)
TABLE = re.compile(r"(<!-- table: (?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
GIB = 2**30
BASE = {
    "model_name_or_path": "meta-llama/Meta-Llama-3-8B",
    "stage": "sft",
    "do_train": True,
    "finetuning_type": "full",
    "dataset": "alpaca_en_demo",
    "template": "llama3",
    "cutoff_len": 4096,
    "per_device_train_batch_size": 1,
    "gradient_accumulation_steps": 8,
    "flash_attn": "fa2",
    "bf16": True,
    "output_dir": "out",
}
LORA = {"finetuning_type": "lora", "lora_rank": 16, "lora_target": "all"}
QLORA = {**LORA, "quantization_bit": 4}
PREDICT = {"do_train": None, "do_predict": True, "predict_with_generate": True, "infer_dtype": "bfloat16"}
STATES = ("weights", "gradients", "optimizer_states")
# Widths of one layer's tensors, in words.
WIDTHS = {
    "intermediate": "as wide as the MLP (14336)",
    "hidden": "as wide as the model (4096; inputs, norms)",
    "query": "queries (4096)",
    "mixed": "output of attention (4096)",
    "key": "keys (1024)",
    "value": "values (1024)",
}
COLOURS = {name: number for number, name in enumerate(COMPONENTS)}


def estimate(gpus: int = 1, gpu: str = "H200", **changes: Any) -> dict[str, Any]:
    """The run that `memlint estimate --format json` makes of `BASE` with `changes`. None removes a key; `zero` is a
    ZeRO stage, None for no DeepSpeed."""
    stage = changes.pop("zero", None)
    config = {key: value for key, value in {**BASE, **changes}.items() if value is not None}
    with tempfile.TemporaryDirectory() as folder:
        if stage is not None:
            config["deepspeed"] = "ds.json"
            engine = {"zero_optimization": {"stage": stage}, "bf16": {"enabled": True}}
            sizes = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
            Path(folder, "ds.json").write_text(json.dumps({**engine, **dict.fromkeys(sizes, "auto")}))
        Path(folder, "train.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
        said = _said(folder, "estimate", "train.yaml", "--gpu", gpu, "--gpus", str(gpus), "--format", "json")
    (run,) = json.loads(said)["runs"]
    return dict(run)


def _said(folder: str, *arguments: str) -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    before = os.getcwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(stream):
            memlint([*arguments, "--isolated"])
    finally:
        os.chdir(before)
    stream.flush()
    return stream.buffer.getvalue().decode("utf-8")  # type: ignore[attr-defined]


def phase(run: Mapping[str, Any], name: str = "") -> Mapping[str, int]:
    """The components of a phase, of the peak where none is named."""
    wanted = name or run["peak"]["phase"]
    return next(dict(one["components"]) for one in run["phases"] if one["name"] == wanted)


def parts(components: Mapping[str, int], names: Sequence[str] = COMPONENTS) -> list[float]:
    return [components.get(name, 0) / GIB for name in names]


def stacked(title: str, bars: Iterator[tuple[str, Mapping[str, int]]], names: Sequence[str] = COMPONENTS) -> Chart:
    """Bars of components of the estimate."""
    shown = [(name.replace("_", " "), COLOURS[name]) for name in names]
    return Chart(title, shown, [Bar(label, parts(components, names)) for label, components in bars])


def phases() -> Chart:
    run = estimate(8, "A100-80GB", zero=3, per_device_train_batch_size=2)
    bars = ((one["name"].replace("_", " "), one["components"]) for one in run["phases"])
    chart = stacked("Llama-3-8B, full, ZeRO-3 on 8 A100-80GB: allocated in each phase", bars)
    return chart._replace(limit=run["peak"]["budget_bytes"] / GIB, limit_name="the card's end")


def states() -> Chart:
    cases: dict[str, dict[str, Any]] = {
        "full, bf16: true (fp32 weights), AdamW": {},
        "full, pure_bf16, AdamW": {"bf16": None, "pure_bf16": True},
        "full, bf16: true, 8-bit AdamW": {"optim": "adamw_bnb_8bit"},
        "full, bf16: true, Adafactor": {"optim": "adafactor"},
        "LoRA r=16, bf16": LORA,
        "QLoRA r=16, 4 bits": QLORA,
    }
    found = ((label, phase(estimate(**changes), "optimizer_step")) for label, changes in cases.items())
    return stacked("Llama-3-8B on one card: weights, gradients and optimizer states", found, STATES)


def activations() -> Chart:
    cases = {
        f"{length} tokens, {'checkpointing' if on else 'no checkpointing'}": phase(
            estimate(**LORA, cutoff_len=length, disable_gradient_checkpointing=not on, enable_liger_kernel=True),
            "backward",
        )
        for length in (2048, 4096, 8192)
        for on in (False, True)
    }
    return stacked("Llama-3-8B LoRA: activations in the backward pass", iter(cases.items()), ("activations",))


def layer() -> Chart:
    """What one decoder layer of the base run keeps for its backward pass, by tensor size."""
    from layer_tensors import kept

    sizes = kept("meta-llama/Meta-Llama-3-8B", tokens=4096)
    bars = [Bar(f"{tensors} x {WIDTHS.get(name, name)}", [size / 2**20]) for name, tensors, size in sizes]
    return Chart("One layer of Llama-3-8B, 4096 tokens, bf16: kept for backward", [("activations", 3)], bars, "MiB")


def logits() -> Chart:
    models = {"Llama-2-7b-hf": "Llama-2-7B", "Meta-Llama-3-8B": "Llama-3-8B"}
    cases = {
        f"{name}, {'fused loss' if fused else 'plain loss'}": phase(
            estimate(**LORA, model_name_or_path=f"meta-llama/{model}", enable_liger_kernel=fused or None), "backward"
        )
        for model, name in models.items()
        for fused in (False, True)
    }
    return stacked("LoRA, 4096 tokens: logits in the backward pass", iter(cases.items()), ("logits",))


def attention() -> Chart:
    cases = {
        f"{length} tokens, {words}": phase(
            estimate(**LORA, cutoff_len=length, flash_attn=kernel, enable_liger_kernel=True), "backward"
        )
        for length in (2048, 4096, 8192)
        for kernel, words in (("disabled", "eager"), ("sdpa", "sdpa"))
    }
    names = ("activations",)
    return stacked("Llama-3-8B LoRA with checkpointing: activations by kernel", iter(cases.items()), names)


def sharding() -> Chart:
    cases = {
        f"{gpus} GPU{'s' if gpus > 1 else ''}, {'DDP' if stage is None else f'ZeRO-{stage}'}": phase(
            estimate(gpus, zero=stage), "backward"
        )
        for stage, gpus in ((None, 8), (1, 8), (2, 8), (3, 8), (3, 16))
    }
    return stacked("Llama-3-8B, full: states of one GPU in the backward pass", iter(cases.items()), STATES)


def kv_cache() -> Chart:
    models = {"Llama-2-7b-hf": "Llama-2-7B (32 KV heads)", "Meta-Llama-3-8B": "Llama-3-8B (8 KV heads)"}
    cases = {
        f"{name}, batch {batch}": phase(
            estimate(
                **PREDICT,
                model_name_or_path=f"meta-llama/{model}",
                cutoff_len=3584,
                max_new_tokens=512,
                per_device_eval_batch_size=batch,
            ),
            "decode",
        )
        for model, name in models.items()
        for batch in (1, 8)
    }
    return stacked("4096 tokens of generation in bf16", iter(cases.items()), ("weights", "kv_cache"))


def allocator() -> Chart:
    cases: dict[str, dict[str, Any]] = {
        "QLoRA, 1 x 4096": QLORA,
        "LoRA, 2 x 4096": {**LORA, "per_device_train_batch_size": 2},
        "LoRA, 1 x 4096, no checkpointing": {**LORA, "disable_gradient_checkpointing": True},
    }
    bars = [Bar(label, _held(estimate(gpu="H100-80GB", **changes)["peak"])) for label, changes in cases.items()]
    names = [("tensors", 0), ("kept by PyTorch's allocator", 5), ("CUDA context", 6), ("up to the interval's end", 1)]
    return Chart("Llama-3-8B on one H100-80GB: what nvidia-smi shows", names, bars)


def _held(peak: Mapping[str, int]) -> list[float]:
    steps = [0, *(peak[f"{name}_bytes"] for name in ("allocated", "reserved", "device", "device_high"))]
    return [max(0, after - before) / GIB for before, after in pairwise(steps)]


CHARTS: dict[str, Callable[[], Chart]] = {
    "phases": phases,
    "states": states,
    "layer": layer,
    "activations": activations,
    "logits": logits,
    "attention": attention,
    "sharding": sharding,
    "kv-cache": kv_cache,
    "allocator": allocator,
}


def table(chart: Chart) -> str:
    """The chart's numbers as a Markdown table; the total where a bar has more than one part."""
    used = [index for index in range(len(chart.names)) if any(bar.parts[index] > 0 for bar in chart.bars)]
    total = ["total"] if len(used) > 1 else []
    head = [f"{chart.unit}", *(chart.names[index][0] for index in used), *total]
    rows = [
        [bar.label, *(number(bar.parts[index]) if bar.parts[index] else "-" for index in used)]
        + [number(sum(bar.parts)) for _ in total]
        for bar in chart.bars
    ]
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def files() -> dict[Path, str]:
    charts = {name: make() for name, make in CHARTS.items()}
    page = TABLE.sub(
        lambda found: f"{found[1]}{table(charts[found['name']])}{found[3]}", PAGE.read_text(encoding="utf-8")
    )
    figures = {GUIDE / "figures" / f"{name}.svg": svg(chart) for name, chart in charts.items()}
    lines = "\n".join(six_cases.lines())
    cases = SIX_CASES.sub(lambda found: f"{found[1]}{lines}\n{found[2]}", COMPARISON.read_text(encoding="utf-8"))
    return {**figures, PAGE: page, COMPARISON: cases}


if __name__ == "__main__":
    sys.exit(settle(files(), sys.argv[1:], present=(GUIDE / "figures").glob("*.svg")))
