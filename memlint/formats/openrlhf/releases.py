"""The releases of transformers and DeepSpeed that a release of OpenRLHF pins."""

from __future__ import annotations

from memlint.formats.trainer_names import Taken

# Requires-Dist of the wheels of these releases.
TAKES: Taken = (
    ((0, 11, 2), {"transformers": (5, 15), "deepspeed": (0, 19, 6)}),
    ((0, 11), {"transformers": (5, 15), "deepspeed": (0, 19, 5)}),
    ((0, 10, 4), {"transformers": (5, 7), "deepspeed": (0, 19, 1)}),
    ((0, 9, 10), {"transformers": (5, 5), "deepspeed": (0, 18, 9)}),
    ((0, 9), {"transformers": (4, 57), "deepspeed": (0, 18, 1)}),
    ((0, 8, 11), {"transformers": (4, 56), "deepspeed": (0, 17, 6)}),
    ((0, 8), {"transformers": (4, 51), "deepspeed": (0, 16, 7)}),
    ((0, 7), {"transformers": (4, 50), "deepspeed": (0, 16, 5)}),
    ((0, 5, 9), {"transformers": (4, 48), "deepspeed": (0, 16, 3)}),
    ((0, 5), {"transformers": (4, 46), "deepspeed": (0, 15)}),
    ((), {"transformers": (4, 43), "deepspeed": (0, 14, 4)}),
)
# The last release whose flags have no sections.
LAST_WITHOUT_SECTIONS = (0, 10, 1)
