"""The releases of transformers and PEFT that a release of SkyRL runs on."""

from __future__ import annotations

from memlint.formats.trainer_names import Taken

# Requires-Dist of the wheels, 0.1.0 to 0.4.0; those of skyrl-train are not read.
TAKES: Taken = (
    ((0, 4), {"transformers": (5, 16), "peft": (0, 18)}),
    ((0, 3), {"transformers": (5, 8), "peft": (0, 18)}),
    ((0, 2), {"transformers": (5, 3)}),
    ((0, 1), {"transformers": (4, 57)}),
)
