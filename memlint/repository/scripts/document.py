"""Makes a document of a launch: keys are flags without dashes, values have their places in the script.

A format reads it with the same table as its YAML keys. An unknown value is a placeholder, as in a YAML template, and
`ValueSources.unknown` has the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from memlint.formats.schema.refs import follow
from memlint.formats.schema.validate import compiled_schema
from memlint.repository.scripts.commands import LaunchCommand, Option, options
from memlint.repository.scripts.definitions import TrainingProgram
from memlint.repository.scripts.placed import Placed
from memlint.repository.scripts.values import has_known_name, scalar, types_of, value_of
from memlint.source.document import Document, Path, Start
from memlint.source.layout import Entry, Places
from memlint.source.lines import Lines
from memlint.source.shell.text import Where, Word, why_unknown

SCHEMAS = {"trainer": "trainer.json", "llamafactory": "llamafactory.json#v0", "swift": "swift.json"} | {
    "openrlhf": "openrlhf.json",
    "megatron": "megatron.json",
    "slime": "slime.json",
    "autotrain": "autotrain.json#flags",
}
PLAIN_ARGPARSE = ("openrlhf", "megatron", "slime", "autotrain")  # their true-or-false flags take no value
MOST_DEPTH = 12  # of `a.b.c=value`


class Values:
    """Collects placed values into a document; the last one for a key counts, as it does for argparse."""

    def __init__(self, path: str, command_at: Where) -> None:
        self._path = path
        self._command = (command_at.start, command_at.end)
        self.value: dict[str, Any] = {}
        self._below: dict[str, Any] = {}
        self.unknown: dict[Path, str] = {}
        self.sources: dict[Path, tuple[int, int]] = {}

    def __contains__(self, key: object) -> bool:
        return key in self.value

    def put(self, one: Placed) -> None:
        """Adds a value, unless a part of the key's path is a plain value already."""
        value, below = self.value, self._below
        key = self._span(one.key) or self._command
        at = self._span(one.at) or key
        for step in one.path[:-1]:
            name = str(step)
            if not isinstance(value.setdefault(name, {}), dict):
                return
            entry = below.get(name)
            if entry is None or not isinstance(entry[5], dict):
                entry = below[name] = (*key, *at, False, {})
            value, below = value[name], entry[5]
        last = str(one.path[-1])
        value[last] = one.value
        below[last] = (*key, *at, False, None)
        for noted in (self.unknown, self.sources):
            noted.pop(one.path, None)
        if one.unknown:
            self.unknown[one.path] = one.unknown
        source = self._span(one.source)
        if source is not None and not (at[0] <= source[0] and source[1] <= at[1]):
            self.sources[one.path] = source

    def rename(self, name: Callable[[str], str]) -> None:
        """Replaces each text among the values by its name."""

        def named(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: named(one) for key, one in value.items()}
            return name(value) if isinstance(value, str) else value

        self.value = named(self.value)

    def _span(self, where: Where | None) -> tuple[int, int] | None:
        """Offsets in the script; None for a place in another file."""
        return (where.start, where.end) if where is not None and where.path == self._path else None

    def document(self, path: str, text: str, start: Start) -> Document:
        root: Entry = (-1, -1, *self._command, False, self._below)
        return Document(
            path,
            text,
            "shell",
            "shell",
            self.value,
            Places(root, Lines(text)),
            start=start._replace(values=start.values._replace(unknown=self.unknown, sources=self.sources)),
        )


def flags(command: LaunchCommand, program: TrainingProgram, format_name: str) -> Iterable[Placed]:
    """The command's flags as keys of a format, `key=value` words as keys with sections."""
    named, others = options(command.arguments)
    schema, switches = keys_of(format_name), switches_of(format_name)
    for option in named:
        yield flag(_as_switch(option) if option.name in switches else option, program, schema)
    overrides = list(_overrides(others))
    sections = {path[0] for _, _, path in overrides if len(path) > 1}
    for word, length, path in overrides:
        chosen = path if len(path) > 1 or path[0] not in sections else _CHOICES.get(str(path[0]))
        if chosen is not None:
            yield override(word, length, chosen)


def _as_switch(option: Option) -> Option:
    """A flag that takes no value, without what nobody knows behind it: `--bf16 ${OTHERS[@]}` has further options."""
    is_open = bool(option.values) and all(word.unknown for word in option.values) and not option.is_joined
    return option._replace(values=()) if is_open else option


# Config groups of Hydra whose choice is also the value of a key: verl 0.9.1 trainer/config/engine/megatron.yaml has
# `strategy: megatron`.
_CHOICES: Mapping[str, Path] = {"engine": ("engine", "strategy")}


def _overrides(words: Iterable[Word]) -> Iterable[tuple[Word, int, Path]]:
    """(word, length of the key, path of the key) for words such as `a.b=value`. `model=hf_model` is left out if there
    is a `model.path=...`: it chooses a file of Hydra's group `model`."""
    for word in words:
        name, joined, _ = word.text.partition("=")
        path = tuple(name.lstrip("+~").split("."))
        if joined and all(path) and len(path) <= MOST_DEPTH:
            yield word, len(name), path


@cache
def keys_of(format_name: str) -> Mapping[str, Any]:
    """The format's keys with their schemas, references followed; none where the format has no schema of flags."""
    if format_name not in SCHEMAS:
        return {}
    compiled = compiled_schema(SCHEMAS[format_name])
    return {key: _plain(one, compiled.root) for key, one in compiled.schema["properties"].items()}


def switches_of(format_name: str) -> frozenset[str]:
    """Flags of a format's own program that take no value."""
    if format_name not in PLAIN_ARGPARSE:
        return frozenset()
    return frozenset(key for key, schema in keys_of(format_name).items() if types_of(schema) == {"boolean"})


def _plain(schema: Any, root: Mapping[str, Any]) -> Any:
    """A key's schema without references, down to its alternatives."""
    schema = follow(schema, root)
    if not isinstance(schema, dict) or "anyOf" not in schema:
        return schema
    return {**schema, "anyOf": [_plain(one, root) for one in schema["anyOf"]]}


def flag(option: Option, program: TrainingProgram, schema: Mapping[str, Any]) -> Placed:
    """One option under the name of the key that it becomes. `schema`: the format's keys."""
    name, value = _whole_name(option.name, program, schema), None
    defined = program.flags.get(name)
    if (
        defined is None
        and name not in schema
        and name[:3] == "no_"
        and (name[3:] in program.flags or name[3:] in schema)
    ):
        name, value = name[3:], False  # HfArgumentParser adds `--no_x` for an `x` that is on by default
    key = _key_of(name, program, schema)
    types = types_of(schema.get(key)) or (defined.types if defined else frozenset())
    takes_many = defined.takes_many if defined else "array" in types or not types
    words = option.values if takes_many else _one_value(option.values, defined is not None)
    if value is None:
        value = value_of(words, types)
    unknown = next((why_unknown(word.pieces) for word in words if word.unknown and not has_known_name(word)), "")
    source = words[0].source if len(words) == 1 else None
    return Placed((key,), value, at_flag(option), words_range(words), source, unknown)


def _one_value(words: tuple[Word, ...], is_defined: bool) -> tuple[Word, ...]:
    """The words that belong to an option.

    An unknown variable after the first word holds other options. Further known words belong to it, unless the program
    is known to define the option (`is_defined`) with one value.
    """
    return words[:1] if is_defined or any(word.unknown for word in words[1:]) else words


def _key_of(name: str, program: TrainingProgram, schema: Mapping[str, Any]) -> str:
    """The key that a flag sets. A flag with the name of a key sets that one, unless the program passes it as
    another."""
    meant = program.meanings.get(name, name)
    return name if name in schema and meant not in schema else meant


def _whole_name(name: str, program: TrainingProgram, schema: Mapping[str, Any]) -> str:
    """The full name of an abbreviated flag (`--max_step 50`): argparse accepts an unambiguous prefix."""
    if name in program.flags or name in schema or len(name) < 4:
        return name
    found = {one for one in program.flags if one.startswith(name)}
    if program.parses != "argparse":
        found |= {one for one in schema if one.startswith(name) and "x-memlint-removed-in" not in schema[one]}
    return found.pop() if len(found) == 1 else name


def at_flag(option: Option) -> Where | None:
    """The place of the flag, without the value after its `=`."""
    first = option.flag.pieces[0] if option.flag.pieces else None
    if not option.is_joined or first is None or first.at is None or "=" not in first.text:
        return option.flag.at
    if first.at.end - first.at.start < len(first.text):
        return option.flag.at
    return first.at._replace(end=first.at.start + first.text.index("="))


def override(word: Word, name_length: int, path: Path) -> Placed:
    """The value of `a.b=value`, as Hydra and OmegaConf read it."""
    value = word.after(name_length + 1)
    at = word.at
    key = Where(at.path, at.start, at.start + name_length) if at is not None else None
    unknown = "" if has_known_name(value) else value.unknown
    return Placed(path, _override_value(value), key, value.at or at, value.source, unknown)


def _override_value(word: Word) -> Any:
    """A value in Hydra's grammar, with `null` and lists of unquoted words (hydra 1.3 OverrideParser.g4). Quotes that
    the shell leaves, `save_strategy='"no"'`, are of the grammar, and of YAML's, which OmegaConf.from_cli reads."""
    text = word.text
    if not word.unknown and text.lower() == "null":
        return None
    if not word.unknown and text[1:] and text[0] == text[-1] and text[0] in "\"'" and text[0] not in text[1:-1]:
        return text[1:-1]
    found = scalar(word, frozenset())
    if isinstance(found, str) and not word.unknown and found[:1] == "[" and found[-1:] == "]":
        return [one.strip() for one in found[1:-1].split(",") if one.strip()]
    return found


def words_range(words: tuple[Word, ...]) -> Where | None:
    """The range from the first to the last word after a flag."""
    places = [word.at for word in words if word.at is not None]
    if not places or any(one.path != places[0].path for one in places):
        return None
    return Where(places[0].path, places[0].start, max(one.end for one in places))
