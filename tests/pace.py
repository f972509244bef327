"""How fast the machine is at the moment: bounds in seconds are meant for an idle desktop."""

from __future__ import annotations

import time

_STEPS = 500_000
_SECONDS = 0.0125  # of an idle desktop, for so many steps


def pace() -> float:
    """How many times slower this machine is now; at least 1."""
    begun = time.perf_counter()
    total = 0
    for step in range(_STEPS):
        total += step
    return max(1.0, (time.perf_counter() - begun) / _SECONDS)
