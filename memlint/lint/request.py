"""What somebody asks of one invocation, as plain values: they can be sent to a worker process."""

from __future__ import annotations

from collections.abc import Mapping

from memlint._record import NamedTuple
from memlint.hardware.model import Gpu
from memlint.run import Origin

COMMAND_LINE = Origin("command_line")


class StatedFacts(NamedTuple):
    """What the command line says of every file. `settings_file` None: the nearest one; `isolated`: none at all."""

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


class LintRequest(NamedTuple):
    """How files are linted: facts, rules, and what reports show. `contents`: files read from here, not from disk."""

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
    assumptions: bool = False  # whether reports say what each estimate rests on
