"""Figures that maintainers published, beside memlint's: lower bounds lie below all of them, intervals hold most."""

from __future__ import annotations

from collections import Counter

from benchmarks.accuracy.published_figures import figures, on_card, place


def test_published_figures_lie_where_they_may() -> None:
    found = Counter(place(row["gib"], estimate) for row, estimate in figures() if "gib" in row)
    assert found["BELOW BOUND"] == 0
    assert found["bound"] >= 40
    assert found["inside"] + found["below"] >= 30
    assert found["ABOVE"] <= 7  # most of these have audio or video, whose length the settings do not say


def test_notebooks_of_unsloth_reserve_what_they_printed() -> None:
    rows = [(row, estimate) for row, estimate in figures() if "reserved_gib" in row]
    found = Counter(place(on_card(row, estimate), estimate) for row, estimate in rows)
    assert found["inside"] >= 23 and found["unknown"] == 0
    above = [row["release"] for row, estimate in rows if place(on_card(row, estimate), estimate) == "ABOVE"]
    assert above == ["2024.1"]  # with PyTorch 2.1
