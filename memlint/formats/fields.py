"""A run under construction: fields of `run.Run` by dotted name (of no framework: "neutral"), each with its origin.

`Section` is a mapping somewhere in a document (the document's root, `fsdp_config:` inside it, a
referenced DeepSpeed file). `Fields` collects the values that are read from sections. The last `put` wins, so a
format puts the framework's defaults first and the file's values after them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.architectures.placeholders import without_path
from memlint.formats.base import Issue
from memlint.run import UNKNOWN, Origin, Run, replace
from memlint.source.document import Document, Path
from memlint.source.layout import position

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memlint.formats.longest_sample import LongestSample

_INTERPOLATION = r"\$\{|^\$[A-Za-z_]\w*$"
_TO_REPLACE = frozenset({"...", "TODO", "TBD", "FIXME", "TO_BE_FILLED", "TO_BE_SET", "FILL_ME", "FILL_IN", "CHANGE_ME"})
LARGEST = 2**64  # no count of tokens, elements or bytes is larger; NaN and infinity are not within it either


class Section(NamedTuple):
    """The mapping at `pointer` of `document`. `kind`: the `Origin.kind` of its values, file or companion."""

    document: Document
    value: Mapping[str, Any]
    pointer: Path = ()
    kind: str = "file"

    def origin(self, *keys: str | int, detail: str = "") -> Origin:
        """The place in the file of the value at `keys` below this section."""
        pointer = self.pointer + keys
        line, column = position(self.document, pointer)
        return Origin(self.kind, self.document.path, line, column, pointer, detail)

    def below(self, key: str) -> Section:
        """The mapping at `key`; an empty one where there is none."""
        value = self.value.get(key)
        return self._replace(value=value if isinstance(value, dict) else {}, pointer=self.pointer + (key,))

    def issue(self, code: str, message: str, *keys: str | int, severity: str = "error", **rest: Any) -> Issue:
        """An issue about the value at `keys` below this section."""
        return Issue(code, message, self.document.path, self.pointer + keys, severity, **rest)


def root(document: Document, kind: str = "file") -> Section:
    """The whole document as a section; an empty one where the document is not a mapping."""
    return Section(document, document.value if isinstance(document.value, dict) else {}, (), kind)


class Behaviour(NamedTuple):
    """A field whose value follows from the framework's code alone; `source` cites it."""

    field: str
    value: Any
    source: str


# Where the model's name comes from that the command line or settings give where the file names none that is known.
STATED_MODEL = Origin("setting", detail="--model or settings")
_MODEL_FIELDS = ("model.name", "model.architecture")


class Fields:
    """Fields of a run by dotted name, their origins, and the issues found while reading."""

    __slots__ = ("issues", "longest_sample", "origins", "values")

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origins: dict[str, Origin] = {}
        self.issues: list[Issue] = []
        self.longest_sample: LongestSample | None = None  # as the user states it

    def put(self, name: str, value: Any, origin: Origin) -> None:
        """Set a field; a later `put` replaces an earlier one."""
        self.values[name] = value
        self.origins[name] = origin

    def default(self, name: str, value: Any, detail: str) -> None:
        """Set a field to a framework's default, unless it is set already. `detail` names the framework and release."""
        if name not in self.values:
            self.put(name, value, Origin("default", detail=detail))

    def infer(self, name: str, value: Any, detail: str) -> None:
        """Set a field to a value that follows from other facts; `detail` says from which."""
        self.put(name, value, Origin("inferred", detail=detail))

    def behave(self, *behaviours: Behaviour) -> None:
        """Set fields that the framework's code decides, whatever the config says."""
        for one in behaviours:
            self.put(one.field, one.value, Origin("framework", detail=one.source))

    def unknown(self, name: str, reason: str) -> None:
        """Set a field to UNKNOWN; `reason` is shown to the user. A model that `--model` or settings name stays."""
        if name not in _MODEL_FIELDS or self.origins.get("model.name") != STATED_MODEL:
            self.put(name, UNKNOWN, Origin("unknown", detail=reason))

    def get(self, name: str, default: Any = UNKNOWN) -> Any:
        """The value put so far, or `default`."""
        return self.values.get(name, default)

    def run(self, format_name: str, path: str, related: tuple[str, ...] = (), purpose: str = "train") -> Run:
        """The fields as a `Run`; a field that was never put keeps the default of `Run`."""
        run = Run(format_name, path, related=related, purpose=purpose, origins=dict(self.origins))
        read = replace(run, self.values)
        if self.longest_sample is None:
            return read
        from memlint.formats.longest_sample import with_longest_sample  # where the user states one

        return with_longest_sample(read, self.longest_sample)


def as_int(value: Any) -> int | None:
    """`value` as a whole number (`5e8` and `"8"` count, booleans do not), else None."""
    number = as_number(value)
    return int(number) if number is not None and number == int(number) else None


def as_number(value: Any) -> float | int | None:
    """`value` as a number up to `LARGEST`, else None. Strings count where `float()` reads them, booleans do not."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return value if isinstance(value, (int, float)) and abs(value) <= LARGEST else None


def as_bool(value: Any) -> bool | None:
    """`value` as a boolean: true/false and the words that frameworks take for them, else None."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _BOOLEANS.get(value.lower())
    return bool(value) if isinstance(value, int) and value in (0, 1) else None


_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def value_at(value: Any, pointer: Path) -> Any:
    """The value at `pointer` below `value`; None where a step of the pointer does not exist."""
    for step in pointer:
        inside = isinstance(value, dict) or (isinstance(value, list) and isinstance(step, int) and step < len(value))
        value = (value.get(step) if isinstance(value, dict) else value[step]) if inside else None
    return value


def interpolated(value: Any, is_model: bool = False) -> bool:
    """Whether `value` is a placeholder that OmegaConf, Hydra or a template engine replaces (`${...}`, `$NAME`), or
    that a reader is to replace (`...`, `TO_BE_FILLED`). `is_model`: it names a model, for which it is enough that the
    last part of a path is known."""
    if not isinstance(value, str) or (is_model and without_path(value) != value):
        return False
    return value in _TO_REPLACE or ("$" in value and bool(re.search(_INTERPOLATION, value)))


def as_words(value: Any) -> tuple[str, ...]:
    """A list of names, or one string with commas or spaces between them, as a tuple."""
    if isinstance(value, str):
        return tuple(value.replace(",", " ").split())
    if isinstance(value, list):
        return tuple(item for item in value if isinstance(item, str))
    return ()
