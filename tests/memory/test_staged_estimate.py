"""A run without a card is estimated where figures are asked for: its tensors first; the allocator is replayed for a
card's figures alone."""

from __future__ import annotations

import sys

import pytest

import memlint.memory.card.first_steps as first_steps
from memlint.hardware import find
from memlint.memory import estimate
from memlint.memory.estimate import estimate_in_stages, trains_nothing
from memlint.memory.state.parameters import MissingValue
from memlint.memory.values import CARD_DETAILS, Estimate, StagedEstimate, TensorEstimate
from memlint.run import UNKNOWN, Origin, Reading, Run, replace
from tests.memory import runs


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """One item for each replay."""
    replayed, found = first_steps.reserved_by_first_steps, []

    def counted(*arguments: object) -> int:
        found.append(arguments)
        return replayed(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(first_steps, "reserved_by_first_steps", counted)
    return found


def _fresh(length: int) -> Run:
    """A run that no other test has estimated."""
    return runs.run(sequence__length=length)


def _reading(given: object) -> Reading:
    return Reading("no length", "of 8 tokens", "", (("sequence.length", 8),), (("sequence.length", given),))


@pytest.fixture
def estimates(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """One item for each estimate that is not cached."""
    module, found = sys.modules["memlint.memory.estimate"], []
    estimate_uncached = module.estimate_uncached

    def counted(*arguments: object, **options: object) -> Estimate:
        found.append(arguments)
        return estimate_uncached(*arguments, **options)  # type: ignore[no-any-return]

    monkeypatch.setattr(module, "estimate_uncached", counted)
    return found


@pytest.mark.parametrize("changes", [{}, runs.LORA, {"sequence__length": UNKNOWN}])
def test_a_verdict_without_a_card_needs_no_estimate(changes: dict[str, object], estimates: list[object]) -> None:
    run = runs.run(**{"sequence__length": 1114, **changes})
    staged = estimate_in_stages(run)
    said = staged.verdict, staged.budget_bytes
    assert not estimates
    assert said == (estimate(run).verdict, estimate(run).budget_bytes) == ("unknown", 0)
    assert estimates


def test_a_card_decides_the_verdict() -> None:
    run = runs.run(hardware__gpu=find("RTX4090"))
    staged = estimate_in_stages(run)
    assert (staged.verdict, staged.budget_bytes) == (estimate(run).verdict, estimate(run).budget_bytes)
    assert staged.budget_bytes


def test_whether_nothing_trains_needs_no_estimate(estimates: list[object]) -> None:
    adapted = runs.run(**runs.LORA)
    assert not trains_nothing(adapted)
    assert trains_nothing(replace(adapted, {"method.targets": ("no_such_module",)}))
    assert not estimates
    with pytest.raises(MissingValue):
        trains_nothing(replace(adapted, {"method.rank": UNKNOWN}))


def test_tensors_are_estimated_without_a_replay(replays: list[object]) -> None:
    run = _fresh(1111)
    staged = estimate_in_stages(run)
    assert isinstance(staged.tensors, TensorEstimate)
    assert not replays
    assert staged.whole is estimate(run)
    assert len(replays) == 1


def test_tensors_are_those_of_the_whole_estimate() -> None:
    staged = estimate_in_stages(_fresh(1112))
    for name in TensorEstimate._fields:
        whole = getattr(staged.whole, name)
        expected = {key: size for key, size in whole.items() if key not in CARD_DETAILS} if name == "details" else whole
        assert getattr(staged.tensors, name) == expected
    assert set(CARD_DETAILS) <= set(staged.whole.details)


@pytest.mark.parametrize(
    "run",
    [
        runs.run(hardware__gpu=find("RTX4090")),  # its card decides the verdict
        runs.run(**runs.LORA),  # nothing is replayed
        runs.run(sequence__length=UNKNOWN),  # there are no figures
    ],
)
def test_what_has_no_second_stage_is_estimated_whole(run: Run) -> None:
    staged = estimate_in_stages(run)
    assert isinstance(staged.tensors, Estimate)
    assert staged.tensors == staged.whole == estimate(run)


def test_readings_of_an_unknown_value_are_estimated() -> None:
    reading = _reading(UNKNOWN)
    run = runs.run(sequence__length=UNKNOWN)._replace(readings=(reading,))
    assert estimate_in_stages(run).whole == estimate(run)
    assert estimate(run).device_bytes is not None


def test_runs_that_need_the_same_are_known_by_their_tensors() -> None:
    run = _fresh(1113)
    one = estimate_in_stages(run)
    reading = _reading(1113)
    assert one.is_of_same_run(estimate_in_stages(run._replace(path="moved.yaml")))
    assert not one.is_of_same_run(estimate_in_stages(replace(run, {"batch.micro_batch_size": 3})))
    assert not one.is_of_same_run(estimate_in_stages(run._replace(readings=(reading,))))
    assert not one.is_of_same_run(StagedEstimate(one.whole))


def test_runs_of_other_origins_may_have_other_reasons() -> None:
    run = runs.run(sequence__length=UNKNOWN)
    said = run._replace(origins={"sequence.length": Origin("unknown", detail="`$LENGTH` is set elsewhere")})
    assert not estimate_in_stages(run).is_of_same_run(estimate_in_stages(said))
