"""Public threads about verl's and ms-swift's memory: the verdict, the phase of the peak, and what happened.

    python benchmarks/accuracy/rollout_threads.py

data/rollout_threads.jsonl has the facts of each thread as a file of memlint's formats, what the thread leaves open and
was filled in (`assumed`), and what happened: `died`, `fitted`, and `gib` where somebody gives a figure for the card.
`trust` is partial where a part of the script alone is quoted.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import tests.comparisons.threads as all_threads
from benchmarks.command import parser
from memlint.memory.values import Estimate
from memlint.ruleset.engine import Engine
from tests.comparisons.threads import GIB, MAIN, analyser_of, judge

THREADS = Path(__file__).resolve().parents[1] / "data" / "rollout_threads.jsonl"


def threads() -> Iterator[tuple[dict[str, Any], dict[str, Any], Estimate]]:
    """Each variant of a thread with its estimate."""
    for line in THREADS.read_text(encoding="utf-8").splitlines():
        thread = json.loads(line)
        for run in thread["runs"]:
            analysis = analyser_of(thread, run, Engine(())).analyse(MAIN, fixes=False).analyses[0]
            yield thread, run, analysis.estimates[0]


def agrees(outcome: str, found: Estimate) -> bool:
    """A run that died may not be said to fit, one that ran may not be said to die."""
    return found.verdict != ("fits" if outcome == "died" else "out_of_memory")


def main() -> int:
    parser(__doc__).parse_args()
    wrong, kinds = 0, Counter[tuple[str, str, str]]()
    for thread, run, found in threads():
        span = f"{(found.device_low_bytes or 0) / GIB:.1f} to {(found.device_high_bytes or 0) / GIB:.1f} GiB"
        said = f", somebody says {run['gib']}" if "gib" in run else ""
        said += ", partly quoted" if thread["trust"] == "partial" else ""
        reason = "; ".join(one.reason for one in found.unknown) or f"{span} of {found.budget_bytes / GIB:.1f}{said}"
        print(f"{thread['thread']:28} {run['outcome']:7} {found.verdict:14} {found.peak_phase:18} {reason}")
        against = found.verdict != "unknown" and not agrees(run["outcome"], found)
        wrong += against
        kinds[(_framework(thread["thread"]), run["outcome"], found.verdict)] += 1
        if against:
            print(f"{'':28} {thread.get('why', 'NOBODY SAYS WHY')}")
    print(f"{wrong} of them contradict what happened")
    for thread in all_threads.threads():
        if "left_out" not in thread and _framework(thread["thread"]) not in ("others", "verl"):
            for run in thread["runs"]:
                kinds[(_framework(thread["thread"]), run["outcome"], judge(thread, run).verdict)] += 1
    for (framework, outcome, verdict), count in sorted(kinds.items()):
        print(f"{framework:9} {outcome:7} {verdict:14} {count}")
    return 0


_FRAMEWORKS = {"verl": "verl", "TinyZero": "verl", "ms-swift": "ms-swift", "unsloth": "Unsloth"} | {
    **dict.fromkeys(("open-r1", "VLM-R1", "R1-V"), "TRL GRPO"),
}


def _framework(thread: str) -> str:
    name = thread.partition("#")[0].partition("/")[2]
    return _FRAMEWORKS.get(name, "others")


if __name__ == "__main__":
    raise SystemExit(main())
