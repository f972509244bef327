"""Every comparison of the estimate with something that is not the estimate."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median

import benchmarks.accuracy.published_figures as published_figures
import tests.comparisons.card_fit as card_fit
import tests.comparisons.card_rows as card_rows
import tests.comparisons.claims as claims
import tests.comparisons.measured as measured
import tests.comparisons.pairs as pairs
import tests.comparisons.plans_simulated as plans_simulated
import tests.comparisons.random_cases as random_cases
import tests.comparisons.sharding as sharding
import tests.comparisons.simulated as simulated
import tests.comparisons.six_cases as six_cases
import tests.comparisons.threads as threads
import tests.comparisons.verdicts as verdicts

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "accuracy.md"
STEPS = ROOT / "benchmarks" / "data" / "simulated_steps.jsonl"
_HEAD = ["| figure | rows | median | p90 | p95 | worst | lowest |", "|---|---|---|---|---|---|---|"]


def row(name: str, values: Iterable[float]) -> str:
    """One line of a table of relative errors: sizes, and the worst under-prediction."""
    errors = list(values)
    sizes = sorted(abs(value) for value in errors)
    figures = [median(sizes), measured.quantile(sizes, 0.9), measured.quantile(sizes, 0.95), sizes[-1]]
    return f"| {name} | {len(errors)} | " + " | ".join(f"{size:.2%}" for size in figures) + f" | {min(errors):+.2%} |"


def simulated_steps() -> list[str]:
    """19 steps that another script recorded, with the closed form as it is and as the record was taken."""
    found = list(_HEAD)
    for label, as_recorded in (("as recorded", True), ("on CUDA", False)):
        table = [errors for _, errors in simulated.table(str(STEPS), as_recorded)]
        for name in ("peak", "forward", "backward", "optimizer_step"):
            values = [errors[name] for errors in table if name in errors]
            if values:
                found.append(row(f"{name.replace('_', ' ')}, {label}", values))
    return [
        *found,
        "",
        "The record sums gradients of one tensor out of place, leaves fp32 queries uncast for the attention kernel and",
        "runs `pow` in half precision under autocast; CUDA does none of that",
        "(benchmarks/referee/recorded_steps.py says where).",
    ]


def random_steps() -> list[str]:
    """Random steps drawn from seeds, simulated with the real model code."""
    table = [random_cases.errors(one, kept) for one, kept in random_cases.kept()]
    return [
        *_HEAD,
        *(row(name, [errors[name] for errors in table if errors]) for name in ("peak", "forward", "backward")),
    ]


def sharding_grid() -> list[str]:
    """The whole estimate beside DeepSpeed and FSDP on several processes, the fullest rank."""
    found = sharding.estimate_errors(sharding.rows())
    return [*_HEAD, *(row(name, [errors[name] for errors in found.values()]) for name in sharding.PHASES[1:])]


def sharding_mixtures() -> list[str]:
    """The whole estimate beside random mixtures of settings on DeepSpeed and FSDP, the fullest of 2 to 4 ranks."""
    return sharding.mixture_lines(sharding.mixture_rows())


def published() -> list[str]:
    """Published measurements, max_allocated; the card's interval on the same rows."""
    scored, left = measured.published()
    groups: dict[str, list[float]] = {}
    for one in scored:
        groups.setdefault(one.id.split("-")[0], []).append(one.error)
    found = [*_HEAD, *(row(name, values) for name, values in groups.items())]
    found += [row("all", [one.error for one in scored]), ""]
    reasons: dict[str, int] = {}
    for _, reason in left:
        reasons[reason] = reasons.get(reason, 0) + 1
    every = sum(1 for _ in measured.rows(measured.ROWS, low_confidence=True))
    found += [
        f"{len(scored)} of {every} rows are used; {every - len(scored) - len(left)} lack something that moves memory"
    ]
    found += ["(confidence low in the data). Left out of the others:", ""]
    return found + [f"- {count}: {reason}" for reason, count in sorted(reasons.items(), key=lambda item: -item[1])]


def what_happened() -> list[str]:
    """Verdicts on runs that died and on runs that fitted."""
    _, died = verdicts.table()
    scored, _ = measured.published()
    names = ("fits", "tight", "out_of_memory", "unknown", "left out")
    fitted = {name: sum(one.verdict == name for one in scored) for name in names}
    found = ["| runs | " + " | ".join(names) + " |", "|---" * 6 + "|"]
    found.append("| that died | " + " | ".join(str(died[name]) for name in names) + " |")
    return [*found, "| that fitted | " + " | ".join(str(fitted[name]) for name in names) + " |"]


SECTIONS: tuple[tuple[str, Callable[[], list[str]]], ...] = (
    ("Simulated steps of an independent script", simulated_steps),
    ("Random steps", random_steps),
    ("Sharding: DeepSpeed and FSDP", sharding_grid),
    ("Sharding: random mixtures", sharding_mixtures),
    ("Published measurements", published),
    ("What the card shows", card_fit.lines),
    ("The card on other stacks", card_rows.lines),
    ("Figures beside their settings", published_figures.lines),
    ("One knob at a time", pairs.lines),
    ("Verdicts", what_happened),
    ("Threads about running out of memory", threads.lines),
    ("Configs whose authors name their cards", claims.lines),
    ("Plans confirmed by simulation", plans_simulated.lines),
    ("Six cases, other estimators beside", six_cases.lines),
)


def page() -> str:
    """docs/accuracy.md."""
    blocks = [
        "# Accuracy\n\nWritten by `python benchmarks/accuracy/page.py --write`. Relative errors of the closed form;"
        " `lowest` is the worst\nunder-prediction. Sources of every row are in benchmarks/data and"
        "\nbenchmarks/referee/sharding."
    ]
    for title, lines in SECTIONS:
        blocks.append(f"## {title}\n\n{lines.__doc__ or ''}\n\n" + "\n".join(lines()))
    return "\n\n".join(blocks) + "\n"
