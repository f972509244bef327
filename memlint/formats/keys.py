"""A framework's keys, each defined once: its name, kind, default and description, how it is read and written back.

A format has one table of them (`formats/<framework>/keys.py`). Reading a file, editing it, the schema's descriptions
and the page of keys in the documentation all come from that table. It does not know what kind of file the values stood
in: a YAML key, a command-line flag and a Python keyword argument are the same row.

    KEYS = Keys(
        Key("per_device_train_batch_size", "whole", "batch.micro_batch_size", default=8, least=1,
            older=("per_gpu_train_batch_size",),
            about="Sequences per GPU and forward pass. Activations and logits grow with it."),
        Key("gradient_checkpointing", "flag", "checkpointing.mode", default=False,
            values={True: "full", False: "none"},
            about="Recompute each layer in the backward pass instead of keeping its activations."),
    )
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, Protocol

from memlint._record import NamedTuple
from memlint.formats.fields import Fields, as_bool, as_int, as_number, as_words
from memlint.run import UNKNOWN, Origin, Run
from memlint.source.document import Document

KINDS = ("flag", "whole", "number", "word", "text", "words", "any")
INVALID = ("unknown", "default", "ignored")


class KeyValues(Protocol):
    """The values that a file gives to keys, whatever its syntax: each as written, with its place in the file."""

    def get(self, key: str) -> Any:
        """The value of `key` that is in force: the file's, else the framework's default, else None.

        UNKNOWN where the file leaves it to something else to fill in (`${MICRO_BATCH_SIZE}`); `origin` may say why.
        """

    def written(self, key: str) -> str | None:
        """The spelling under which the file gives `key`, None where it does not (null counts as not given)."""

    def origin(self, key: str) -> Origin:
        """Where `get(key)` comes from."""


class FieldChange(NamedTuple):
    """A field of the run that is to change, for a file to be edited accordingly.

    `value`: what `field` becomes. `changes`: every field that changes in the same plan, by name. `section`: the file's
    mapping before the change. `run`: the run before the change.
    """

    field: str
    value: Any
    changes: Mapping[str, Any]
    section: Mapping[str, Any]
    run: Run


Written = Mapping[str, Any]  # key -> its new value; None takes the key away
Read = Callable[[Fields, Any], None]  # (fields, the format's own object for its file)
Write = Callable[[FieldChange], "Written | None"]  # None: no edit of the file makes this change
When = Callable[[Any], bool]  # the format's own object for its file -> whether the key is in force
CanWrite = Callable[[FieldChange], bool]


class Key(NamedTuple):
    """One key of a framework.

    `name`: the spelling that a file without the key gets; dots lead into sections (`zero_optimization.stage`).
    `kind`: flag, whole (an integer), number, word (text in lower case), text (as written), words (names), any.
    `field`: the field of `Run` that the key sets by itself; "" where it only matters together with other keys.
    `default`: the framework's own default, None where it has none.
    `earlier_default`: the release that changed the default, and the default before it.
    `of`: the class of the framework that declares the key (`ModelConfig`); the default's origin names it.
    `newer`: spellings that only the newest releases read; they win where a file has several.
    `older`: spellings of earlier releases that are still read.
    `since`: the framework and its release from which `name` is read; earlier ones are written `older[0]`.
    `least`, `most`: the smallest and the largest number that the framework accepts.
    `values`: what is written -> what `field` becomes, where these differ. Its inverse writes.
    `only_if_given`: a file without the key leaves `field` to what was put there before.
    `invalid`: what `field` becomes for a value of another kind: unknown, default, or unchanged (ignored).
    `when`: the key is in force only where this function is true of the format's own object for its file.
    `read`: for a key whose meaning depends on other keys: a function that puts the field itself.
    `read_with`: the key whose `read` reads this one as well.
    `can_write`: a change is written with this key only where this function is true of it.
    `can_add`: a file without the key gets it only where this function is true of the change.
    `write`: for a value that needs more than `name: value`; it returns every key that has to change.
    `read_only`: no change of `field` is ever written with this key.
    `write_only`: `field` is read by another table, such as that of an engine's options.
    `also`: further fields that the key sets: to the same value, or as `read` and `write` treat them.
    `passes`: the argument of transformers' TrainingArguments that the framework gives the value to. The table of
    those arguments reads `field` then, unless the row has a `read` of its own.
    `about`: what the key does to memory or to the run, in one or two sentences.
    """

    name: str
    kind: str
    field: str = ""
    default: Any = None
    about: str = ""
    older: tuple[str, ...] = ()
    least: float | None = None
    values: Mapping[Any, Any] | None = None
    only_if_given: bool = False
    read: Read | None = None
    write: Write | None = None
    read_only: bool = False
    of: str = ""
    newer: tuple[str, ...] = ()
    since: tuple[str, tuple[int, ...]] | None = None
    most: float | None = None
    invalid: str = "unknown"
    when: When | None = None
    read_with: str = ""
    can_write: CanWrite | None = None
    can_add: CanWrite | None = None
    write_only: bool = False
    also: tuple[str, ...] = ()
    passes: str = ""
    earlier_default: tuple[tuple[int, ...], Any] | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """Every field of `Run` that the key sets."""
        return (self.field, *self.also) if self.field else ()

    @property
    def is_read_here(self) -> bool:
        """Whether reading the table puts the row's fields."""
        if self.read is not None:
            return True
        return bool(self.field) and not (self.passes or self.write_only or self.read_with)

    @property
    def names(self) -> tuple[str, ...]:
        """Every spelling, the newest first: the first that a file gives counts."""
        return (*self.newer, self.name, *self.older)

    def default_in(self, release: tuple[int, ...]) -> Any:
        """The default in a release of the framework; () stands for the newest."""
        if self.earlier_default is None or not () < release < self.earlier_default[0]:
            return self.default
        return self.earlier_default[1]

    def parsed(self, value: Any) -> Any:
        """`value`, as written in a file, converted to the key's kind; None where it is not of that kind."""
        found = _PARSE[self.kind](value)
        is_bounded = self.least is not None or self.most is not None
        return None if is_bounded and isinstance(found, (int, float)) and not self.accepts(found) else found

    def accepts(self, number: float) -> bool:
        """Whether the number lies within `least` and `most`."""
        return (self.least is None or number >= self.least) and (self.most is None or number <= self.most)

    def neutral(self, value: Any) -> Any:
        """What `field` becomes when the file says `value`; None where the value is not of the key's kind."""
        found = self.parsed(value)
        if self.values is None or found is None:
            return found
        return self.values.get(found)

    def written_value(self, neutral: Any) -> Any:
        """What a file has to say for `neutral`: the inverse of `neutral()`. None where no value of the key says it."""
        if self.values is not None:
            return next((written for written, meaning in self.values.items() if meaning == neutral), None)
        written = list(neutral) if isinstance(neutral, tuple) else neutral
        return written if self.parsed(written) is not None else None

    def spelling_in(self, section: Mapping[str, Any]) -> str | None:
        """The spelling under which `section` has the key."""
        return next((name for name in self.names if _has(section, name)), None)

    def spelling(self, change: FieldChange) -> str:
        """The spelling to write: the one that the file has, else the one that the framework's release reads."""
        given = self.spelling_in(change.section)
        if given is not None or self.since is None:
            return given or self.name
        framework, release = self.since
        return self.older[0] if () < getattr(change.run.stack, framework) < release else self.name

    def written(self, change: FieldChange) -> Written | None:
        """The keys to write for the change, each with its new value; None where this row cannot express it."""
        if self.can_write is not None and not self.can_write(change):
            return None
        if self.can_add is not None and self.spelling_in(change.section) is None and not self.can_add(change):
            return None
        if self.write is not None:
            return self.write(change)
        value = self.written_value(change.value)
        return None if value is None else {self.spelling(change): value}


def _lower_text(value: Any) -> str | None:
    return value.lower() if isinstance(value, str) and value else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _words(value: Any) -> tuple[str, ...] | None:
    return as_words(value) if isinstance(value, (str, list)) else None


def _number(value: Any) -> float | None:
    found = as_number(value)
    return None if found is None else float(found)


def _any(value: Any) -> Any:
    return value


_PARSE: Mapping[str, Callable[[Any], Any]] = {
    "flag": as_bool,
    "whole": as_int,
    "number": _number,
    "word": _lower_text,
    "text": _text,
    "words": _words,
    "any": _any,
}


class Keys:
    """The table of one framework's keys. What is looked up in it is worked out when it is first asked for."""

    def __init__(self, *rows: Key) -> None:
        self.rows = rows

    @cached_property
    def defaults(self) -> Mapping[str, Any]:
        """The framework's defaults by key."""
        return {row.name: row.default for row in self.rows if row.default is not None}

    @cached_property
    def _changed_defaults(self) -> tuple[Key, ...]:
        return tuple(row for row in self.rows if row.earlier_default is not None)

    def defaults_in(self, release: tuple[int, ...]) -> Mapping[str, Any]:
        """The same in a release of the framework."""
        return {**self.defaults, **{row.name: row.default_in(release) for row in self._changed_defaults}}

    @cached_property
    def spellings(self) -> Mapping[str, tuple[str, ...]]:
        """Newest-first spellings of the keys that have several."""
        return {row.name: row.names for row in self.rows if row.newer or row.older}

    @cached_property
    def passed(self) -> tuple[tuple[str, str], ...]:
        """The keys that the framework passes on, each with its name there."""
        return tuple((row.name, row.passes) for row in self.rows if row.passes)

    @cached_property
    def _by_name(self) -> Mapping[str, Key]:
        return {name: row for row in reversed(self.rows) for name in row.names}

    @cached_property
    def _by_field(self) -> Mapping[str, list[Key]]:
        """The rows that write a field."""
        found: dict[str, list[Key]] = {}
        for row in self.rows:
            if not row.read_only:
                for field in row.fields:
                    found.setdefault(field, []).append(row)
        return found

    @cached_property
    def _read_here(self) -> tuple[Key, ...]:
        return tuple(row for row in self.rows if row.is_read_here)

    def __iter__(self) -> Iterator[Key]:
        return iter(self.rows)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> Key:
        """The row of a key by any of its spellings. Raises KeyError for an unknown one."""
        return self._by_name[name]

    def can_set(self, field: str) -> bool:
        """Whether a file has a key for a change of this field of the run."""
        return field in self._by_field

    def read(self, fields: Fields, values: KeyValues, view: Any) -> None:
        """Put every field that the table can read. `view` is passed to the rows' own `read` and `when` functions."""
        for row in self._read_here:
            if row.when is not None and not row.when(view):
                continue
            if row.read is not None:
                row.read(fields, view)
            else:
                _read_plainly(row, fields, values)

    def write(self, change: FieldChange) -> Written | None:
        """The keys to write for `change`, each with its new value; None where no key of the framework expresses it."""
        for row in self._by_field.get(change.field, ()):
            written = row.written(change)
            if written is not None:
                return written
        return None


def read_start(fields: Fields, document: Document, *tables: Keys) -> None:
    """What a command leaves open: keys whose value nobody can know (`--bf16 $1`), a model that its program changes."""
    start = document.start
    if start is not None and start.program.unmodelled:
        fields.infer("stack.unmodelled", start.program.unmodelled, "the program that the command starts")
        fields.infer("stack.unmodelled_adds", bool(start.program.model_state), "the program that the command starts")
    if start is not None and start.program.model_state == "headless":
        fields.infer("method.drops_language_head", True, "the program that the command starts")
    if start is not None and start.program.texts_per_sample:
        fields.infer("method.texts_per_sample", start.program.texts_per_sample, "its loss takes as many")
    elif start is not None and start.program.compares_texts:
        fields.unknown("method.texts_per_sample", start.program.compares_texts)
    if start is not None and start.program.compares_samples:
        fields.infer("method.compares_samples", True, f"{start.program.compares_samples} compares those of a batch")
    if start is not None and start.machine.grows_segments:
        fields.infer("stack.expandable_segments", True, "PYTORCH_CUDA_ALLOC_CONF of the command")
    if start is not None and start.program.freezes:
        fields.unknown("method.kind", start.program.freezes)
    for path, reason in start.values.unknown.items() if start is not None else ():
        name = ".".join(map(str, path))
        key = name if any(name in table for table in tables) else str(path[0])
        for table in tables:
            for field in table[key].fields if key in table else ():
                fields.unknown(field, reason)


def _read_plainly(row: Key, fields: Fields, values: KeyValues) -> None:
    if row.only_if_given and values.written(row.name) is None:
        return
    value = values.get(row.name)
    neutral = None if value is None or value is UNKNOWN else row.neutral(value)
    if neutral is None and value is not UNKNOWN and row.invalid == "default":
        neutral = row.neutral(row.default)
    if neutral is not None:
        origin = _origin(row, values)
        for field in row.fields:
            fields.put(field, neutral, origin)
    elif value is not None and (value is UNKNOWN or row.invalid == "unknown"):
        reason = _why_unknown(row, values, value)
        for field in row.fields:
            fields.unknown(field, reason)


def _origin(row: Key, values: KeyValues) -> Origin:
    origin = values.origin(row.name)
    return origin._replace(detail=f"{origin.detail} {row.of}") if row.of and origin.kind == "default" else origin


def _why_unknown(row: Key, values: KeyValues, value: Any) -> str:
    if value is UNKNOWN:
        origin = values.origin(row.name)
        return origin.detail if origin.kind == "unknown" else f"`{row.name}` is a placeholder"
    return f"`{row.name}: {value!r}` is no {_NOUNS[row.kind]}{_bound(row)}"


def _has(section: Mapping[str, Any], name: str) -> bool:
    """Whether `section` has the key `name`, whose dots lead into sections."""
    *outer, last = name.split(".")
    for step in outer:
        inner = section.get(step)
        if not isinstance(inner, Mapping):
            return False
        section = inner
    return last in section


_NOUNS = {
    "flag": "true or false",
    "whole": "whole number",
    "number": "number",
    "word": "word",
    "text": "text",
    "words": "list of names",
    "any": "value",
}


def _bound(row: Key) -> str:
    least = f" >= {row.least:g}" if row.least is not None else ""
    return least + (f" <= {row.most:g}" if row.most is not None else "")
