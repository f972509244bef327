"""Training steps whose linear layers torchao runs in fp8, simulated beside the closed form.

    python benchmarks/referee/float8.py [--write]

Needs torchao 0.18 on the path. The layers are converted as accelerate does it: all linear layers but the first and the
last (accelerate 1.15 utils/ao.py:28). --write keeps the figures in benchmarks/data/float8.jsonl, with which
tests/memory/layers/test_float8_product.py compares the closed form. The exit code is 1 where a peak is further than
LIMIT from the simulated one.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import memlint.simulation.step as step
from benchmarks.command import parser
from memlint.memory.estimate import estimate
from memlint.run import Run, replace
from memlint.simulation import simulate
from tests.comparisons.families import Step, run_of

DATA = Path(__file__).resolve().parents[1] / "data" / "float8.jsonl"
LIMIT = 0.01
SIZES = {"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 4, "num_attention_heads": 8}
MODELS: tuple[dict[str, Any], ...] = (
    {"model_type": "llama", **SIZES, "num_key_value_heads": 8, "vocab_size": 4096},
    {"model_type": "qwen2", **SIZES, "num_key_value_heads": 2, "vocab_size": 8192, "tie_word_embeddings": True},
    {"model_type": "qwen3", **SIZES, "num_key_value_heads": 4, "vocab_size": 1024, "head_dim": 64},
)
RECIPES = ("tensorwise", "rowwise")


def cases() -> Iterator[tuple[dict[str, Any], Step]]:
    for model in MODELS:
        for method in ("full", "pure", "lora"):
            for checkpointing in (False, True):
                yield model, Step(method, checkpointing, "sdpa")


def run_in_fp8(model: dict[str, Any], settings: Step) -> Run:
    return replace(run_of(model, settings), {"precision.fp8": "torchao"})


def simulated(run: Run, model: dict[str, Any], recipe: str) -> int:
    """The peak, bytes, of the step with the layers that torchao made."""
    import torch
    from accelerate.utils.ao import filter_linear_layers, find_first_last_linear_layers
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training  # type: ignore[import-not-found]

    changed: Any = step
    build, is_enabled, dtype = changed._build, torch.is_autocast_enabled, torch.get_autocast_gpu_dtype

    def converted(*arguments: Any) -> Any:
        made = build(*arguments)
        outer = list(find_first_last_linear_layers(made))
        config = Float8LinearConfig.from_recipe_name(recipe)
        convert_to_float8_training(
            made, module_filter_fn=partial(filter_linear_layers, layers_to_filter=outer), config=config
        )
        return made

    changed._build = converted
    torch.is_autocast_enabled = lambda *device: is_enabled("cpu")  # fake tensors are on the CPU
    torch.get_autocast_gpu_dtype = lambda: torch.bfloat16
    try:
        return simulate(run, model).peak
    finally:
        changed._build, torch.is_autocast_enabled, torch.get_autocast_gpu_dtype = build, is_enabled, dtype


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--write", action="store_true", help="keep the figures for the tests")
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    rows, worst = [], 0.0
    for model, settings in cases():
        run = run_in_fp8(model, settings)
        ours, in_bf16 = estimate(run).allocated_bytes, estimate(replace(run, {"precision.fp8": "none"})).allocated_bytes
        assert ours is not None and in_bf16 is not None
        for recipe in RECIPES:
            peak = simulated(run, model, recipe)
            worst = max(worst, abs(ours / peak - 1))
            rows.append({"model": model, "step": list(settings), "recipe": recipe, "peak": peak})
            errors = f"{ours / peak - 1:+7.2%}, as bf16 {in_bf16 / peak - 1:+7.2%}"
            print(f"{model['model_type']:6} {settings.name:24} {recipe:11} {errors}")
    if options.write:
        DATA.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(f"{len(rows)} steps, largest error {worst:.2%}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
