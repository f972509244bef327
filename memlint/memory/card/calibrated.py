"""The closed form, narrowed by the user's own measurements of the same stack."""

from __future__ import annotations

from collections.abc import Callable

import memlint.memory.card.device as device
from memlint.memory.card.calibration import measured_interval
from memlint.memory.card.measurements import Measurement
from memlint.memory.estimate import estimate
from memlint.memory.values import Assumption, Estimate
from memlint.run import Run


def calibrated(known: tuple[Measurement, ...]) -> Callable[[Run], Estimate]:
    """An estimator that uses these measurements. They change the card's interval, never the figure for tensors."""
    return lambda run: with_measurements(estimate(run), run, known)


def with_measurements(found: Estimate, run: Run, known: tuple[Measurement, ...]) -> Estimate:
    """`found` with a narrower interval where there are at least three measurements of this stack."""
    low, middle, high = found.device_low_bytes, found.device_bytes, found.device_high_bytes
    if low is None or middle is None or high is None:
        return found
    span = measured_interval(middle, low, high, run, known)
    if not span.basis:
        return found
    assumption = Assumption("device_bytes", f"{span.low >> 20} to {span.high >> 20} MiB", span.basis)
    return found._replace(
        device_bytes=span.device,
        device_low_bytes=span.low,
        device_high_bytes=span.high,
        device_unclamped_high_bytes=span.high,
        verdict=device.verdict(span.low, span.high, found.budget_bytes),
        assumptions=(*found.assumptions, assumption),
    )
