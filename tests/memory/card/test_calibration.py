"""A user's measurements."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.memory.card import calibration
from memlint.memory.card.measurements import FILE, Measurement, load
from memlint.run import Run

GIB = 1 << 30
RUN = Run("llamafactory", "a.yaml")


def measured(*ratios: float, metric: str = "nvidia-smi") -> list[Measurement]:
    stack = calibration.stack_of(RUN)
    return [Measurement(stack, metric, int(50 * GIB * ratio), 50 * GIB) for ratio in ratios]


@pytest.mark.parametrize(
    ("text", "size"), [("71.5GiB", 76772540416), ("73012MiB", 73012 << 20), ("1.5 GB", 1500000000), ("12", 12)]
)
def test_sizes(text: str, size: int) -> None:
    assert calibration.size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "7O GiB", "-3GiB", "nan"])
def test_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        calibration.size(text)


def test_recorded_measurements_come_back(tmp_path: Path) -> None:
    assert load(str(tmp_path)) == ()
    for one in measured(1.0, 1.1):
        calibration.record(str(tmp_path), one)
    assert load(str(tmp_path)) == tuple(measured(1.0, 1.1))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('[{"stack": 1}]')
    with pytest.raises(ValueError, match="not a list of measurements"):
        load(str(tmp_path))


def test_a_bad_measurement_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown metric"):
        calibration.record(str(tmp_path), Measurement("s", "top", 1, 1))
    with pytest.raises(ValueError, match="positive"):
        calibration.record(str(tmp_path), Measurement("s", "nvidia-smi", 0, 1))
    assert load(str(tmp_path)) == ()


def test_a_few_measurements_narrow_the_interval() -> None:
    found = calibration.measured_interval(50 * GIB, 40 * GIB, 60 * GIB, RUN, measured(0.97, 0.98, 0.99), 49 * GIB)
    assert 40 * GIB < found.low < found.device < found.high < 60 * GIB
    assert found.device == int(50 * GIB * 0.98)
    assert found.basis.startswith("3 measurements of llamafactory")


def test_other_stacks_and_other_metrics_say_nothing() -> None:
    other = [one._replace(stack="another") for one in measured(0.9, 0.9, 0.9)]
    for known in (other, measured(0.9, 0.9), measured(0.9, 0.9, 0.9, metric="max_allocated")):
        assert calibration.measured_interval(50, 40, 60, RUN, known, 45) == calibration.MeasuredInterval(50, 40, 60)


@given(st.lists(st.floats(0.5, 2.0), max_size=6))
def test_an_interval_never_widens(ratios: list[float]) -> None:
    found = calibration.measured_interval(50 * GIB, 45 * GIB, 55 * GIB, RUN, measured(*ratios), 49 * GIB)
    assert found.high - found.low <= 10 * GIB + 1
    assert found.low <= found.device <= found.high


def test_what_pytorch_reserves_says_nothing_of_the_context() -> None:
    """10 of 50 GiB are outside of PyTorch: reserved memory 5 % above its prediction is 4 % of the card's figure."""
    known = measured(1.05, 1.05, 1.05, metric="max_reserved")

    found = calibration.measured_interval(50 * GIB, 40 * GIB, 60 * GIB, RUN, known, 40 * GIB)

    assert found.device == pytest.approx(52 * GIB, rel=1e-9)
