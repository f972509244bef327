"""Public threads about running out of memory: the verdict on what died, and whether the fix that helped is offered."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from memlint.findings import Fix
from memlint.fixes.plan import as_fix
from memlint.fixes.plan_options import options
from memlint.hardware import find
from memlint.lint.analyse_file import FileAnalyser, uniform_analyser
from memlint.memory.values import Estimate
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.run import Origin

THREADS = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "threads.jsonl"
MAIN = "train.yaml"
FIRST = 3
GIB = 1 << 30
_ASSUMED = Origin("setting", detail="the thread")
# What helped -> the neutral fields that say it.
KINDS: Mapping[str, tuple[str, ...]] = {
    "batch": ("batch.micro_batch_size",),
    "zero_stage": ("parallelism.zero.stage",),
    "offload": ("offload.optimizer", "offload.parameters", "parallelism.fsdp.cpu_offload"),
    "lora": ("method.kind",),
    "length": ("sequence.length", "sequence.max_prompt_length"),
    "images": ("sequence.image_max_pixels", "sequence.video_max_pixels"),
    "attention": ("attention.implementation",),
    "fused_loss": ("loss.kind", "loss.liger_kernels"),
    "checkpointing": ("checkpointing.mode",),
    "evaluation": ("evaluation.batch_size", "evaluation.accumulation_steps"),
    "generations": ("method.num_generations",),
    "shared_sequences": ("parallelism.sequence_parallel_size", "parallelism.context_parallel_size"),
}
_MORE_GPUS = "of these cards"


class Judged(NamedTuple):
    """One run of a thread. `fixes` are what memlint offers first, of all its findings."""

    outcome: str
    verdict: str
    low: float  # GiB on the card
    high: float
    usable: float
    fixes: tuple[Fix, ...]
    reason: str


def threads() -> Iterator[dict[str, Any]]:
    for line in THREADS.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def analyser_of(thread: Mapping[str, Any], run: Mapping[str, Any], engine: Engine) -> FileAnalyser:
    """A analyser on one variant of a thread's files, with its cards, versions and launch file."""
    files = {**thread["files"], **run.get("files", {})}
    contents = {
        name: value if isinstance(value, str) else _text(name, _changed(value, run.get("set", {}).get(name, {})))
        for name, value in files.items()
    }
    workspace = in_memory(contents)
    gpus = run.get("gpus", thread["gpus"])
    facts: dict[str, Any] = {
        "gpu": find(run.get("gpu", thread["gpu"])),
        "gpu_origin": _ASSUMED,
        "gpus": gpus,
        "gpus_origin": _ASSUMED,
        "gpus_per_node": min(gpus, 8),
        "versions": {name: tuple(version) for name, version in thread.get("versions", {}).items()},
        "companions": tuple(workspace.documents(name)[0] for name in files if name == "accelerate.yaml"),
    }
    return uniform_analyser(engine, facts, cwd="/", workspace=workspace)


def _text(name: str, value: Any) -> str:
    """The text of a file. JSON's `1e-05` would be text in YAML 1.1, which PyYAML's own `1.0e-05` is not."""
    return json.dumps(value) if name.endswith(".json") else yaml.safe_dump(value, sort_keys=False)


def judge(thread: Mapping[str, Any], run: Mapping[str, Any]) -> Judged:
    """memlint's answer to one variant of a thread's files."""
    engine = Engine(())  # no rules: estimates and plans alone
    analyser = analyser_of(thread, run, engine)
    analysis = analyser.analyse(MAIN, fixes=False).analyses[0]
    estimate = analysis.estimates[0]
    span = [(size or 0) / GIB for size in (estimate.device_low_bytes, estimate.device_high_bytes)]
    known = options(analysis, 0, engine.estimator, analyser.reanalysis(analysis, analyser.workspaces.of(MAIN)))
    plans = tuple(as_fix(plan, estimate, tried.edits) for plan, tried in known.options)
    fixes = (*plans, *known.advice)[:FIRST]
    return Judged(
        run["outcome"], estimate.verdict, span[0], span[1], estimate.budget_bytes / GIB, fixes, _reason(estimate)
    )


def _reason(estimate: Estimate) -> str:
    return "; ".join(f"{one.field}: {one.reason}" for one in estimate.unknown)


def _changed(value: Any, changes: Mapping[str, Any]) -> Any:
    """`value` with dotted keys set; null takes a key away."""
    value = copy.deepcopy(value)
    for name, new in changes.items():
        *parents, last = name.split(".")
        inner = value
        for parent in parents:
            inner = inner.setdefault(parent, {})
        if new is None:
            inner.pop(last, None)
        else:
            inner[last] = new
    return value


def offered(fixes: tuple[Fix, ...], kind: str) -> bool:
    """Whether one of the fixes is of this kind."""
    if kind == "more_gpus":
        return any(fix.title.startswith("use ") and _MORE_GPUS in fix.title for fix in fixes)
    return any(field in fix.changes for fix in fixes for field in KINDS[kind])


@cache
def judged() -> list[tuple[dict[str, Any], list[Judged]]]:
    """Every thread that has files, with memlint's answer to each of its runs."""
    return [
        (thread, [judge(thread, run) for run in thread["runs"]]) for thread in threads() if "left_out" not in thread
    ]


def lines() -> list[str]:
    """Public threads: verdicts on their runs, and whether the fix that helped is among the first three suggestions."""
    table = judged()
    found = ["| thread | what happened: verdict | what helped | among the first three |", "|---|---|---|---|"]
    found += [_row(thread, runs) for thread, runs in table]
    left = [thread for thread in threads() if "left_out" in thread]
    said = [
        "Facts are in benchmarks/data/threads.jsonl; what a thread leaves open was filled in from the recipe that it",
        "names, which is said there. A run that died must never be told that it fits.",
        "",
    ]
    lacking = [f"- [{one['thread']}]({one['url']}): {one['why']}" for one, _ in table if "why" in one]
    return [
        *(*said, *_summary(table), "", *found, "", "What the threads that contradict the estimate lack:", "", *lacking),
        *("", "Threads left out:", "", *(_reason_of(thread) for thread in left)),
    ]


def _row(thread: Mapping[str, Any], runs: list[Judged]) -> str:
    told = ", ".join(f"{one.outcome}: {one.verdict}" for one in runs)
    helped, fixes = thread["helped"], runs[0].fixes
    offers = ", ".join("yes" if offered(fixes, kind) else "**no**" for kind in helped) if helped else "-"
    word = {"advice": " (advice)"}.get(thread.get("trust", ""), "")
    what = (", ".join(kind.replace("_", " ") for kind in helped) + word) if helped else "-"
    return f"| [{thread['thread']}]({thread['url']}) | {told} | {what} | {offers} |"


def _reason_of(thread: Mapping[str, Any]) -> str:
    return f"- [{thread['thread']}]({thread['url']}): {thread['left_out']}"


def _summary(table: list[tuple[dict[str, Any], list[Judged]]]) -> list[str]:
    runs = [one for _, group in table for one in group]
    counts = [f"| runs that {name} | " + " | ".join(_counts(runs, name)) + " |" for name in ("died", "fitted")]
    known = [(thread, group[0].fixes) for thread, group in table if thread["helped"]]
    confirmed = [(thread, fixes) for thread, fixes in known if thread["trust"] == "confirmed"]
    shares = []
    for label, chosen in (("confirmed by a user", confirmed), ("confirmed or advised", known)):
        hit = sum(any(offered(fixes, kind) for kind in thread["helped"]) for thread, fixes in chosen)
        shares.append(f"- a fix {label} is among the first three in {hit} of {len(chosen)} threads")
    return ["| | " + " | ".join(_VERDICTS) + " |", "|---" * (1 + len(_VERDICTS)) + "|", *counts, "", *shares]


_VERDICTS = ("fits", "tight", "out_of_memory", "unknown")


def _counts(runs: list[Judged], outcome: str) -> list[str]:
    return [str(sum(one.outcome == outcome and one.verdict == verdict for one in runs)) for verdict in _VERDICTS]
