"""One edit of a TOML file as one patch: a scalar behind its key, a new key behind the others of its table, a new table
at the end."""

from __future__ import annotations

import json
import re
from typing import Any

from memlint.findings import Edit, Patch
from memlint.fixes.edits.text import CannotEdit, dotted, indent_of, line_end
from memlint.source.document import Document, Path
from memlint.source.layout import members
from memlint.source.toml import value_end

_BARE_NAME = re.compile(r"[A-Za-z0-9_-]+")


def place(document: Document, edit: Edit) -> Patch:
    """The patch of one edit. Raises CannotEdit with the reason where there is none."""
    if edit.action != "set":
        raise CannotEdit("a key of a TOML file is not taken away or renamed")
    if edit.pointer not in document.places:
        is_table = isinstance(edit.value, dict) and len(edit.pointer) == 1
        return _new_table(document, edit) if is_table else _inserted(document, edit)
    here = document.places[edit.pointer]
    if here.key is None or isinstance(_at(document, edit.pointer), (dict, list)):
        raise CannotEdit(f"`{dotted(edit.pointer)}` is an array, a table or a part of one")
    old = document.text[here.value.start : here.value.end]
    return Patch(edit.path, here.value.start, here.value.end, written(edit.value, old[:1]))


def _inserted(document: Document, edit: Edit) -> Patch:
    """A line of its own behind the last key of the table; behind its header where it has none."""
    parent, name = edit.pointer[:-1], edit.pointer[-1]
    table = document.places.get(parent)
    if table is None or not isinstance(name, str) or not isinstance(_at(document, parent), dict):
        raise CannotEdit(f"the file has no table `{dotted(parent)}`")
    text = document.text
    keys = [path for path in members(document, parent) if _stands_behind_key(document, path)]
    if keys:
        key = document.places[keys[-1]].key
        assert key is not None  # as of all members
        before, end = text[key.start : key.end], document.places[keys[-1]].value.end
        lead = indent_of(text, key.start) + before[: before.rfind(str(keys[-1][-1]))].rstrip("\"'")
    elif parent and table.key is not None and table.key == table.value:
        lead, end = indent_of(text, table.key.start), table.value.end
    else:
        raise CannotEdit(f"`{dotted(parent)}` has no keys on lines of their own")
    end = line_end(text, end)
    return Patch(edit.path, end, end, f"{document.newline}{lead}{_name(name)} = {written(edit.value)}")


def _new_table(document: Document, edit: Edit) -> Patch:
    """The table behind everything else, after an empty line."""
    newline, text = document.newline, document.text
    lines = [
        f"[{_name(str(edit.pointer[0]))}]",
        *(f"{_name(str(key))} = {written(one)}" for key, one in edit.value.items()),
    ]
    lead = "" if not text or text.endswith("\n\n") else newline if text.endswith("\n") else 2 * newline
    return Patch(edit.path, len(text), len(text), lead + newline.join(lines) + newline)


def _stands_behind_key(document: Document, path: Path) -> bool:
    """Whether a member is `key = value`: not a table with a header of its own."""
    here = document.places[path]
    return here.key is not None and here.key != here.value and value_end(document.text, here.value.start) > here.key.end


def _at(document: Document, path: Path) -> Any:
    value = document.value
    for part in path:
        value = value[part]
    return value


def _name(name: str) -> str:
    return name if _BARE_NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def written(value: Any, quote: str = "") -> str:
    """A value as TOML writes it. `quote`: how the text that it replaces began; quotes are kept where possible."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        plain = quote == "'" and "'" not in value and value.isprintable()
        return f"'{value}'" if plain else json.dumps(value, ensure_ascii=False)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(written(item) for item in value) + "]"
    raise CannotEdit(f"{type(value).__name__} has no place in a line of TOML")
