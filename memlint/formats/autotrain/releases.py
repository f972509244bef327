"""The releases of transformers, TRL and PEFT that a release of AutoTrain pins."""

from __future__ import annotations

from collections.abc import Mapping

from memlint.formats.base import Context
from memlint.formats.trainer_names import with_brought_releases
from memlint.formats.versions import Version

NEWEST: Version = (0, 8, 36)
# From which release of AutoTrain it pins what (Requires-Dist of each wheel).
_PINS: tuple[tuple[Version, Mapping[str, Version]], ...] = (
    ((0, 8, 36), {"transformers": (4, 48), "trl": (0, 13), "peft": (0, 14)}),
    ((0, 8, 34), {"transformers": (4, 47), "trl": (0, 13), "peft": (0, 14)}),
    ((0, 8, 28), {"transformers": (4, 46), "trl": (0, 12), "peft": (0, 13)}),
    ((0, 8, 24), {"transformers": (4, 45), "trl": (0, 11), "peft": (0, 13)}),
    ((0, 8, 16), {"transformers": (4, 44), "trl": (0, 10), "peft": (0, 12)}),
    ((0, 8, 12), {"transformers": (4, 44), "trl": (0, 9), "peft": (0, 12)}),
    ((0, 8, 8), {"transformers": (4, 43), "trl": (0, 9), "peft": (0, 11)}),
    ((0, 7, 129), {"transformers": (4, 41), "trl": (0, 9), "peft": (0, 11)}),
    ((), {"transformers": (4, 40), "trl": (0, 8), "peft": (0, 10)}),
)


def with_releases(context: Context) -> Context:
    """The context with the releases that AutoTrain pins, where nobody states them."""
    stated = context.versions.get("autotrain-advanced", NEWEST)
    pins = next(found for since, found in _PINS if stated >= since)
    return with_brought_releases(context, pins, f"autotrain-advanced {'.'.join(map(str, stated))} pins it")
