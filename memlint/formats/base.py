"""What a config format must offer, and the values that pass between it and the engine.

A format is a module of this package with the names of `Format`. It does no I/O: files that a config
references are read through `Context.read`, models are looked up through `Context.find_model`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from memlint._record import NamedTuple
from memlint.architectures.model import Architecture, Resolution
from memlint.findings import Edit
from memlint.hardware.model import Gpu
from memlint.run import UNKNOWN, Origin, Run, Unknown
from memlint.source.document import Document, Path


class Recognition(NamedTuple):
    """`confidence`: certain, likely, unsure, no. `role`: training, inference, export, companion, dataset, other."""

    confidence: str
    role: str = "training"
    reason: str = ""


class Issue(NamedTuple):
    """Something a format has to say about a file: a schema violation, an unknown key, a missing reference.

    `code` becomes the rule id of the finding (formats/issues.py lists them); `path` and `pointer` say where;
    `on_key` points at the key and not at its value; `edit` mends it where that is certain.
    """

    code: str
    message: str
    path: str
    pointer: Path = ()
    severity: str = "error"
    on_key: bool = False
    edit: Edit | None = None
    suggestion: str = ""
    related: tuple[tuple[str, Path, str], ...] = ()  # (file, pointer, label)


class MissingFile(NamedTuple):
    """Why a referenced file could not be read: missing, outside, cyclic, unreadable, not-a-file, url."""

    code: str
    message: str
    tried: tuple[str, ...] = ()


class Launch(NamedTuple):
    """A launcher's command that names a config, in a file of the repository.

    `path` and `line`: where it stands; `config_file` and `deepspeed`: the launch file of accelerate and the DeepSpeed
    file that it names, if the repository has them. 0 GPUs: it does not say how many. `is_clear`: nothing else in it
    could bear on the engine or on the number.
    """

    path: str = ""
    line: int = 0
    launcher: str = ""  # accelerate, torchrun, deepspeed, ...
    config_file: str = ""
    deepspeed: str = ""
    gpus: int = 0
    gpus_per_node: int = 0
    visible: int = 0  # GPUs that CUDA_VISIBLE_DEVICES leaves it
    is_clear: bool = False

    def is_beyond(self, gpus: int) -> bool:
        """Whether so many processes on one machine are more than it sees GPUs."""
        return 0 < self.visible < gpus

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(name for name in (self.config_file, self.deepspeed) if name)


def _nothing_declared(key: str, below: str = "") -> str:
    return ""


def nothing_launched(path: str) -> tuple[Any, ...]:
    return ()


class Context(NamedTuple):
    """What a config file cannot say, and the doors to everything outside of it.

    `read(reference, from_path)` gives the referenced document or why there is none.
    `find_model(name, from_path)` gives an architecture or the reason of its absence.
    `declared(key, below)` gives the annotations of the field `key` in dataclasses of the repository's Python, in files
    whose path has the folders `below`; "" where there are none. `parsers()` gives the argument parsers that it makes,
    `own_reader()` whether it loads YAML itself and makes none.
    `launches(path)` gives the repository's commands that launch the config at `path`, `launchers(path)` the names of
    launch files that may belong to it, nearest first. All may search the tree: ask only before reporting, and
    `launches` where a config leaves its engine or the number of GPUs open.
    """

    read: Callable[[str, str], Document | MissingFile]
    find_model: Callable[[str, str], Resolution]
    gpu: Gpu | None = None
    gpu_origin: Origin = Origin("unknown")
    gpus: int | Unknown = UNKNOWN
    gpus_origin: Origin = Origin("unknown")
    gpus_per_node: int | Unknown = UNKNOWN
    model_name: str = ""  # --model or settings: used when the config names none
    companions: tuple[Document, ...] = ()  # --with FILE, directive or settings
    versions: Mapping[str, tuple[int, ...]] = {}  # framework versions from settings: {"transformers": (4, 57)}
    host_bytes: int = 0
    memory_budget_bytes: int = 0
    version_origins: Mapping[str, Origin] = {}  # where each of `versions` was said, where that is no setting
    declared: Callable[..., str] = _nothing_declared
    parsers: Callable[[], frozenset[str]] = frozenset
    launches: Callable[[str], tuple[Launch, ...]] = nothing_launched
    launchers: Callable[[str], tuple[str, ...]] = nothing_launched
    own_reader: Callable[[], bool] = bool


def named_model(context: Context, name: str, from_path: str) -> tuple[Architecture | None, Origin]:
    """The architecture behind a name and where it came from: `catalog: meta-llama/...`; inferred where no name
    matches exactly, unknown with the reason where there is none.
    """
    found = context.find_model(name, from_path)
    if found.architecture is None:
        return None, Origin("unknown", detail=found.reason or f"`{name}` is not known")
    kind = "inferred" if found.inferred else "catalog"
    return found.architecture, Origin(kind, found.path, detail=f"{found.source}: {found.inferred or found.name}")


class Parsed(NamedTuple):
    """What a format made of a document. `documents` are the files that took part, the main one first.

    `raw` gives rules the files' own keys by section: {"config": ..., "deepspeed": ..., "accelerate": ..., "fsdp": ...};
    `raw_places` says which document and path each section starts at.
    """

    format: str
    runs: tuple[Run, ...]
    issues: tuple[Issue, ...]
    documents: tuple[Document, ...]
    raw: Mapping[str, Any] = {}
    raw_places: Mapping[str, tuple[str, Path]] = {}  # section -> (file path, pointer of the section's root)


class Format(Protocol):
    """The names that a format module has.

    Three more are optional: `dialect(context) -> str`, where releases read YAML differently; `reads_releases(run) ->
    bool`, whether releases other than those in force would read the files as another run (without it every question
    about another release reads them again); `stands(rule, document, context) -> bool`, whether what the rule of that
    id found is to be said of this file.
    """

    NAME: str  # "llamafactory"
    DIALECT: str  # source.document dialect of its YAML files
    SCHEMA: str  # file name below schemas/

    def recognise(self, document: Document) -> Recognition:
        """Whether this document is of this format, judged by its keys alone."""

    def parse(self, document: Document, context: Context) -> Parsed:
        """The document (already read in DIALECT) as runs, issues and origins. Never raises on any value."""

    def edits(self, parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
        """How the files would say `changes` (neutral field -> value); None where this format cannot."""
