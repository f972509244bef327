"""Figures that maintainers of ms-swift, Unsloth, verl, TRL, PEFT, transformers, Axolotl, OpenRLHF, torchtune and Qwen
published, of GLM-4 and fms-acceleration, and users of TRL and transformers' examples, beside memlint's interval for the
same settings.

    python benchmarks/accuracy/published_figures.py          counts, and what lies outside
    python benchmarks/accuracy/published_figures.py --all    every row
    python benchmarks/accuracy/published_figures.py --rl     reinforcement learning, preferences and distillation alone

data/published_figures.jsonl has the settings of each example of ms-swift as its file, the GPUs and GiB of the comment
at its top, the commit that wrote the comment (`source`, `date`), and the release of transformers of that day. A figure
is what the authors saw on a card with samples that are often shorter than `max_length`: below the interval is no
contradiction, above it is. Of Megatron memlint says a lower bound, which no figure may be below. Unsloth's table has
the longest sequence that fits on a card, with Unsloth and with FlashAttention alone: there the figure is the card.

Rows with `reserved_gib` are notebooks of Unsloth's that keep what they printed: PyTorch's peak of reserved memory,
which is the card's without the CUDA context; `release` is the Unsloth that printed it. `allocated_gib`: the peak of its
tensors alone, which memlint's own figure of what is beside them makes one of the card.

Rows of Axolotl have `steps`: it resets PyTorch's peaks after loading (utils/bench.py), so the figure is that of the
steps, which may need less.

Rows with `ran_on_gib` name the cards that the authors ran on: verl's table of the least hardware for a model (commit
2239fd0ff, docs/perf/device_tuning.rst), examples of ms-swift and OpenRLHF. Their interval must begin below the card.

`lengths: vary` marks peaks of what PyTorch reserved, or of the card, over samples of many lengths. The allocator keeps
blocks of other lengths until the card is full: replayed over the lengths of such a data set it reserves 27 GiB where
the same tensors of the longest sample alone reserve 16 (memory/card/allocator.py, Yi 6B up to 4,096 tokens). Such a
figure above the interval is `kept`.

Rows whose file is a Python script say in it what the authors' program calls, where no file of settings can.

`cards_of_a_model`: each process had its layers on so many cards, which settings in a file cannot say.

`why` says why a figure lies outside of its interval. One below is counted as `shorter` where the interval of the same
settings with samples of 128 tokens begins at the figure or below it, else as `below`.
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
SCRIPT = "train.sh"  # where a row is a command
PROGRAM = "train.py"  # where it is what a Python script calls
ROUNDING = 0.5  # GiB: most comments have whole GiB


LENGTHS = ("max_length", "sequence_len", "max_completion_length", "max_new_tokens", "response_length", "packing_length")
SHORT = 128  # tokens
# What marks a row of reinforcement learning, preferences or distillation, in the frameworks' own keys.
RL_KEYS = ("rlhf_type", "actor_rollout_ref", "num_generations", "actor_num_gpus_per_node", "ref_pretrain")


def figures() -> Iterator[tuple[dict[str, Any], Estimate]]:
    """Each figure with the estimate of its settings."""
    for line in FIGURES.read_text(encoding="utf-8").splitlines():
        row = {"gpu": CARD, **json.loads(line)}
        yield row, _estimate(row)


def _estimate(row: dict[str, Any]) -> Estimate:
    main = next(name for name in (MAIN, SCRIPT, PROGRAM) if name in row["files"])
    return analyser_of(row, {}, Engine(())).analyse(main, fixes=False).analyses[0].estimates[0]


def is_rl(row: dict[str, Any]) -> bool:
    return any(key in row["files"].get(MAIN, {}) for key in RL_KEYS)


def judged(row: dict[str, Any], found: Estimate) -> str:
    """Where a row's figure lies, or whether its run may fit the card that it ran on."""
    if "cards_of_a_model" in row:
        return "unknown"
    if "ran_on_gib" in row:
        return _beside_its_card(row["ran_on_gib"], found)
    where = place(on_card(row, found), found)
    if where == "ABOVE" and row.get("lengths") == "vary":
        return "kept"
    return "shorter" if where == "below" and _fits_short_samples(row) else where


def _beside_its_card(gib: float, found: Estimate) -> str:
    low = found.device_low_bytes if found.device_bytes is not None else found.allocated_low_bytes
    if low is None:
        return "unknown"
    return "ran" if low / GIB <= gib else "OVER ITS CARD"


def _fits_short_samples(row: dict[str, Any]) -> bool:
    """Whether samples far shorter than their bound explain a figure below the interval."""
    settings = row["files"].get(MAIN, {})
    if not settings or settings.get("sample_packing") or settings.get("packing"):
        return False
    shorter = {key: min(SHORT, value) for key, value in settings.items() if key in LENGTHS and isinstance(value, int)}
    short = _estimate({**row, "files": {**row["files"], MAIN: {**settings, **shorter}}})
    return (short.device_low_bytes or 0) / GIB <= on_card(row, short) + ROUNDING


def place(gib: float, found: Estimate) -> str:
    """Where a figure lies: inside of the interval, below or above it; `bound`: not below a lower bound."""
    if found.device_bytes is None:
        low = found.allocated_low_bytes
        return "unknown" if low is None else "bound" if low / GIB <= gib + ROUNDING else "BELOW BOUND"
    low, high = (found.device_low_bytes or 0) / GIB, (found.device_unclamped_high_bytes or 0) / GIB
    return "below" if gib + ROUNDING < low else "ABOVE" if gib - ROUNDING > high else "inside"


def on_card(row: dict[str, Any], found: Estimate) -> float:
    """The row's figure in GiB of the card: what PyTorch reserved or allocated, and memlint's figure of what is beside
    it."""
    within = found.allocated_bytes if "allocated_gib" in row else found.reserved_bytes
    beside = (found.device_bytes or 0) - (within or 0)
    gib: float = row["gib"] if "gib" in row else row.get("allocated_gib", row.get("reserved_gib")) + beside / GIB
    return gib + _more_to_load(found) / GIB if "steps" in row else gib


def _more_to_load(found: Estimate) -> int:
    """Bytes that loading needs beyond every step."""
    by_phase = {phase.name: phase.allocated_bytes for phase in found.phases}
    load = by_phase.pop("load", 0)
    return max(0, load - max(by_phase.values(), default=load))


PLACES = ("inside", "shorter", "kept", "bound", "ran", "below", "ABOVE", "unknown", "BELOW BOUND", "OVER ITS CARD")
_OUTSIDE = ("below", "ABOVE", "BELOW BOUND", "OVER ITS CARD")


def lines() -> list[str]:
    """GPU memory that authors wrote beside their settings, on the card or as PyTorch reserved it."""
    table = [(row, found, judged(row, found)) for row, found in figures()]
    counts: dict[str, Counter[str]] = {}
    for row, _, where in table:
        counts.setdefault(_repository(row), Counter())[where] += 1
    shown = [place for place in PLACES if any(count[place] for count in counts.values())]
    found = ["| figures of | " + " | ".join(shown) + " |", "|---" * (1 + len(shown)) + "|"]
    for name, count in sorted(counts.items(), key=lambda item: -item[1].total()):
        found.append(f"| {name} | " + " | ".join(str(count[place]) for place in shown) + " |")
    total = sum(counts.values(), Counter[str]())
    found.append("| all | " + " | ".join(str(total[place]) for place in shown) + " |")
    return [
        "`shorter`: samples far shorter than their bound explain a figure below the interval. `kept`: above it, over",
        "samples of many lengths, of which PyTorch's allocator keeps blocks until the card is full. `bound`: not below",
        "a lower bound, where memlint says no more. `ran`: the interval begins below the card that the authors ran on.",
        "",
        *found,
        "",
        "Outside of the interval:",
        "",
        *(f"- {_line(*one).strip()}" for one in table if one[2] in _OUTSIDE),
    ]


def _repository(row: dict[str, Any]) -> str:
    parts = row["source"].split("/")
    return "/".join(parts[3:5]) if parts[2] == "github.com" else str(parts[2])


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--all", action="store_true", help="every row, not only what lies outside")
    arguments.add_argument("--rl", action="store_true", help="rows of reinforcement learning and its relatives alone")
    asked, counts = arguments.parse_args(), Counter[str]()
    for row, found in figures():
        if asked.rl and not is_rl(row):
            continue
        where = judged(row, found)
        counts[where] += 1
        if asked.all or where.isupper() or where == "below":
            print(_line(row, found, where))
    print(", ".join(f"{count} {where}" for where, count in counts.most_common()))
    return 0


def _line(row: dict[str, Any], found: Estimate, where: str) -> str:
    gib = row.get("ran_on_gib") or on_card(row, found)
    origin = row["source"].partition("/blob/")[2] or row["source"].partition("//")[2]
    why = f"; {row['why']}" if "why" in row else ""
    return f"{where:13} {row['gpus']} x {gib:<5.4g} {_said(found)}  {origin}{why}"


def _said(found: Estimate) -> str:
    if found.device_bytes is None:
        return "; ".join(one.reason for one in found.unknown)[:90]
    spans = (found.device_low_bytes, found.device_bytes, found.device_unclamped_high_bytes)
    low, central, high = ((size or 0) / GIB for size in spans)
    return f"{central:.1f} GiB ({low:.1f} to {high:.1f})"


if __name__ == "__main__":
    raise SystemExit(main())
