"""An estimate is found again for equal values, whatever was said where, and never for others."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.architectures import from_config
from memlint.memory import estimate
from memlint.memory.estimate import estimate_uncached
from memlint.memory.estimate_cache import EstimateCache
from memlint.memory.state.parameters import MissingValue
from memlint.run import Origin, replace
from tests.memory import runs


def test_where_a_value_stands_makes_no_other_estimate() -> None:
    run = runs.run()
    moved = run._replace(path="other.yaml", related=("ds.json",), origins={"method.kind": Origin("file", "other.yaml")})

    assert estimate(moved) is estimate(run)


def test_another_value_or_model_makes_another_estimate() -> None:
    run = runs.run()
    wider = runs.run({"hidden_size": 512}).model.architecture
    for other in (replace(run, {"batch.micro_batch_size": 3}), replace(run, {"model.architecture": wider})):
        assert estimate(other) == estimate_uncached(other) != estimate(run)


def test_reasons_are_the_file_s_own_words() -> None:
    """An estimate that is unknown says why in the words of the run at hand."""
    unsaid = {"optimizer.name": Origin("unknown", detail="`${optim}` is filled in elsewhere")}
    run = runs.run(optimizer__name="no_such")._replace(origins=unsaid)

    assert estimate(run._replace(origins={})).unknown[0].reason != estimate(run).unknown[0].reason


def _keeps(found: object) -> bool:
    return True


def test_values_that_cannot_be_compared_are_estimated_all_the_same() -> None:
    run = runs.run()
    run = run._replace(method=run.method._replace(targets=["q_proj"]))
    known = EstimateCache(4)

    assert estimate(run).allocated_bytes == estimate(runs.run()).allocated_bytes
    assert known.get(run.model, (run.method,), lambda: 7, _keeps) == 7
    assert not len(known)


def test_no_more_are_kept_than_room_is_for() -> None:
    known = EstimateCache(20)
    model = runs.run().model
    for number in range(22):
        assert known.get(model, (number,), lambda number=number: number + 1, _keeps) == number + 1
        assert len(known) <= 21

    assert len(known) < 20


def test_what_is_not_to_be_kept_or_fails_is_asked_again() -> None:
    known = EstimateCache(4)
    model = runs.run().model
    answers = iter((3, 5))

    def fails() -> int:
        raise MissingValue("optimizer.name", "unknown")

    assert known.get(model, (), lambda: next(answers), lambda found: found > 3) == 3
    with pytest.raises(MissingValue):
        known.get(model, (), fails, _keeps)
    assert known.get(model, (), lambda: next(answers), _keeps) == 5
    assert known.get(model, (), lambda: next(answers), _keeps) == 5


@pytest.mark.parametrize("changes", [{}, runs.LORA, {"optimizer__name": "adafactor"}, {"checkpointing__mode": "full"}])
def test_what_a_run_holds_is_found_again_for_other_lengths_and_batches(changes: dict[str, Any]) -> None:
    """Placed from an equal run's memory, or anew in an empty one: the same estimate."""
    for length in (64, 640):
        for steps in (1, 4):
            run = runs.run(**changes, sequence__length=length, batch__gradient_accumulation_steps=steps)
            kept = estimate_uncached(run)
            fresh = run._replace(model=run.model._replace(architecture=from_config(runs.TINY)))
            assert kept == estimate_uncached(fresh)
