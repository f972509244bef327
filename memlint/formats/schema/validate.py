"""Schema violations as messages a person understands.

A schema file below schemas/ is read and compiled once, by jsonschema-rs. A valid value costs one question (some 5 us);
only of another one errors are listed. Beside standard JSON Schema
2020-12, schemas carry annotations:

- on a property: `x-memlint-since`, `x-memlint-removed-in`, `x-memlint-renamed-to` ("transformers 5.0" or a key),
  `x-memlint-note`: reported when the key is used, whatever its value; `x-memlint-other-value`: the new name wants
  another value than the old one had, so that renaming alone mends nothing;
- on an object: `x-memlint-unknown` ("error", "warning", "ignore"): how bad a key is that it does not list
  (with `additionalProperties: false`),
  and `x-memlint-checked-since` ("deepspeed 0.17.1"): older releases read the section without looking for errors;
- at the root: `x-memlint-aliases`: what other frameworks call a key, {"max_seq_length": {"key": "cutoff_len"},
  "load_in_4bit": {"key": "quantization_bit", "value": 4}}.

A schema name may carry a fragment: "llamafactory.json#v1" is `$defs/v1` of that file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import memlint.formats.schema.messages as messages
from memlint._record import NamedTuple
from memlint.formats.base import Issue
from memlint.formats.schema.refs import Schema, follow
from memlint.shipped_data import folder
from memlint.source.document import Path

if TYPE_CHECKING:
    import jsonschema_rs

MAX_ISSUES = 50
_CHECKED = "x-memlint-checked-since"
_OUTDATED = frozenset(("x-memlint-removed-in", "x-memlint-renamed-to", "x-memlint-removed-values"))
_NESTING = frozenset(("properties", "items", "anyOf", "$ref"))
MAX_NODES = 100_000  # values beyond this are not handed to the validator


class CompiledSchema(NamedTuple):
    root: Schema
    schema: Schema
    notes: Notes


class Notes(NamedTuple):
    """The annotated keys of an object schema, and its properties that have annotated keys below."""

    keys: Mapping[str, Schema]
    below: Mapping[str, Notes]
    items: Notes | None


def schema_issues(
    value: Any, path: str, schema_name: str, versions: Mapping[str, tuple[int, ...]] | None = None
) -> tuple[Issue, ...]:
    """What `schema_name` has against `value`, the content of the file at `path`; never raises on any value.

    `versions` are the framework versions in use where they are known: a key that a later version removes is
    then no issue.
    """
    compiled = compiled_schema(schema_name)
    issues = list(_annotated(compiled.notes, value, path, (), versions or {}))
    if not is_valid(schema_name, value):
        issues.extend(_errors(schema_name, compiled, value, path, versions or {}))
    return tuple(issues[:MAX_ISSUES])


def is_valid(schema_name: str, value: Any) -> bool:
    """Whether the schema accepts a value; False also for one that JSON cannot hold (a key that is no text, NaN)."""
    try:
        return bool(_validator(schema_name).is_valid(value))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return False


@cache
def compiled_schema(name: str) -> CompiledSchema:
    """The schema of that name, read on first use. Raises FileNotFoundError."""
    file, _, fragment = name.partition("#")
    with open(f"{folder('schemas')}/{file}", encoding="utf-8") as stream:
        root = json.load(stream)
    schema = root["$defs"][fragment] if fragment else root
    return CompiledSchema(root, schema, _notes(schema, root, 0) or Notes({}, {}, None))


def _notes(schema: Any, root: Schema, depth: int) -> Notes | None:
    schema = follow(schema, root)
    if not isinstance(schema, dict) or depth > 16:
        return None
    keys, below = {}, {}
    for part in (schema, *(follow(branch, root) for branch in schema.get("anyOf", ()))):
        for key, sub in part.get("properties", {}).items():
            if not _OUTDATED.isdisjoint(sub):
                keys[key] = sub
            inner = None if _NESTING.isdisjoint(sub) else _notes(sub, root, depth + 1)
            if inner:
                below[key] = inner
    items = _notes(schema["items"], root, depth + 1) if "items" in schema else None
    return Notes(keys, below, items) if keys or below or items else None


def _annotated(
    notes: Notes, value: Any, path: str, pointer: Path, versions: Mapping[str, tuple[int, ...]]
) -> Iterator[Issue]:
    if isinstance(value, dict):
        for key in notes.keys.keys() & value.keys():
            schema = notes.keys[key]
            report = _outdated_value if "x-memlint-removed-values" in schema else _outdated
            issue = report(key, value[key], schema, path, (*pointer, key), versions)
            if issue:
                yield issue
        for key in notes.below.keys() & value.keys():
            yield from _annotated(notes.below[key], value[key], path, (*pointer, key), versions)
    elif isinstance(value, list) and notes.items:
        for index, item in enumerate(value[:MAX_ISSUES]):
            yield from _annotated(notes.items, item, path, (*pointer, index), versions)


def _outdated_value(
    key: str, value: Any, schema: Schema, path: str, pointer: Path, versions: Mapping[str, tuple[int, ...]]
) -> Issue | None:
    """A value that newer versions do not know, or the whole key when that is gone."""
    removed = schema["x-memlint-removed-values"].get(value, "") if isinstance(value, str) else ""
    if not removed or _still_there(removed, versions):
        gone = "x-memlint-removed-in" in schema
        return _outdated(key, value, schema, path, pointer, versions) if gone else None
    renamed = schema.get("x-memlint-value-aliases", {}).get(value, "")
    then = f": use `{renamed}`" if renamed else ""
    note = f" ({schema['x-memlint-note']})" if "x-memlint-note" in schema else ""
    message = f"`{_named(pointer, key)}: {value}` is gone since {removed}{then}{note}"
    return Issue("removed-value", message, path, pointer, "warning", suggestion=renamed)


def _still_there(removed: str, versions: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether the version in use is known to be older than the one that removed something."""
    framework, _, version = removed.partition(" ")
    used = versions.get(framework)
    return bool(used) and bool(_version(version)) and tuple(used or ()) < _version(version)


def _outdated(
    key: str, value: Any, schema: Schema, path: str, pointer: Path, versions: Mapping[str, tuple[int, ...]]
) -> Issue | None:
    removed, renamed = schema.get("x-memlint-removed-in", ""), schema.get("x-memlint-renamed-to", "")
    if _still_there(removed, versions):
        return None
    gone = f" is gone since {removed}" if removed else " has another name now"
    then = f": use `{renamed}`" if renamed else ""
    note = f" ({schema['x-memlint-note']})" if schema.get("x-memlint-note") else ""
    code = "renamed-key" if renamed else "removed-key"
    message = f"`{_named(pointer, key)}`{gone}{then}{note}"
    same = "" if schema.get("x-memlint-other-value") else renamed
    return Issue(code, message, path, pointer, "warning", on_key=True, suggestion=same)


def _named(pointer: Path, key: str) -> str:
    """A key with the sections around it: `compile.enabled`; alone it may be anything."""
    return messages.key_of(pointer).strip("`") if len(pointer) > 1 else key


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def _errors(
    name: str, compiled: CompiledSchema, value: Any, path: str, versions: Mapping[str, tuple[int, ...]]
) -> Iterator[Issue]:
    plain = _plain(value, [MAX_NODES])
    for number, error in enumerate(_validator(name).iter_errors(plain)):
        if number >= MAX_ISSUES:
            return
        pointer = tuple(error.instance_path)
        owner = subschema(compiled, pointer)
        since = _checked_since(compiled, pointer)
        if _still_there(since, versions):
            continue
        section = _section(owner, compiled.root) if error.kind.name == "anyOf" else None
        if section is not None and isinstance(error.instance, dict):
            found = _inside(compiled, section, error.instance, path, pointer)
        else:
            found = _told(compiled, owner, error, path, pointer)
        yield from _lenient(list(found), since) if since else found


def _told(compiled: CompiledSchema, owner: Schema, error: Any, path: str, pointer: Path) -> Iterator[Issue]:
    if error.kind.name == "additionalProperties":
        yield from _unknown_keys(compiled, owner, error, path, pointer)
    else:
        aliases = owner.get("x-memlint-value-aliases", {})
        yield messages.message_of(error, messages.describe(owner, compiled.root), path, pointer, aliases)


def _section(owner: Schema, root: Schema) -> Schema | None:
    """The one mapping among the alternatives that `owner` takes; None where there are several or none."""
    branches = (follow(branch, root) for branch in owner.get("anyOf", ()))
    sections = [branch for branch in branches if isinstance(branch, dict) and branch.get("type") == "object"]
    return sections[0] if len(sections) == 1 and "properties" in sections[0] else None


def _inside(compiled: CompiledSchema, section: Schema, value: Any, path: str, pointer: Path) -> Iterator[Issue]:
    """What is wrong inside a mapping that could have been something else: "wants a mapping, got the mapping" helps
    nobody."""
    import jsonschema_rs

    schema = {**section, "$defs": compiled.root.get("$defs", {})}
    for error in jsonschema_rs.Draft202012Validator(schema).iter_errors(value):
        place = (*pointer, *error.instance_path)
        unknown_here = place == pointer and error.kind.name == "additionalProperties"
        yield from _told(compiled, section if unknown_here else subschema(compiled, place), error, path, place)


def _checked_since(compiled: CompiledSchema, pointer: Path) -> str:
    """The release that first looked at what stands in the section of `pointer`, where older ones took anything."""
    sections = (subschema(compiled, pointer[:end]) for end in range(len(pointer) + 1))
    return next((section[_CHECKED] for section in sections if _CHECKED in section), "")


def _lenient(issues: list[Issue], since: str) -> Iterator[Issue]:
    """One warning each; keys of one section that nobody knows, copied from another, are one slip."""
    plain = [issue for issue in issues if issue.code == "unknown-key" and issue.message.count("`") == 2]
    if len(plain) > 1:
        names = [f"`{issue.pointer[-1]}`" for issue in plain]
        message = f"unknown keys {', '.join(names[:-1])} and {names[-1]}; releases before {since} take them"
        yield plain[0]._replace(severity="warning", message=message)
        issues = [issue for issue in issues if issue not in plain]
    for issue in issues:
        yield issue._replace(severity="warning", message=f"{issue.message}; releases before {since} take it")


def _unknown_keys(compiled: CompiledSchema, owner: Schema, error: Any, path: str, pointer: Path) -> Iterator[Issue]:
    severity = owner.get("x-memlint-unknown", "error")
    if severity == "ignore":
        return
    aliases = compiled.root.get("x-memlint-aliases", {}) if not pointer else {}
    known = owner.get("properties", {})
    for key in error.kind.unexpected[:MAX_ISSUES]:
        issue = messages.unknown_key(key, known, aliases, path, (*pointer, key), severity)
        moved = _misplaced(key, error.instance.get(key), known, compiled.root)
        if pointer and not moved and key in subschema(compiled, ()).get("properties", ()):
            moved = "it belongs to the top level of the file"
        yield issue._replace(message=f"unknown key `{key}`: {moved}", suggestion="") if moved else issue


def _misplaced(key: str, value: Any, known: Mapping[str, Any], root: Schema) -> str:
    """Where a key that is unknown here is at home: in one of the sections beside it, or its own keys beside it."""
    homes = [name for name, schema in known.items() if key in follow(schema, root).get("properties", ())]
    if len(homes) == 1:
        return f"it belongs into `{homes[0]}`"
    inside = [f"`{name}`" for name in value if name in known][:3] if isinstance(value, dict) else []
    if inside and 2 * sum(name in known for name in value) >= len(value):
        return f"{', '.join(inside)} belong one level higher, not below it"
    return ""


def subschema(compiled: CompiledSchema, pointer: Path) -> Schema:
    """The part of the schema that answers for the value at `pointer`; {} where nothing does."""
    schema: Any = follow(compiled.schema, compiled.root)
    for step in pointer:
        schema = _step(schema, step, compiled.root)
    return schema if isinstance(schema, dict) else {}


def _step(schema: Any, step: str | int, root: Schema) -> Any:
    if not isinstance(schema, dict):
        return {}
    for part in (schema, *(follow(branch, root) for branch in schema.get("anyOf", ()))):
        below = part.get("items") if isinstance(step, int) else part.get("properties", {}).get(step)
        if below is None and isinstance(step, str):
            below = part.get("additionalProperties")
        if isinstance(below, dict):
            return follow(below, root)
    return {}


@cache
def _validator(name: str) -> jsonschema_rs.Draft202012Validator:
    import jsonschema_rs  # 15 ms that only files of a known format pay

    compiled = compiled_schema(name)
    return jsonschema_rs.Draft202012Validator({**compiled.schema, "$defs": _definitions(compiled)})


def _definitions(compiled: CompiledSchema) -> Mapping[str, Schema]:
    """What the schema may refer to: to other layouts of its file, only the root does."""
    found: Mapping[str, Schema] = compiled.root.get("$defs", {})
    if compiled.schema is compiled.root:
        return found
    layouts = {branch["$ref"].rpartition("/")[2] for branch in compiled.root.get("anyOf", ()) if "$ref" in branch}
    return {name: part for name, part in found.items() if name not in layouts}


def _plain(value: Any, budget: list[int]) -> Any:
    """`value` as JSON could hold it: text keys, valid unicode, finite numbers, at most `budget` nodes."""
    budget[0] -= 1
    if budget[0] < 0:
        return None
    if isinstance(value, dict):
        return {_text(key): _plain(item, budget) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, budget) for item in value]
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float) and not -1e308 < value < 1e308:
        return 1e308
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return 2**63 - 1 if value > 0 else -(2**63)
    return value


def _text(value: Any) -> str:
    return str(value).encode("utf-8", "replace").decode("utf-8")
