"""Figures that maintainers of ms-swift and Unsloth published, beside memlint's interval for the same settings.

    python benchmarks/accuracy/published_figures.py          counts, and what lies outside
    python benchmarks/accuracy/published_figures.py --all    every row

data/published_figures.jsonl has the settings of each example of ms-swift as its file, the GPUs and GiB of the comment
at its top, the commit that wrote the comment (`source`, `date`), and the release of transformers of that day. A figure
is what the authors saw on a card with samples that are often shorter than `max_length`: below the interval is no
contradiction, above it is. Of Megatron memlint says a lower bound, which no figure may be below. Unsloth's table has
the longest sequence that fits on a card, with Unsloth and with FlashAttention alone: there the figure is the card.

Rows with `reserved_gib` are notebooks of Unsloth's that keep what they printed: PyTorch's peak of reserved memory,
which is the card's without the CUDA context; `release` is the Unsloth that printed it. The one above its interval was
printed by Unsloth 2024.1 with PyTorch 2.1 and xformers 0.0.22, which are older than what memlint models.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from memlint.memory.values import Estimate
from memlint.ruleset.engine import Engine
from tests.comparisons.threads import GIB, MAIN, analyser_of

FIGURES = Path(__file__).resolve().parents[1] / "data" / "published_figures.jsonl"
CARD = "H200"  # larger than any figure, so that no interval is cut at the card
ROUNDING = 0.5  # GiB: most comments have whole GiB


def figures() -> Iterator[tuple[dict[str, Any], Estimate]]:
    """Each figure with the estimate of its settings."""
    for line in FIGURES.read_text(encoding="utf-8").splitlines():
        row = {"gpu": CARD, **json.loads(line)}
        analysis = analyser_of(row, {}, Engine(())).analyse(MAIN, fixes=False).analyses[0]
        yield row, analysis.estimates[0]


def place(gib: float, found: Estimate) -> str:
    """Where a figure lies: inside of the interval, below or above it; `bound`: not below a lower bound."""
    if found.device_bytes is None:
        low = found.allocated_low_bytes
        return "unknown" if low is None else "bound" if low / GIB <= gib + ROUNDING else "BELOW BOUND"
    low, high = (found.device_low_bytes or 0) / GIB, (found.device_unclamped_high_bytes or 0) / GIB
    return "below" if gib + ROUNDING < low else "ABOVE" if gib - ROUNDING > high else "inside"


def on_card(row: dict[str, Any], found: Estimate) -> float:
    """The row's figure in GiB of the card: what PyTorch reserved, and memlint's figure of what is beside it."""
    beside = (found.device_bytes or 0) - (found.reserved_bytes or 0)
    return row["gib"] if "gib" in row else row["reserved_gib"] + beside / GIB


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--all", action="store_true", help="every row, not only what lies outside")
    every, counts = arguments.parse_args().all, Counter[str]()
    for row, found in figures():
        gib = on_card(row, found)
        where = place(gib, found)
        counts[where] += 1
        if every or where.isupper():
            origin = row["source"].partition("/blob/")[2] or row["source"].partition("//")[2]
            print(f"{where:12} {row['gpus']} x {gib:<5.4g} {_said(found)}  {origin}")
    print(", ".join(f"{count} {where}" for where, count in counts.most_common()))
    return 0


def _said(found: Estimate) -> str:
    if found.device_bytes is None:
        return "; ".join(one.reason for one in found.unknown)[:90]
    spans = (found.device_low_bytes, found.device_bytes, found.device_unclamped_high_bytes)
    low, central, high = ((size or 0) / GIB for size in spans)
    return f"{central:.1f} GiB ({low:.1f} to {high:.1f})"


if __name__ == "__main__":
    raise SystemExit(main())
