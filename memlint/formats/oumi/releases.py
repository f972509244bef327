"""The releases of transformers, TRL and PEFT that a release of Oumi runs on."""

from __future__ import annotations

from memlint.formats.trainer_names import Taken

# Requires-Dist of each wheel, 0.1.8 to 0.9.
TAKES: Taken = (
    ((0, 9), {"transformers": (5, 16), "trl": (1, 6), "peft": (0, 19)}),
    ((0, 8), {"transformers": (5, 7), "trl": (1, 3), "peft": (0, 19)}),
    ((0, 7), {"transformers": (4, 57), "trl": (0, 26), "peft": (0, 18)}),
    ((0, 6), {"transformers": (4, 57), "trl": (0, 26), "peft": (0, 17)}),
    ((0, 5), {"transformers": (4, 57), "trl": (0, 25), "peft": (0, 17)}),
    ((0, 4), {"transformers": (4, 57), "trl": (0, 21), "peft": (0, 17)}),
    ((0, 2), {"transformers": (4, 51), "trl": (0, 18), "peft": (0, 15)}),
    ((0, 1, 14), {"transformers": (4, 51), "trl": (0, 18), "peft": (0, 14)}),
    ((), {"transformers": (4, 48), "trl": (0, 14), "peft": (0, 14)}),
)
