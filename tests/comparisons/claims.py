"""Public configs whose authors name the cards that they ran on or died on: what memlint says of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from memlint.ruleset.engine import Engine
from memlint.ruleset.shipped import shipped
from tests.comparisons.threads import GIB, MAIN, analyser_of

CLAIMS = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "claims.jsonl"
# "over": an error, the run does not go on these cards. "if": a warning that says on what it depends, be it a batch of
# sequences that are all as long as the limit or cards that each hold the whole model.
ANSWERS = ("fits", "tight", "if", "over", "unknown")
# What memlint said of the last 73 configs as it was when they were written down.
_FRESH = """
The last 73 of them were written down before memlint was asked. What it said of those, before anything was mended:

| fresh configs | fits | tight | if | over | unknown |
|---|---|---|---|---|---|
| that ran | 29 | 10 | 0 | 1 | 12 |
| that died | 8 | 6 | 3 | 17 | 3 |

- 27 of the answers have a figure of the author's beside them: 9 inside the interval, 16 within 15 % of it
"""
_OVER = "MEM001"
_NEAR = 0.15


class Answer(NamedTuple):
    """What memlint says of one config."""

    outcome: str
    said: str
    low: float  # GiB on the card
    high: float
    usable: float
    shown: float  # GiB that the author names; 0 where none

    @property
    def wrong(self) -> bool:
        """Whether the answer is against what happened."""
        against = ("if", "over") if self.outcome == "fitted" else ("fits",)
        return self.said in against


def claims() -> Iterator[dict[str, Any]]:
    for line in CLAIMS.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


@cache
def answers() -> list[tuple[dict[str, Any], Answer]]:
    """Every claim with memlint's answer under the rules that are on by default."""
    engine = Engine(tuple(rule for rule in shipped() if "default" in rule.profiles and not rule.preview))
    return [(claim, _answer(claim, run, engine)) for claim in claims() for run in claim["runs"]]


def _answer(claim: dict[str, Any], run: dict[str, Any], engine: Engine) -> Answer:
    analysis = analyser_of(claim, run, engine).analyse(MAIN, fixes=False).analyses[0]
    estimate = analysis.estimates[0]
    over = any(finding.rule == _OVER and finding.severity == "error" for finding in analysis.findings)
    said = estimate.verdict if estimate.verdict != "out_of_memory" else "over" if over else "if"
    low, high = ((size or 0) / GIB for size in (estimate.device_low_bytes, estimate.device_high_bytes))
    return Answer(run["outcome"], said, low, high, estimate.budget_bytes / GIB, run.get("shown_gib") or 0.0)


def lines() -> list[str]:
    """Configs whose authors name their cards: answers by what happened, and the GiB that authors name."""
    table = answers()
    found = ["| configs | " + " | ".join(ANSWERS) + " |", "|---" * (1 + len(ANSWERS)) + "|"]
    for outcome, label in (("fitted", "that ran"), ("died", "that died")):
        counts = [sum((one.outcome, one.said) == (outcome, said) for _, one in table) for said in ANSWERS]
        found.append(f"| {label} | " + " | ".join(map(str, counts)) + " |")
    ran = [one for _, one in table if one.outcome == "fitted"]
    alarms, conditions = (sum(one.said == said for one in ran) for said in ("over", "if"))
    shown = [one for _, one in table if one.shown and one.high]
    inside = sum(one.low <= one.shown <= one.high for one in shown)
    near = sum((1 - _NEAR) * one.low <= one.shown <= (1 + _NEAR) * one.high for one in shown)
    unsloth = [one for claim, one in table if any(file.get("use_unsloth") for file in claim["files"].values())]
    filled = sum(one.low <= one.usable <= one.high for one in unsloth)
    said = [
        "Facts are in benchmarks/data/claims.jsonl. `if` is a warning that names its condition: a batch of sequences",
        "all as long as the limit, or cards that each hold the whole model; `over` is an error.",
        "",
        *found,
        "",
        f"- {len(ran)} configs that ran: {alarms} called out of memory, {conditions} under a condition",
        f"- {len(shown)} of all configs come with a figure: {inside} inside the interval, {near} within 15 % of it",
        f"- {len(unsloth)} are Unsloth's, most with the longest sequence that fits: the card lies inside {filled}"
        f" of the intervals, {sum(one.wrong for one in unsloth)} answers are against what happened",
        *_FRESH.splitlines(),
        "",
        "Answers against what happened:",
        "",
    ]
    return said + [
        f"- [{claim['source']}]({claim['url']}) {one.outcome}, memlint: {one.said}. {claim['why']}."
        for claim, one in table
        if one.wrong
    ]
