"""NeMo-RL's update under FSDP2, beside the simulated steps in benchmarks/data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.referee.nemo_rl_update import predicted

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "nemo_rl_update.jsonl"
CASES: list[dict[str, Any]] = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
# Bytes of a gathered layer of these models in bf16 (20.5 MiB): on a GPU the buffer that the next one is prefetched
# into, which a process group that does nothing does not hold. And the gradient of a layer's output, of 4 x 512 tokens.
GATHERED_LAYER = 25 << 20


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_update_is_the_simulated_one_beside_a_prefetched_layer(case: dict[str, Any]) -> None:
    said = predicted(case)
    assert all(0 <= said[phase] - size <= GATHERED_LAYER for phase, size in case["result"].items())
