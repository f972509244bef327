"""The options of an invocation as plain values, which can be sent to a worker process."""

from __future__ import annotations

from collections.abc import Mapping

from memlint._record import NamedTuple
from memlint.hardware.model import Gpu
from memlint.run import Origin

COMMAND_LINE = Origin("command_line")


class StatedFacts(NamedTuple):
    """Facts that the command line states about every file.

    `models`: unknown model names of the files -> the model to take for each (`--model`). `settings_file`: None for the
    nearest one. `isolated`: read neither settings files nor the versions that the repository pins.
    """

    gpu: Gpu | None = None
    gpus: int | None = None
    gpus_per_node: int | None = None
    model: str = ""
    companions: tuple[str, ...] = ()
    hub: bool = False
    settings_file: str | None = None
    isolated: bool = False
    exact: bool = False
    versions: Mapping[str, tuple[int, ...]] = {}
    images: int | None = None
    longest_sample: int | None = None
    models: Mapping[str, str] = {}


class LintRequest(NamedTuple):
    """How to lint: facts, selection of rules, contents of reports.

    `contents`: (path, bytes) of files that are not read from disk. `cwd`: the folder that paths are relative to ("":
    the working directory).
    """

    facts: StatedFacts
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    profile: str = ""
    preview: bool = False
    fixes: bool = True
    cwd: str = ""
    contents: tuple[tuple[str, bytes], ...] = ()
    what_if: str = ""  # how fine the what-if grids are: see lint.what_if
    plugins: tuple[str, ...] = ()
    first_fix: bool = False  # whether reports show only the first fix of each finding
    findings_alone: bool = False  # whether reports show neither runs nor excerpts of files
    assumptions: bool = False  # whether reports list the assumptions of each estimate
    keeps_suppressed: bool = False  # whether reports include suppressed findings
