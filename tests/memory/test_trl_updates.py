"""Log-probabilities of a completion's labels, by release of TRL: beside its own trainers' steps on fake tensors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.referee.engine_phases import estimate_of
from benchmarks.referee.trl_updates import DATA, TRAINERS, file_of, predicted
from memlint.memory.values import Phase

_CLOSE = {False: 0.025, True: 0.05}
CASES: list[dict[str, Any]] = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
LIGER = next(case for case in CASES if case["liger"] and case["B"] == 4)


@pytest.mark.parametrize(
    "case", CASES, ids=lambda one: f"{one['trl']}-{one['trainer']}-{one['config_class']}-{one['B']}"
)
def test_each_phase_is_the_simulated_one(case: dict[str, Any]) -> None:
    said = predicted(case)
    # Of half the logits, the last hidden states that a forward without gradients drops are twice the share.
    assert {name: said[name] for name in case["result"]} == pytest.approx(case["result"], rel=_CLOSE["half" in case])


def test_every_way_to_select_is_among_the_cases() -> None:
    assert {(tuple(case["trl"]), case["trainer"]) for case in CASES} == {
        (release, trainer) for release in ((0, 29), (1, 9), (1, 14), (1, 16)) for trainer in TRAINERS
    }


def phases(case: dict[str, Any], release: tuple[int, ...], **changes: Any) -> dict[str, Phase]:
    found = estimate_of(file_of(case) | changes, case["config"], versions={"trl": release})
    return {one.name: one for one in found.phases}


def test_under_ligers_loss_the_reference_still_builds_the_logits() -> None:
    with_liger, without = (phases(LIGER, (1, 9), use_liger_kernel=liger) for liger in (True, False))
    assert with_liger["reference"].components["logits"] == without["reference"].components["logits"] > 0
    assert with_liger["forward"].allocated_bytes < without["forward"].allocated_bytes


def test_a_divided_copy_costs_a_tensor_of_logits_more_than_one_written_in_place() -> None:
    case = next(case for case in CASES if case["B"] == 4)
    copied, in_place = (phases(case, release)["reference"].allocated_bytes for release in ((0, 29), (1, 9)))
    logits = 4 * case["B"] * (case["S"] // 2 + 1) * case["config"]["vocab_size"]
    assert copied - in_place == pytest.approx(logits / 2, rel=0.01)


def test_the_release_alone_decides_how_labels_are_selected() -> None:
    peaks = [
        phases(LIGER, release, use_liger_kernel=False)["backward"].allocated_bytes for release in ((0, 17), (0, 29))
    ]
    assert peaks[0] == peaks[1] > phases(LIGER, (1, 14), use_liger_kernel=False)["backward"].allocated_bytes
