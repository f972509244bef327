"""The values of settings, each with its origin. Which settings a file may have is defined in schemas/settings.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.findings import Location
from memlint.run import Amount, Origin
from memlint.source.document import Document, Path, Span, place
from memlint.suppressions.waiver import Waiver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memlint.repository.declared_keys import DeclaredKeys

NAMES = ("memlint.yaml", "memlint.yml", "pyproject.toml")

# The settings of a profile, for everything that no settings file sets.
PROFILES: Mapping[str, Mapping[str, Any]] = {
    "default": {"fail_on": "warning", "require_reason": False},
    "strict": {"fail_on": "info", "require_reason": True},
    "ci": {"fail_on": "error", "require_reason": False},
}


class Mistake(NamedTuple):
    """Something wrong in a settings file, with its place."""

    location: Location
    message: str

    def __str__(self) -> str:
        return f"{self.location.path}:{self.location.line}:{self.location.column}: {self.message}"


class SettingsError(Exception):
    """Settings that cannot be used (exit 2). `mistakes`: each with its place in the settings file."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        super().__init__("\n".join(map(str, mistakes)))
        self.mistakes = mistakes


class SettingsFile(NamedTuple):
    """One settings file. Its paths and patterns are relative to `folder` (absolute) and must not leave `root`."""

    document: Document
    folder: str
    root: str

    @property
    def path(self) -> str:
        return self.document.path


class Settings(NamedTuple):
    """The settings files that apply: an extended file before the one that extends it, the nearest one last."""

    files: tuple[SettingsFile, ...] = ()

    @property
    def path(self) -> str:
        return self.files[-1].path if self.files else ""


class FileSettings(NamedTuple):
    """The settings that apply to one config. Paths are absolute; sizes are bytes; 0 and "" mean "not set".

    `origins` has the origin of each value that is not the default; an entry of a mapping is named like
    "severity.MEM001". `excluded`: the file is checked only where the command line names it. So is, with
    `shipped_examples` "skip", a framework's own example as the framework ships it; with "check" it is like any other.
    """

    path: str = ""
    profile: str = "default"
    select: tuple[str, ...] = ("all",)
    ignore: tuple[str, ...] = ()
    preview: bool = False
    severity: Mapping[str, str] = {}
    fail_on: str = "warning"
    excluded: bool = False
    shipped_examples: str = "check"
    rules_dirs: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    gpu: str = ""
    gpus: int = 0
    gpus_per_node: int = 0
    host_memory: int = 0
    longest_sample: int = 0
    model: str = ""
    models: Mapping[str, Any] = {}
    versions: Mapping[str, tuple[int, ...]] = {}
    budgets: Mapping[str, float] = {}
    memory: Mapping[str, Amount] = {}
    companions: tuple[str, ...] = ()
    keys: DeclaredKeys | None = None
    require_reason: bool = False
    waivers: tuple[Waiver, ...] = ()
    baseline: str = ""
    origins: Mapping[str, Origin] = {}


def mistake(document: Document, pointer: Path, message: str, on_key: bool = False) -> Mistake:
    """A mistake at the value at `pointer`, or at its key with `on_key`."""
    spot = place(document, pointer)
    span = (spot.key if on_key and spot.key else spot.value) if spot else Span(0, 0, 1, 1, 1, 1)
    start, end, line, column, end_line, end_column = span
    return Mistake(Location(document.path, line, column, end_line, end_column, start, end, pointer), message)


def origin(document: Document, pointer: Path) -> Origin:
    """The origin of a setting: the place of the value at `pointer`."""
    spot = place(document, pointer)
    line, column = (spot.value.line, spot.value.column) if spot else (1, 1)
    return Origin("setting", document.path, line, column, pointer)
