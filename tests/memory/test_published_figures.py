"""Figures that maintainers published, beside memlint's: lower bounds lie below all of them, intervals hold most."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

from benchmarks.accuracy.published_figures import figures, is_rl, judged
from memlint.memory.values import Estimate

Row = tuple[dict[str, Any], Estimate, str]


@cache
def rows() -> tuple[Row, ...]:
    return tuple((row, found, judged(row, found)) for row, found in figures())


def test_published_figures_lie_where_they_may() -> None:
    found = Counter(where for row, _, where in rows() if "gib" in row)
    assert found["BELOW BOUND"] == 0
    assert found["bound"] >= 48
    assert found["inside"] + found["shorter"] >= 205
    assert found["below"] <= 5
    assert all("why" in row for row, _, where in rows() if where in ("ABOVE", "below"))
    assert found["ABOVE"] <= 16  # half of these have audio or video, whose length the settings do not say


def test_reserved_memory_over_many_lengths_is_never_below_the_interval() -> None:
    """PyTorch's allocator keeps blocks of every length that it met; the tensors of the longest sample are the least."""
    found = Counter(where for row, _, where in rows() if row.get("lengths") == "vary" and "reserved_gib" in row)
    assert found["kept"] >= 50
    assert found["below"] == found["BELOW BOUND"] == 0


def test_no_run_is_said_to_need_more_than_the_card_that_it_ran_on() -> None:
    found = Counter(where for row, _, where in rows() if "ran_on_gib" in row)
    assert found["ran"] >= 40 and set(found) == {"ran"}


def test_reinforcement_learning_has_rows_of_four_frameworks() -> None:
    mine = [row for row, _, where in rows() if is_rl(row) and where != "unknown"]
    assert len(mine) >= 50
    assert all(row["source"].startswith("https://") for row in mine)
    assert {row["engine"] for row in mine} >= {"transformers", "verl", "trl", "openrlhf"}


def test_notebooks_of_unsloth_reserve_what_they_printed() -> None:
    """Scripts that compare texts, or quantise while they train, have a lower bound. A model is not in the catalog, and
    one figure is of other settings than its notebook's."""
    found = [(row, where) for row, _, where in rows() if "release" in row and "unslothai" in row["source"]]
    counts = Counter(where for _, where in found)
    assert counts["inside"] >= 49 and counts["shorter"] <= 21 and counts["bound"] <= 13
    assert counts["unknown"] == counts["below"] == 1 and counts["BELOW BOUND"] == 0
    assert [row["release"] for row, where in found if where == "ABOVE"] == ["2024.1"]  # with PyTorch 2.1
