"""What reports are made from: findings and estimates of a whole invocation, as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import memlint.report.card_figures as card_figures
from memlint._record import NamedTuple
from memlint.findings import Finding, keeps_from_starting
from memlint.memory.values import Estimate
from memlint.rule_groups import INTERNAL_ERROR

PART = "partial"  # the purpose of a DeepSpeed or accelerate file that is read alone
LAUNCH_FILE = "launch_file"  # key in a finding's `data`: the launch file to pass to `--with`


class ModelFacts(NamedTuple):
    """`source` as architectures.model.Resolution.source; counts are None where unknown."""

    id: str | None
    source: str
    parameters: int | None = None
    trainable_parameters: int | None = None


class HardwareFacts(NamedTuple):
    gpu: str | None
    gpus: int | None
    memory_bytes: int | None  # nominal
    usable_bytes: int | None = None

    @property
    def cards(self) -> str:
        """ "8 x H100-80GB", "? x H100-80GB" where nobody says how many; "" where no card is named."""
        return f"{self.gpus or '?'} x {self.gpu}" if self.gpu else ""


class WhatIf(NamedTuple):
    """A grid of estimates. `axes`: micro batches, lengths (tokens), checkpointing, attention; `now`: index on each.

    `cells` run over the product of the axes, the last one fastest: (low, middle, high, verdict in words), KiB on
    the card.
    """

    axes: tuple[tuple[Any, ...], ...]
    now: tuple[int, ...]
    cells: tuple[tuple[int, int, int, str] | None, ...]


class RunReport(NamedTuple):
    """One run of one file. `summary` is a line such as "lora r=8, bfloat16, 2 x 4096 tokens"."""

    path: str
    format: str
    related: tuple[str, ...]
    model: ModelFacts
    hardware: HardwareFacts
    estimate: Estimate
    purpose: str = "train"
    summary: str = ""
    what_if: WhatIf | None = None
    versions: tuple[tuple[str, str, str], ...] = ()  # package, version, origin: stated, or inferred from a key
    launched: str = ""  # the place of the launch command that the run was read with: "README.md:12"
    launched_otherwise: str = ""  # the options of that command that the run was read without, in words
    stopped_by: tuple[str, ...] = ()  # rules whose errors keep the run from starting


def stopping_rules(found: Iterable[Finding]) -> tuple[str, ...]:
    """The rules among `found` whose errors keep a run from starting."""
    return tuple(sorted({item.rule for item in found if keeps_from_starting(item)}))


def will_not_start(run: RunReport) -> bool:
    """Whether an error stops the run before its memory matters."""
    return bool(run.stopped_by)


def verdict_of(run: RunReport) -> str:
    """The verdict in words: never "fits" for a run that its framework refuses to start."""
    if will_not_start(run):
        return f"will not start ({', '.join(run.stopped_by[:2])}{', ...' if len(run.stopped_by) > 2 else ''})"
    return card_figures.words_of(run.estimate)


def verdict_role(run: RunReport) -> str:
    """The style of the verdict in words."""
    return "error" if will_not_start(run) else card_figures.ROLES[run.estimate.verdict]


class FileReport(NamedTuple):
    """What was found in one file. `format`: "" if none recognises it. `texts`: the texts of quoted files, by path.

    `commanded`: the places of the commands that start the runs of a Python file: "train.sh:3". `starts`: the configs
    that a script's commands start as they stand. `trains`: the model and the purpose of each run, also where `runs` is
    left out. `unread`: the programs that a script's commands start and that no format reads, in words. `calls`: the
    lines of a script with findings that call another script, each with that script's name.
    `hides_its_run`: a Python file that was named may train, and its code shows no run.
    """

    path: str
    format: str
    findings: tuple[Finding, ...]
    runs: tuple[RunReport, ...] = ()
    suppressed: int = 0
    baselined: int = 0
    texts: Mapping[str, str] = {}
    readable: bool = True
    commanded: tuple[str, ...] = ()
    trains: tuple[tuple[str | None, str], ...] = ()
    starts: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    calls: tuple[tuple[int, str], ...] = ()
    hides_its_run: bool = False

    @property
    def failed(self) -> bool:
        """Whether the file could not be read, or memlint failed on it."""
        return not self.readable or any(item.rule == INTERNAL_ERROR for item in self.findings)


class RuleFacts(NamedTuple):
    """What reports with rule metadata (SARIF, code quality) say of a rule."""

    id: str
    name: str
    title: str
    severity: str
    why: str = ""
    url: str = ""
    family: str = ""
    sources: tuple[str, ...] = ()


class Report(NamedTuple):
    """Everything one invocation has to say."""

    files: Sequence[FileReport]  # many files are packed (lint.many.packed_reports): each pass unpickles them again
    rules: tuple[RuleFacts, ...] = ()
    version: str = ""
    root: str = ""
    notes: tuple[str, ...] = ()
    statistics: bool = False  # text: findings by rule at the end
    overview: bool = False  # text: a table of the runs at the end
    quiet: bool = False  # text: findings alone
    verbose: bool = False  # text: every fix, and why a rule is there


def findings(report: Report) -> tuple[Finding, ...]:
    """All findings, file by file, by place."""
    return tuple(each_finding(report))


def each_finding(report: Report) -> Iterator[Finding]:
    """All findings, one by one: see `findings`."""
    return (finding for file in report.files for finding in file.findings)


def location_key(finding: Finding) -> tuple[Any, ...]:
    """The order of findings in every report."""
    place = finding.location
    return (place.path, place.line, place.column, finding.rule, finding.message)
