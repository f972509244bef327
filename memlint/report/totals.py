"""What the last lines of a report count: findings by severity, runs by verdict, fixes, runs without a figure."""

from __future__ import annotations

from collections.abc import Mapping

from memlint._record import NamedTuple
from memlint.findings import SEVERITIES, Finding, written_fix
from memlint.report.model import LAUNCH_FILE, PART, FileReport, Report, RunReport, will_not_start

MOST_NOT_ESTIMATED = 5  # runs whose reasons the text output prints: a large repository may have hundreds


class Totals(NamedTuple):
    """What the last lines of a report count, over all of its files."""

    files: int
    recognised: int
    by_severity: Mapping[str, int]
    suppressed: int
    baselined: int
    verdicts: Mapping[str, int]
    cardless: int = 0  # runs whose memory is known, but not their GPU
    launched: tuple[str, ...] = ()  # places of the launch commands that runs were read with
    unlaunched: str = ""  # a launch file that may belong to a run whose engine is unknown
    stopped: int = 0  # runs that will not start; they are not counted in `verdicts`
    fixable: int = 0  # findings that `memlint fix` solves
    unsafe_fixable: int = 0  # findings that only `memlint fix --unsafe` solves
    not_estimated: tuple[RunReport, ...] = ()  # the first runs without a figure, where no finding says why
    more_not_estimated: int = 0  # how many there are beyond those
    only_run: RunReport | None = None  # where there is one run alone, beside files that describe a part of it


def totals(report: Report) -> Totals:
    """The counts of a report, in one pass over its files: of many files each pass unpickles them again."""
    count = _Count()
    for file in report.files:
        count.add(file)
    return count.totals()


class _Count:
    """Totals that grow file by file."""

    def __init__(self) -> None:
        self.files = self.recognised = self.suppressed = self.baselined = 0
        self.severities = dict.fromkeys(reversed(SEVERITIES), 0)
        self.safe = self.unsafe = 0  # findings that a fix solves; `unsafe`: all of them
        self.launch_file = ""
        self.verdicts = {"fits": 0, "tight": 0, "out_of_memory": 0, "unknown": 0}
        self.stopped = self.cardless = self.runs = self.unsaid = 0
        self.first: RunReport | None = None
        self.launched: list[str] = []
        self.not_estimated: list[RunReport] = []
        self.described: list[RunReport] = []  # the runs of files that describe only a part of a run (a DeepSpeed JSON)
        self.parts: set[str] = set()  # files that take part in the run of another file

    def add(self, file: FileReport) -> None:
        self.files += 1
        self.recognised += bool(file.format)
        self.suppressed += file.suppressed
        self.baselined += file.baselined
        for finding in file.findings:
            self._add_finding(finding)
        for run in file.runs:
            if run.purpose == PART:
                self.described.append(run)
            else:
                self._add_run(run, file)

    def _add_finding(self, finding: Finding) -> None:
        self.severities[finding.severity] += 1
        if finding.fixes or finding.causes:
            self.safe += _fixable(finding, False)
            self.unsafe += _fixable(finding, True)
        self.launch_file = self.launch_file or str(finding.data.get(LAUNCH_FILE, ""))

    def _add_run(self, run: RunReport, file: FileReport) -> None:
        self.runs += 1
        self.first = self.first or run
        self.parts.update(run.related)
        self._add_verdict(run, run.estimate.verdict)
        self.launched += [run.launched] if run.launched else []
        self.cardless += run.hardware.gpu is None and run.estimate.device_bytes is not None
        if _is_unsaid(run, file):
            self.unsaid += 1
            self.not_estimated += [run] if self.unsaid <= MOST_NOT_ESTIMATED else []

    def _add_verdict(self, run: RunReport, verdict: str) -> None:
        if will_not_start(run):
            self.stopped += 1
        else:
            self.verdicts[verdict] += 1

    def totals(self) -> Totals:
        alone = [run for run in self.described if run.path not in self.parts]
        for run in alone:
            self._add_verdict(run, "unknown")
        return Totals(
            files=self.files,
            recognised=self.recognised,
            by_severity=self.severities,
            suppressed=self.suppressed,
            baselined=self.baselined,
            verdicts=self.verdicts,
            cardless=self.cardless,
            launched=tuple(self.launched),
            unlaunched=self.launch_file,
            stopped=self.stopped,
            fixable=self.safe,
            unsafe_fixable=self.unsafe - self.safe,
            not_estimated=tuple(self.not_estimated),
            more_not_estimated=self.unsaid - len(self.not_estimated),
            only_run=self.first if self.runs == 1 and not alone else None,
        )


def _is_unsaid(run: RunReport, file: FileReport) -> bool:
    """Whether a run that may start has no figure, and no finding says why."""
    vague = run.estimate.device_bytes is None and run.estimate.unknown and not run.stopped_by
    return bool(vague) and not any(item.name == "model/unknown" for item in file.findings)


def _fixable(finding: Finding, unsafe: bool) -> int:
    """How many findings `memlint fix` solves among `finding` and its causes."""
    return sum(written_fix(one, unsafe) is not None for one in (finding, *finding.causes))
