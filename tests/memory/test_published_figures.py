"""Figures that maintainers published, beside memlint's: lower bounds lie below all of them, intervals hold most."""

from __future__ import annotations

from collections import Counter

from benchmarks.accuracy.published_figures import figures, place


def test_published_figures_lie_where_they_may() -> None:
    found = Counter(place(row["gib"], estimate) for row, estimate in figures())
    assert found["BELOW BOUND"] == 0
    assert found["bound"] >= 40
    assert found["inside"] + found["below"] >= 30
    assert found["ABOVE"] <= 7  # most of these have audio or video, whose length the settings do not say
