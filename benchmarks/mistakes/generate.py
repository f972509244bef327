"""Makes benchmarks/data/mistakes.jsonl: `python benchmarks/mistakes/generate.py SOURCES`.

SOURCES holds the unpacked packages llamafactory-0.9.5, trl-1.16.0, axolotl-0.19.0 and deepspeed-0.19.8; transformers
5.23.0, peft 0.21.2, accelerate 1.15.0 and torch must be installed. Every change of an original goes to the framework:
one that it refuses, or whose key it drops, is a mistake. An original that its framework refuses ends the script. At
most `MOST` mistakes of one kind, and two with the same words of refusal, are kept for each original.
"""

from __future__ import annotations

import argparse
import collections
import json
import logging
import random
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.mistakes.changes import Change, applied, candidates
from benchmarks.mistakes.fields import Field, Place, fields_of, options_of
from benchmarks.mistakes.judges import Answer, Judge, judges
from benchmarks.mistakes.originals import EVERY, Original

RECORDS = Path(__file__).resolve().parents[1] / "data" / "mistakes.jsonl"
MOST = 9
MOST_WORDS = 160  # characters of a refusal that are kept
# The judges' transformers is newer than the one that LLaMA-Factory 0.9.5 asks for (5.6): what changed between them is
# no mistake there. Paths and names of things outside of the file are not judged by memlint either.
_NOT_JUDGED = ("warmup_ratio", "_n_gpu", "use_cpu", "no_cuda", "deepspeed", "fsdp", "mp_parameters", "use_mps_device")
# Keys that a command line, or the engine, gives where the file has none.
_MAY_BE_MISSING = {("model_name_or_path",), ("base_model",), ("train_micro_batch_size_per_gpu",)}
# Refusals that say what the judges' machine lacks.
_OF_THIS_MACHINE = r"ImportError|ModuleNotFoundError|not installed|process group|socket|manually pass in|fp8 requested"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=RECORDS)
    words = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    known = judges(words.sources)
    lines = [{"original": name, **original._asdict()} for name, original in EVERY.items()]
    for name, original in EVERY.items():
        found = list(mistakes(name, original, known[original.framework], words.seed))
        print(f"{name}: {len(found)} mistakes", flush=True)
        lines.extend(found)
    words.output.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


def mistakes(name: str, original: Original, judge: Judge, seed: int) -> Iterator[dict[str, Any]]:
    """The mistakes that are kept of one original, as records."""
    answer = judge(original.content)
    if answer.refusal or answer.dropped:
        raise SystemExit(f"{name} is no original: {answer}")
    draw = random.Random(f"{seed} {name}")
    fields: dict[Place, Field] = fields_of(original.framework)
    kinds: collections.Counter[str] = collections.Counter()
    seen: collections.Counter[str] = collections.Counter()
    tried = list(candidates(original.content, fields, options_of(original.framework), draw))
    for change in draw.sample(tried, len(tried)):
        words = _words(change, original, judge) if _is_judged(change) and kinds[change.kind] < MOST else ""
        shape = re.sub(r"\W+\w*", " ", words)[:60] if change.kind in ("combination", "wrong kind or range") else words
        if words and seen[shape] < 2:
            kinds[change.kind] += 1
            seen[shape] += 1
            yield {"of": name, **change._asdict(), "refusal": words}


def _is_judged(change: Change) -> bool:
    if change.kind == "missing" and _MAY_BE_MISSING & set(change.removed):
        return False
    places = (change.place, *change.removed, *(place for place, _ in change.further))
    return all(map(is_judged, places))


def is_judged(place: Place) -> bool:
    return not any(step in _NOT_JUDGED for step in place)


def is_of_this_machine(refusal: str) -> bool:
    return bool(re.search(_OF_THIS_MACHINE, refusal))


def _words(change: Change, original: Original, judge: Judge) -> str:
    """Why the change is a mistake, "" where it is none."""
    content = applied(original.content, change)
    if content == original.content:
        return ""
    answer: Answer = judge(content)
    if is_of_this_machine(answer.refusal):
        return ""
    if answer.refusal:
        return answer.refusal[:MOST_WORDS]
    written = {".".join(change.place), change.place[-1] if change.place else ""}
    return f"dropped: {change.place[-1]}" if written & set(answer.dropped) else ""


if __name__ == "__main__":
    main()
