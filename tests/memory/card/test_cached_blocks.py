"""What full fine-tuning reserves: tensors lie in the blocks that gradients and the optimizer's temporaries leave."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.memory.card.cached_blocks import beyond_step
from memlint.memory.estimate import StepParts, estimate, step_parts
from memlint.memory.phases import inputs_bytes
from memlint.memory.values import Estimate
from memlint.ruleset.engine import Engine
from memlint.run import Run
from tests.comparisons.threads import GIB, MAIN, analyser_of

_LLAMA, _TINY, _GEMMA = "meta-llama/Llama-3.2-1B", "TinyLlama/TinyLlama-1.1B-Chat-v1.0", "google/gemma-2-2b-it"


def full_run(model: str, dtype: str, optimizer: str, length: int, **settings: Any) -> Run:
    """Full fine-tuning of the model on one GPU with TRL."""
    written = {
        "model_name_or_path": model,
        "dtype": dtype,
        "optim": optimizer,
        "max_length": length,
        "output_dir": "out",
        "per_device_train_batch_size": 1,
        "gradient_accumulation_steps": 1,
        "attn_implementation": "sdpa",
        "gradient_checkpointing": True,
        "gradient_checkpointing_kwargs": {"use_reentrant": False},
        "bf16": True,
        "packing": False,
        "dataset_text_field": "text",
    }
    row = {
        "gpu": "H200",
        "gpus": 1,
        "engine": "transformers",
        "files": {MAIN: {**written, **settings}},
        "versions": {"transformers": [4, 57], "trl": [0, 24]},
    }
    return analyser_of(row, {}, Engine(())).analyse(MAIN, fixes=False).analyses[0].runs[0]


def _full(model: str, dtype: str, optimizer: str, length: int, **settings: Any) -> Estimate:
    return estimate(full_run(model, dtype, optimizer, length, **settings))


def _reserved_with_states_apart(parts: StepParts) -> int:
    state = parts.state
    at_step = state.weights + state.optimizer_states + state.gradients_at_step + state.step_temporaries
    assert parts.step is not None
    return at_step + beyond_step(parts.segments, parts.units, state, inputs_bytes(parts.step))


# GiB that a step on fake tensors reserves, replayed through memlint.memory.card.allocator, with states made before it.
_REPLAYED = [
    (_TINY, "float32", "adamw_torch", 512, {}, 20.78),
    (_TINY, "float32", "adamw_torch_fused", 2048, {}, 16.94),
    (_TINY, "float32", "adamw_8bit", 8192, {}, 16.13),
    (_TINY, "bfloat16", "adamw_torch", 2048, {}, 11.42),
    (_LLAMA, "float32", "adamw_torch", 512, {}, 23.09),
    (_LLAMA, "float32", "adamw_torch", 2048, {}, 24.98),
    (_LLAMA, "float32", "adafactor", 8192, {}, 24.88),
    (_LLAMA, "bfloat16", "adamw_torch", 8192, {}, 25.22),
    (_GEMMA, "float32", "adamw_torch", 1024, {"attn_implementation": "eager"}, 50.31),
    (_GEMMA, "float32", "adamw_torch", 4096, {"attn_implementation": "eager"}, 63.00),
    ("Qwen/Qwen2.5-0.5B", "float32", "adamw_torch", 2048, {"gradient_accumulation_steps": 4}, 13.83),
]


@pytest.mark.parametrize(("model", "dtype", "optimizer", "length", "settings", "replayed"), _REPLAYED)
def test_a_step_reserves_what_a_simulated_one_does(
    model: str, dtype: str, optimizer: str, length: int, settings: dict[str, Any], replayed: float
) -> None:
    found = _reserved_with_states_apart(step_parts(full_run(model, dtype, optimizer, length, **settings)))
    assert found / GIB == pytest.approx(replayed, rel=0.03)


def test_short_samples_cost_nothing_beside_the_blocks_of_a_large_model() -> None:
    short, shorter = _full(_LLAMA, "float32", "adamw_torch", 512), _full(_LLAMA, "float32", "adamw_torch", 256)
    assert short.reserved_bytes == pytest.approx(shorter.reserved_bytes, rel=0.003)


def test_preference_tuning_of_all_weights_is_replayed_with_its_reference() -> None:
    """What the reference needs beyond the policy's own step counts as memory of its own."""
    found = _full(_LLAMA, "bfloat16", "adamw_torch", 4096)
    preferred = _full(_LLAMA, "bfloat16", "adamw_torch", 4096, beta=0.1, loss_type="sigmoid")
    assert found.reserved_bytes is not None and preferred.reserved_bytes is not None
    assert preferred.allocated_bytes is not None and preferred.reserved_bytes >= preferred.allocated_bytes
    assert preferred.reserved_bytes > found.reserved_bytes
