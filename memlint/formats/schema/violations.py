"""Issues of a value that its schema refuses, and of outdated keys and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs

import memlint.formats.schema.messages as messages
from memlint.formats.base import Issue
from memlint.formats.schema.refs import (
    MAX_ISSUES,
    CompiledSchema,
    Schema,
    follow,
    is_removed_value,
    still_there,
    subschema,
)
from memlint.source.document import Path

MAX_NODES = 100_000  # values beyond this are not handed to the validator
_CHECKED_SINCE = "x-memlint-checked-since"


def outdated_issue(
    schema: Schema, value: Any, pointer: Path, path: str, versions: Mapping[str, tuple[int, ...]]
) -> Issue:
    """The issue of an outdated key or value. `schema`: of the key at `pointer`."""
    report = _removed_value if is_removed_value(schema, value, versions) else _outdated_key
    return report(schema, value, pointer, path)


def _outdated_key(schema: Schema, value: Any, pointer: Path, path: str) -> Issue:
    removed, renamed = schema.get("x-memlint-removed-in", ""), schema.get("x-memlint-renamed-to", "")
    gone = f" is gone since {removed}" if removed else " has another name now"
    note = f" ({schema['x-memlint-note']})" if schema.get("x-memlint-note") else ""
    then = f": use `{renamed}`" if renamed else "" if note else ": leave it out"
    code = "renamed-key" if renamed else "removed-key"
    message = f"`{_qualified_name(pointer)}`{gone}{then}{note}"
    same = "" if schema.get("x-memlint-other-value") else renamed
    return Issue(code, message, path, pointer, "warning", on_key=True, suggestion=same)


def _removed_value(schema: Schema, value: Any, pointer: Path, path: str) -> Issue:
    renamed = schema.get("x-memlint-value-aliases", {}).get(value, "")
    then = f": use `{renamed}`" if renamed else ""
    note = f" ({schema['x-memlint-note']})" if "x-memlint-note" in schema else ""
    removed = schema["x-memlint-removed-values"][value]
    message = f"`{_qualified_name(pointer)}: {value}` is gone since {removed}{then}{note}"
    return Issue("removed-value", message, path, pointer, "warning", suggestion=renamed)


def _qualified_name(pointer: Path) -> str:
    """A key with the sections around it: `compile.enabled`."""
    return messages.key_of(pointer).strip("`") if len(pointer) > 1 else str(pointer[-1])


def errors(
    validator: jsonschema_rs.Draft202012Validator,
    compiled: CompiledSchema,
    value: Any,
    path: str,
    versions: Mapping[str, tuple[int, ...]],
) -> Iterator[Issue]:
    """The validator's issues of `value`, at most `MAX_ISSUES`. Never raises."""
    plain = _json_safe(value, [MAX_NODES])
    for number, error in enumerate(validator.iter_errors(plain)):
        if number >= MAX_ISSUES:
            return
        pointer = tuple(error.instance_path)
        owner = subschema(compiled, pointer)
        since = _checked_since(compiled, pointer[:-1] if error.kind.name == "type" else pointer)
        if still_there(since, versions):
            continue
        section = _section(owner, compiled.root) if error.kind.name == "anyOf" else None
        if section is not None and isinstance(error.instance, dict):
            found = _section_issues(compiled, section, error.instance, path, pointer)
        else:
            found = _issues_of_error(compiled, owner, error, path, pointer)
        yield from _as_warnings(list(found), since) if since else found


def _issues_of_error(compiled: CompiledSchema, owner: Schema, error: Any, path: str, pointer: Path) -> Iterator[Issue]:
    if error.kind.name == "additionalProperties":
        yield from _unknown_keys(compiled, owner, error, path, pointer)
    else:
        yield messages.message_of(error, messages.describe(owner, compiled.root), path, pointer, owner)


def _section(owner: Schema, root: Schema) -> Schema | None:
    """The only mapping among the alternatives that `owner` allows; None where there are several or none."""
    branches = (follow(branch, root) for branch in owner.get("anyOf", ()))
    sections = [branch for branch in branches if isinstance(branch, dict) and branch.get("type") == "object"]
    return sections[0] if len(sections) == 1 and "properties" in sections[0] else None


def _section_issues(compiled: CompiledSchema, section: Schema, value: Any, path: str, pointer: Path) -> Iterator[Issue]:
    """The issues inside of a mapping where the schema allows other types too: "wants a mapping, got the mapping" would
    help nobody."""
    schema = {**section, "$defs": compiled.root.get("$defs", {})}
    for error in jsonschema_rs.Draft202012Validator(schema).iter_errors(value):
        place = (*pointer, *error.instance_path)
        unknown_here = place == pointer and error.kind.name == "additionalProperties"
        yield from _issues_of_error(
            compiled, section if unknown_here else subschema(compiled, place), error, path, place
        )


def _checked_since(compiled: CompiledSchema, pointer: Path) -> str:
    """The release that first checked the section of `pointer`; "" where all releases check it."""
    sections = (subschema(compiled, pointer[:end]) for end in range(len(pointer) + 1))
    return next((section[_CHECKED_SINCE] for section in sections if _CHECKED_SINCE in section), "")


def _as_warnings(issues: list[Issue], since: str) -> Iterator[Issue]:
    """The issues as warnings: releases before `since` do not check them. Several unknown keys are one warning, as they
    were probably copied together."""
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
    aliases = owner.get("x-memlint-aliases") or ({} if pointer else compiled.root.get("x-memlint-aliases", {}))
    known = owner.get("properties", {})
    near, severity = severity == "near", "warning" if severity == "near" else severity
    for key in error.kind.unexpected[:MAX_ISSUES]:
        issue = messages.unknown_key(key, known, aliases, path, (*pointer, key), severity)
        if near and not issue.suggestion:
            continue
        moved = _misplaced(key, error.instance.get(key), known, compiled.root)
        if pointer and not moved and _fits_top_level(compiled, key, error.instance.get(key)):
            moved = "it belongs to the top level of the file"
        yield issue._replace(message=f"unknown key `{key}`: {moved}", suggestion="") if moved else issue


def _fits_top_level(compiled: CompiledSchema, key: str, value: Any) -> bool:
    """Whether the top level has such a key, and takes a mapping there where the value is one."""
    found = subschema(compiled, ()).get("properties", {}).get(key)
    if found is None or not isinstance(value, dict):
        return found is not None
    return "properties" in follow(found, compiled.root) or "object" in str(found)


def _misplaced(key: str, value: Any, known: Mapping[str, Any], root: Schema) -> str:
    """Where an unknown key belongs: into a section at its level, or its own keys belong at its level. Else ""."""
    sections = {name: follow(schema, root).get("properties", {}) for name, schema in known.items()}
    homes = [(name, section[key]) for name, section in sections.items() if key in section]
    if len(homes) == 1:
        (section, its), renamed = homes[0], homes[0][1].get("x-memlint-renamed-to", "")
        if "x-memlint-removed-in" not in its:
            return f"it belongs into `{section}`"
        return f"`{section}` had it, and calls it `{renamed}` now" if renamed else ""
    inside = [f"`{name}`" for name in value if name in known][:3] if isinstance(value, dict) else []
    if inside and 2 * sum(name in known for name in value) >= len(value):
        return f"{', '.join(inside)} belong{'s' if len(inside) == 1 else ''} one level higher, not below it"
    return ""


def _json_safe(value: Any, budget: list[int]) -> Any:
    """`value` as JSON could hold it: text keys, valid unicode, finite numbers, at most `budget` nodes."""
    budget[0] -= 1
    if budget[0] < 0:
        return None
    if isinstance(value, dict):
        return {_text(key): _json_safe(item, budget) for key, item in value.items()}
    if isinstance(value, list):
        return [_json_safe(item, budget) for item in value]
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float) and not -1e308 < value < 1e308:
        return 1e308
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return 2**63 - 1 if value > 0 else -(2**63)
    return value


def _text(value: Any) -> str:
    return str(value).encode("utf-8", "replace").decode("utf-8")
