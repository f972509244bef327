"""The releases of transformers and PEFT that a release of ms-swift runs on. What it takes of TRL changes no figure."""

from __future__ import annotations

from memlint.formats.trainer_names import Taken

# Requires-Dist of each wheel, 2.6.0 to 4.6.0.
TAKES: Taken = (
    ((4, 6), {"transformers": (5, 19), "peft": (0, 20)}),
    ((4, 5), {"transformers": (5, 16), "peft": (0, 20)}),
    ((4, 3), {"transformers": (5, 12), "peft": (0, 19)}),
    ((4, 2), {"transformers": (5, 8), "peft": (0, 19)}),
    ((4, 1), {"transformers": (5, 6), "peft": (0, 19)}),
    ((4,), {"transformers": (5, 3), "peft": (0, 18)}),
    ((3, 11), {"transformers": (4, 57), "peft": (0, 18)}),
    ((3, 9), {"transformers": (4, 57), "peft": (0, 17)}),
    ((3, 8), {"transformers": (4, 56), "peft": (0, 17)}),
    ((3, 6), {"transformers": (4, 52), "peft": (0, 15)}),
    ((3, 4), {"transformers": (4, 52), "peft": (0, 15)}),
    ((3, 2), {"transformers": (4, 49), "peft": (0, 14)}),
    ((3,), {"transformers": (4, 47), "peft": (0, 14)}),
    ((), {"transformers": (4, 47), "peft": (0, 12)}),
)
