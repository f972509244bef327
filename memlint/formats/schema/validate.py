"""Checks a value against a schema file; violations.py has the issues of a refused value.

A schema file below schemas/ is read once, and compiled by jsonschema-rs when the first value is met of which
surely_valid.py is not sure, or where many values will come (`load_library`); from then on a value costs one call (about
5 us). Errors are listed for invalid ones only.
Besides JSON Schema 2020-12, schemas have annotations:

- on a property: `x-memlint-since`, `x-memlint-removed-in`, `x-memlint-renamed-to` ("transformers 5.0" or a key),
  `x-memlint-note`: reported when the key is used, whatever its value; `x-memlint-other-value`: the new name wants
  another value than the old one had, so that renaming alone mends nothing;
- on an object: `x-memlint-unknown` ("error", "warning", "ignore"; "near": a warning for slips of a listed key alone):
  how bad a key is that it does not list
  (with `additionalProperties: false`),
  and `x-memlint-checked-since` ("deepspeed 0.17.1"): older releases read the section without looking for errors;
- at the root, and on an object for its own keys: `x-memlint-aliases`: what other frameworks call a key,
  {"max_seq_length": {"key": "cutoff_len"}, "load_in_4bit": {"key": "quantization_bit", "value": 4}}.

A schema name may carry a fragment: "llamafactory.json#v1" is `$defs/v1` of that file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from memlint.formats.base import Issue
from memlint.formats.schema.known_keys import KnownKeys
from memlint.formats.schema.refs import MAX_ISSUES, CompiledSchema, Schema, is_outdated
from memlint.formats.schema.surely_valid import surely_valid
from memlint.shipped_data import folder

if TYPE_CHECKING:
    import jsonschema_rs


def schema_issues(
    value: Any, path: str, schema_name: str, versions: Mapping[str, tuple[int, ...]] | None = None
) -> tuple[Issue, ...]:
    """The issues of `value`, the content of the file at `path`, under the schema `schema_name`. Never raises.

    `versions` are the framework versions in use where they are known: a key that a later version removes is
    then no issue.
    """
    known = _known_keys(schema_name)
    outdated = [one for one in known.annotated(value) if is_outdated(one[0], one[1], versions or {})]
    valid = is_valid(schema_name, value)
    if valid and not outdated:
        return ()
    from memlint.formats.schema.violations import errors, outdated_issue  # where there is something to say

    issues = [outdated_issue(*one, path, versions or {}) for one in outdated]
    if not valid:
        issues.extend(errors(_validator(schema_name), compiled_schema(schema_name), value, path, versions or {}))
    return tuple(issues[:MAX_ISSUES])


def is_valid(schema_name: str, value: Any) -> bool:
    """Whether the schema accepts a value. False too for what JSON cannot hold (a key that is no string, NaN)."""
    try:
        if "jsonschema_rs" not in sys.modules and surely_valid(*compiled_schema(schema_name), value):
            return True
        return bool(_validator(schema_name).is_valid(value))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return False


def load_library() -> None:
    """Loads jsonschema-rs, for who has many values to check: it takes a tenth of the time of surely_valid.py for each,
    and to load as long as surely_valid.py for some sixty."""
    import jsonschema_rs  # noqa: F401


@cache
def compiled_schema(name: str) -> CompiledSchema:
    """The schema of that name, read on first use. Raises FileNotFoundError."""
    file, _, fragment = name.partition("#")
    root = _read(file)
    return CompiledSchema(root, root["$defs"][fragment] if fragment else root)


@cache
def _read(file: str) -> Schema:
    with open(f"{folder('schemas')}/{file}", encoding="utf-8") as stream:
        root: Schema = json.load(stream)
    return root


@cache
def _known_keys(name: str) -> KnownKeys:
    return KnownKeys(compiled_schema(name))


@cache
def _validator(name: str) -> jsonschema_rs.Draft202012Validator:
    import jsonschema_rs  # verbs that check no file do without it

    compiled = compiled_schema(name)
    return jsonschema_rs.Draft202012Validator({**compiled.schema, "$defs": _definitions(compiled)})


def _definitions(compiled: CompiledSchema) -> Mapping[str, Schema]:
    """The definitions that the schema may refer to. Only the root refers to other layouts of its file."""
    found: Mapping[str, Schema] = compiled.root.get("$defs", {})
    if compiled.schema is compiled.root:
        return found
    layouts = {branch["$ref"].rpartition("/")[2] for branch in compiled.root.get("anyOf", ()) if "$ref" in branch}
    return {name: part for name, part in found.items() if name not in layouts}
