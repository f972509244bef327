"""DPO's log-probabilities by release of TRL, beside its own `_compute_loss` on fake tensors."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.referee.engine_phases import MODEL, beside_the_state, estimate_of
from tests.memory.test_trl_updates import CASES

MIB = 1 << 20
_COPIED, _UNCOPIED = ((0, 29), (1, 0), (1, 5)), ((1, 8),)
# Rows of a micro-batch, tokens, whether DeepSpeed leaves the logits in half precision: MiB of forward and backward.
_FIGURES = {
    _COPIED: [
        (2, 512, False, 592, 527),
        (2, 512, True, 400, 216),
        (4, 1024, False, 2367, 2110),
        (4, 1024, True, 1472, 576),
    ],
    _UNCOPIED: [
        (2, 512, False, 448, 527),
        (2, 512, True, 296, 216),
        (4, 1024, False, 1648, 2111),
        (4, 1024, True, 1112, 576),
    ],
}
_ROWS = [(release, *row) for releases, rows in _FIGURES.items() for release in releases for row in rows]


def _file(rows: int, length: int, half: bool) -> dict[str, Any]:
    return {
        "model_name_or_path": MODEL,
        "dtype": "bfloat16",
        "bf16": not half,
        "beta": 0.1,
        "loss_type": "sigmoid",
        "attn_implementation": "flash_attention_2",
        "per_device_train_batch_size": rows // 2,
        "max_length": length,
        "gradient_checkpointing": True,
        "gradient_checkpointing_kwargs": {"use_reentrant": False},
        "optim": "sgd",
        "output_dir": "o",
    }


@pytest.mark.parametrize(("release", "rows", "length", "half", "forward", "backward"), _ROWS)
def test_each_phase_is_the_simulated_one(
    release: tuple[int, ...], rows: int, length: int, half: bool, forward: int, backward: int
) -> None:
    config = next(case["config"] for case in CASES if case["config_class"] == "MistralConfig")
    said = beside_the_state(estimate_of(_file(rows, length, half), config, versions={"trl": release}))
    assert (said["forward"] / MIB, said["backward"] / MIB) == pytest.approx((forward, backward), rel=0.005)
