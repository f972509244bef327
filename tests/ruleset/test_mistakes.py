"""Mistakes that frameworks refuse or drop: nearly all are reported, and nothing is said of what they take."""

from __future__ import annotations

import pytest

from benchmarks.corpus import mistakes
from memlint.ruleset.engine import Engine
from memlint.ruleset.shipped import shipped


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(tuple(shipped()))


def test_nothing_is_said_of_configurations_that_run(engine: Engine) -> None:
    originals, _ = mistakes.records()
    said = {name: mistakes.said(engine, one["file"], one["content"]) for name, one in originals.items()}
    assert len(said) > 20
    assert not {name: words for name, words in said.items() if words}


def test_nearly_every_mistake_is_reported(engine: Engine) -> None:
    originals, records = mistakes.records()
    sampled = records[::3]
    outcomes = list(mistakes.outcomes(engine, originals, sampled, {name: frozenset() for name in originals}))
    missed = [mistakes.missed(one) for one in outcomes if not one.said]
    assert len(outcomes) > 400
    assert len(missed) <= 0.03 * len(outcomes), missed
