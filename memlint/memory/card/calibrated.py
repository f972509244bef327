"""The closed-form estimate with its interval narrowed by the user's own measurements of the same stack."""

from __future__ import annotations

from collections.abc import Callable

import memlint.memory.card.device as device
from memlint.memory.card.calibration import measured_interval
from memlint.memory.card.measurements import Measurement
from memlint.memory.estimate import estimate_as_it_stands
from memlint.memory.unknown.readings import over_readings
from memlint.memory.values import Assumption, Estimate
from memlint.run import Run


def calibrated(measurements: tuple[Measurement, ...]) -> Callable[[Run], Estimate]:
    """An estimator that uses these measurements. They change the card's interval, never the figure for tensors."""

    def one_reading(run: Run) -> Estimate:
        return with_measurements(estimate_as_it_stands(run), run, measurements)

    return lambda run: over_readings(run, one_reading)


def with_measurements(estimated: Estimate, run: Run, measurements: tuple[Measurement, ...]) -> Estimate:
    """`estimated` with a narrower interval, if there are at least three measurements of this stack."""
    low, middle, high = estimated.device_low_bytes, estimated.device_bytes, estimated.device_high_bytes
    if low is None or middle is None or high is None:
        return estimated
    measured = measured_interval(middle, low, high, run, measurements, estimated.reserved_bytes or middle)
    if not measured.basis:
        return estimated
    assumption = Assumption("device_bytes", f"{measured.low >> 20} to {measured.high >> 20} MiB", measured.basis)
    return estimated._replace(
        device_bytes=measured.device,
        device_low_bytes=measured.low,
        device_high_bytes=measured.high,
        device_unclamped_high_bytes=measured.high,
        verdict=device.verdict(measured.low, measured.high, estimated.budget_bytes),
        assumptions=(*estimated.assumptions, assumption),
    )
