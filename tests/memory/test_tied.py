"""Tied embeddings: one table, held once, gathered for both of its uses."""

from __future__ import annotations

import pytest

from memlint.memory import estimate
from memlint.memory.values import Estimate
from memlint.run import Fsdp, Parallelism, Run
from tests.memory.runs import run

TABLE = 16000 * 256


def sharded(tied: bool, ranks: int = 4) -> Run:
    found = run({"vocab_size": 16000, "tie_word_embeddings": tied})
    return found._replace(parallelism=Parallelism(ranks, ranks, ranks, engine="fsdp", fsdp=Fsdp(version=2)))


def resident(found: Estimate) -> int:
    assert found.allocated_bytes is not None, found.unknown
    return found.details["resident_bytes"]


def test_fsdp2_holds_one_table_of_a_tied_model() -> None:
    apart, tied = estimate(sharded(False)), estimate(sharded(True))
    share = TABLE // 4
    assert resident(apart) - resident(tied) == pytest.approx(3 * 2 * share, rel=0.01)  # bf16: weight, two moments


def test_fsdp2_gathers_a_tied_table_for_the_whole_step() -> None:
    """The embedding is of the root's group then, which stays whole (accelerate 1.15 utils/fsdp_utils.py:857)."""
    found = estimate(sharded(True))
    forward = next(phase for phase in found.phases if phase.name == "forward")
    assert forward.components["weights"] > found.details["weights_bytes"] + 2 * TABLE
