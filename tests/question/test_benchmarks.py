"""The tables of benchmarks/accuracy about questions and caches, as far as they need no PyTorch."""

from __future__ import annotations

import pytest

from benchmarks.accuracy.questions import QUESTIONS, SAYS, lines, rows
from tests.comparisons import generation


def test_sixty_questions_are_answered() -> None:
    found = rows()
    assert len(found) == len(QUESTIONS) == 60
    assert all(row.card >= row.tensors > 0 and row.theirs > 0 for row in found)
    text = "\n".join(lines(found))
    assert all(tool in text and said.source in text for tool, said in SAYS.items())


def test_the_sixty_are_what_was_simulated() -> None:
    """Each has a figure of the referee; memlint is nearer to it than the formula, and within 0.5 %."""
    found = rows()
    assert len(found) == 60
    for row in found:
        assert row.simulated is not None, row.asked
        assert row.nearer == "memlint", row.asked
        assert row.tensors == pytest.approx(row.simulated, rel=0.005), row.asked


@pytest.mark.parametrize("row", generation.rows(), ids=generation.named)
def test_requests_are_the_tensors_that_were_counted(row: generation.Row) -> None:
    """Prefill and decode within 1 % of the simulation, the caches to the byte."""
    mine = generation.estimated(row)
    assert (mine["cached_prompt"], mine["cached"]) == (row["cached_prompt"], row["cached"])
    bound = generation.BOUNDS.get(row["model"], 0.01)
    assert {name: mine[name] for name in generation.PHASES} == {
        name: pytest.approx(row[name], rel=bound) for name in generation.PHASES
    }
