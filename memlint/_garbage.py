"""When Python looks for reference cycles.

A start makes some sixty thousand objects that all stay: looking at them costs ten milliseconds and finds nothing. So a
process begins without looking, and looks from the second file on, at what came after the start.
"""

from __future__ import annotations

import gc

OBJECTS = 20_000  # between two looks; Python's 700 are for programs that make more cycles than this one


def hold() -> None:
    """No looks until `settle`."""
    gc.disable()


def settle() -> None:
    """What there is now is taken to stay; looks begin, where `hold` had stopped them."""
    if not gc.isenabled():
        gc.freeze()
        gc.set_threshold(OBJECTS, 20, 20)
        gc.enable()
