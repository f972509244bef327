"""The tables of benchmarks/accuracy about questions and caches, as far as they need no PyTorch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.accuracy.questions import QUESTIONS, SAYS, lines, rows
from memlint.architectures import catalog
from memlint.memory.evaluation import cache_bytes

CACHES = json.loads((Path(__file__).parents[2] / "benchmarks" / "accuracy" / "kv_cache.json").read_text("utf-8"))


def test_sixty_questions_are_answered() -> None:
    found = list(rows())
    assert len(found) == len(QUESTIONS) == 60
    assert all(row.card >= row.tensors > 0 and row.theirs > 0 for row in found)
    text = "\n".join(lines(found))
    assert all(f"{tool}: " in text and said.source in text for tool, said in SAYS.items())


@pytest.mark.parametrize("row", CACHES, ids=lambda row: row["model"])
def test_caches_are_the_tensors_that_were_counted(row: dict[str, object]) -> None:
    entry = catalog.find(str(row["model"]))
    assert entry is not None
    shape = catalog.architecture(entry)
    expected = [cache_bytes(shape, 2, 5000 + more, 2, after_prefill=not more) for more in (0, 1)]
    assert expected == [row["prefill_simulated"], row["decode_simulated"]]
