"""The values of settings, each with its origin; what people may write is schemas/settings.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.findings import Location
from memlint.run import Origin
from memlint.source.document import Document, Path, Span, place

NAMES = ("memlint.yaml", "memlint.yml", "pyproject.toml")

# What a profile sets where the settings say nothing.
PROFILES: Mapping[str, Mapping[str, Any]] = {
    "default": {"fail_on": "warning", "require_reason": False},
    "strict": {"fail_on": "info", "require_reason": True},
    "ci": {"fail_on": "error", "require_reason": False},
}


class Mistake(NamedTuple):
    location: Location
    message: str

    def __str__(self) -> str:
        return f"{self.location.path}:{self.location.line}:{self.location.column}: {self.message}"


class SettingsError(Exception):
    """Settings that cannot be used (exit 2). `mistakes`: each with its place in the settings file."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        super().__init__("\n".join(map(str, mistakes)))
        self.mistakes = mistakes


class Layer(NamedTuple):
    """One settings file. Its paths and patterns count from `folder` (absolute); nothing leads out of `root`."""

    document: Document
    folder: str
    root: str

    @property
    def path(self) -> str:
        return self.document.path


class Settings(NamedTuple):
    """The files that take part: what is extended first, the nearest one last. No file: no layer."""

    layers: tuple[Layer, ...] = ()

    @property
    def path(self) -> str:
        return self.layers[-1].path if self.layers else ""


class Waiver(NamedTuple):
    """A suppression by settings: `rules` as in `memlint.rule_selectors`, `pointer` and everything below it."""

    rules: tuple[str, ...]
    pointer: Path
    reason: str
    until: str
    origin: Origin


class FileSettings(NamedTuple):
    """What holds for one file. Paths are absolute; sizes are bytes; 0 and "" mean nobody said.

    `origins` has the origin of each name that is not the default; entries of mappings are named
    "severity.MEM001". `excluded`: only a file that is named on the command line is looked at.
    """

    path: str = ""
    profile: str = "default"
    select: tuple[str, ...] = ("all",)
    ignore: tuple[str, ...] = ()
    preview: bool = False
    severity: Mapping[str, str] = {}
    fail_on: str = "warning"
    excluded: bool = False
    rules_dirs: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    gpu: str = ""
    gpus: int = 0
    gpus_per_node: int = 0
    host_memory: int = 0
    model: str = ""
    models: Mapping[str, Any] = {}
    versions: Mapping[str, tuple[int, ...]] = {}
    budgets: Mapping[str, float] = {}
    companions: tuple[str, ...] = ()
    require_reason: bool = False
    waivers: tuple[Waiver, ...] = ()
    baseline: str = ""
    origins: Mapping[str, Origin] = {}


def mistake(document: Document, pointer: Path, message: str, on_key: bool = False) -> Mistake:
    spot = place(document, pointer)
    span = (spot.key if on_key and spot.key else spot.value) if spot else Span(0, 0, 1, 1, 1, 1)
    start, end, line, column, end_line, end_column = span
    return Mistake(Location(document.path, line, column, end_line, end_column, start, end, pointer), message)


def origin(document: Document, pointer: Path) -> Origin:
    spot = place(document, pointer)
    line, column = (spot.value.line, spot.value.column) if spot else (1, 1)
    return Origin("setting", document.path, line, column, pointer)
