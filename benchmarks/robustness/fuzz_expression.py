"""Feeds random expressions to the compiler of the rule language: none may escape it, hang it or crash it.

    python benchmarks/robustness/fuzz_expression.py [COUNT] [SEED]        (default: 100000 1)

Prints how many were refused and compiled, the slowest of each step, and evaluations per second.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from memlint.expressions.facts import Facts, StepLimit
from memlint.expressions.functions import FUNCTIONS
from memlint.expressions.language import ExpressionError, Program, compile_expression
from memlint.expressions.vocabulary import Vocabulary, known_names
from memlint.run import UNKNOWN, Run

NAMES = Vocabulary(("llamafactory",))
FREE = Vocabulary()
PLAIN = (int, float, str, bool, type(None), list, tuple, dict, type(UNKNOWN))
ATOMS = [
    *known_names(),
    *("config.stage", "config.cutoff_len", "config.deepspeed", "deepspeed.zero_optimization.stage", "x", "_", "os"),
    *("0", "1", "-1", "2.5", "1e308", "999999999999999999999", "'a'", "'sft'", '"lm_head"', "'4.57'", "None", "true"),
    *("__builtins__", "__import__", "eval", "type", "().__class__", "[].append", "''.join", "config.__class__"),
    *("[1, 2]", "['a'] * 9", "(1,)", "{}", "{1}", "lambda: 1", "...", "1j", "b'a'", "f'{1}'", "r'(a+)+$'", "r'a*b*'"),
]
BINARY = [
    "and",
    "or",
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "<<",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "in",
    "not in",
    "is",
    "@",
    ":=",
]
CALLS = [
    *FUNCTIONS,
    "has",
    "known",
    "given",
    "enabled",
    "default",
    "origin",
    "version",
    "matches",
    "any",
    "all",
    "open",
]
CONFIGS: list[dict[str, Any]] = [
    {},
    {"stage": "sft", "cutoff_len": 10**300, "deepspeed": {"a": [1] * 100}},
    {"stage": ["a"] * 3_000, "cutoff_len": float("nan"), "deepspeed": None},
    {"stage": "a" * 5_000, "cutoff_len": float("inf"), "deepspeed": "auto"},
]


def expression(pick: random.Random, depth: int = 0) -> str:
    """A text that looks like an expression more often than not."""
    kind = pick.random()
    if depth > 4 or kind < 0.3:
        return pick.choice(ATOMS)
    if kind < 0.6:
        return f"{expression(pick, depth + 1)} {pick.choice(BINARY)} {expression(pick, depth + 1)}"
    if kind < 0.8:
        arguments = ", ".join(expression(pick, depth + 1) for _ in range(pick.randrange(4)))
        return f"{pick.choice(CALLS)}({arguments})"
    if kind < 0.85:
        return f"{pick.choice(['any', 'all'])}({expression(pick, depth + 1)} for x in {expression(pick, depth + 1)})"
    if kind < 0.9:
        return f"not {expression(pick, depth + 1)}"
    if kind < 0.95:
        parts = [expression(pick, depth + 1) for _ in range(3)]
        return f"({parts[0]} if {parts[1]} else {parts[2]})"
    return f"[{expression(pick, depth + 1)}, {expression(pick, depth + 1)}]"


def noise(pick: random.Random) -> str:
    return "".join(
        chr(pick.choice([pick.randrange(32, 127), pick.randrange(0x250)])) for _ in range(pick.randrange(60))
    )


def mutated(pick: random.Random) -> str:
    text = expression(pick)
    for _ in range(pick.randrange(3)):
        place = pick.randrange(len(text) + 1)
        text = (
            text[:place]
            + pick.choice(["(", ")", "'", ".", " ", "\\", "\n", "#", "\0", "é", ""])
            + text[place + pick.randrange(3) :]
        )
    return text


def compiled(text: str, names: Vocabulary) -> Program | None:
    try:
        return compile_expression(text, names)
    except ExpressionError:
        return None


def run(count: int, seed: int) -> Counter[str]:
    pick = random.Random(seed)
    facts = [Facts(Run("llamafactory", "x.yaml"), None, {"config": config}) for config in CONFIGS]
    tally: Counter[str] = Counter()
    slowest = {"compile": 0.0, "evaluate": 0.0}
    spent = 0.0
    for _ in range(count):
        text = pick.choice([expression, expression, mutated, noise])(pick)
        begun = time.perf_counter()
        program = compiled(text, pick.choice([NAMES, FREE]))
        slowest["compile"] = max(slowest["compile"], time.perf_counter() - begun)
        tally["compiled" if program else "refused"] += 1
        for fact in facts if program else ():
            fact.begin({})
            begun = time.perf_counter()
            tally[evaluated(program, fact)] += 1
            took = time.perf_counter() - begun
            spent += took
            slowest["evaluate"] = max(slowest["evaluate"], took)
    evaluations = tally["plain value"] + tally["out of steps"]
    print(f"{count} texts: {dict(tally)}")
    print(f"slowest: compile {1e3 * slowest['compile']:.1f} ms, evaluate {1e3 * slowest['evaluate']:.1f} ms")
    print(f"{evaluations / max(spent, 1e-9):,.0f} evaluations/s")
    return tally


def evaluated(program: Program | None, facts: Facts) -> str:
    assert program is not None
    try:
        value = program.evaluate(facts)
    except StepLimit:
        return "out of steps"
    if not isinstance(value, PLAIN):
        raise SystemExit(f"escaped: {program.form} gives {type(value)}")
    return "plain value"


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("count", nargs="?", type=int, default=100_000)
    arguments.add_argument("seed", nargs="?", type=int, default=1)
    options = arguments.parse_args()
    run(options.count, options.seed)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
