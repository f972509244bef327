"""Runs without a figure, by reason: `python benchmarks/corpus/unknown_runs.py FOLDER [--then FILE] [--save FILE]`.

FOLDER holds configs, scripts and repositories; they are read as `memlint estimate .` reads a folder, for 8 cards of
80 GB. Below the reasons stand sums: files that train nothing (an engine's file without a model, an export, a file that
leaves the model to a command, training on a service), runs with a figure for each reading, runs with a lower bound, and
runs with neither.
`--save` writes the counts, `--then` prints those of an earlier state beside them. Names and figures in a reason are
left out, so that reasons of one kind count together.
"""

from __future__ import annotations

import collections
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser

Counts = Mapping[str, int]
CARDS = ("--gpu", "A100-80GB", "--gpus", "8")
_READINGS = re.compile(r"[\w ]+ not known: [\d.]+ GiB")
_NAME = re.compile(r"`[^`]*`")
_FIGURE = re.compile(r"[\d.]+(?= GiB| tokens)")
# The first words of reasons that no reader can remove.
NO_MODEL = "the model's dimensions are unknown"
WITHOUT_STEP = "an export merges and saves weights"
ELSEWHERE = "HatcheryPlugin: the training runs on somebody else's machines"
NOT_NAMED = "the model is not named (`...`)"  # verl's own files, over which a command writes
_ENGINE = "a file of an engine alone, which names no model"
_READING = "figures for each reading"
_BOUND = "a lower bound alone: pipeline stages, Megatron"
# What a run has instead of a figure.
GROUPS = ("have a figure for each reading", "have a lower bound", "train nothing by themselves", "have neither")
_EACH_READING, _LOWER_BOUND, _NOTHING, _NEITHER = GROUPS


def report(folder: Path, below: str = ".", cards: Sequence[str] = CARDS) -> dict[str, Any]:
    """What `memlint estimate` says of the files `below` the folder."""
    command = [sys.executable, "-m", "memlint", "estimate", below, "--format", "json", "--isolated", *cards]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def counts(runs: list[dict[str, Any]]) -> collections.Counter[str]:
    """Runs by the reason why they have no figure."""
    return collections.Counter(kind(one) for one in runs if one["verdict"] == "unknown")


def kind(run: Mapping[str, Any]) -> str:
    """The first reason, without names; of a file that holds an engine's settings alone, that."""
    reasons = run["unknown"]
    if not reasons:
        return "no reason"
    text = _NAME.sub("`...`", reasons[0]["reason"])
    if _READINGS.match(text):
        return f"{_READING}: {text.partition(':')[0]}"
    if text.startswith("at least "):
        return _BOUND
    if run["purpose"] == "partial" and text.startswith(NO_MODEL):
        return _ENGINE
    if text.startswith(WITHOUT_STEP):
        return text.split(": ")[0]
    why, bound, least = _FIGURE.sub("...", text).partition(": at least ...")
    return f"{why[:110]}{bound}{least[:50]}"


def group(reason: str) -> str:
    """Which of `GROUPS` a run with that reason belongs to."""
    if reason in (_ENGINE, NOT_NAMED) or reason.startswith((WITHOUT_STEP, ELSEWHERE)):
        return _NOTHING
    if reason.startswith(_READING):
        return _EACH_READING
    return _LOWER_BOUND if reason == _BOUND or "at least ..." in reason else _NEITHER


def sums(found: Counts) -> collections.Counter[str]:
    """Runs by `group`."""
    total: collections.Counter[str] = collections.Counter()
    for reason, count in found.items():
        total[group(reason)] += count
    return total


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--save", type=Path, help="write the counts there")
    arguments.add_argument("--then", type=Path, help="counts of an earlier state, to be printed beside")
    asked = arguments.parse_args()
    runs = report(asked.folder)["runs"]
    found = counts(runs)
    before: Counts = json.loads(asked.then.read_text(encoding="utf-8")) if asked.then else {}
    for reason in sorted({*found, *before}, key=lambda one: -max(found[one], before.get(one, 0))):
        print(f"{before.get(reason, '') if asked.then else '':>5} {found[reason]:5}  {reason}")
    print(f"{sum(before.values()) if asked.then else '':>5} {sum(found.values()):5}  of {len(runs)} runs")
    for name, count in sums(found).most_common():
        print(f"{'':>5} {count:5}  {name}")
    if asked.save:
        asked.save.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
