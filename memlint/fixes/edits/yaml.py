"""One edit of a YAML document as one patch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from memlint.findings import Edit, Patch
from memlint.fixes.edits.scalars import CannotWrite, yaml_key, yaml_text
from memlint.fixes.edits.text import CannotEdit, dotted, line_end, line_start, next_line, skipped, trimmed
from memlint.source.document import Document, Path, Place, Span
from memlint.source.layout import members

# As in suppressions/directives.py: alone on its line it covers the key below.
_SUPPRESSION = re.compile(r"#\s*memlint:[ \t]*ignore[ \t]*\[")


def place(document: Document, edit: Edit) -> Patch:
    """The patch of one edit. Raises CannotEdit with the reason where there is none."""
    try:
        return _ACTIONS[edit.action](document, edit)
    except CannotWrite as error:
        raise CannotEdit(str(error)) from None


def _set(document: Document, edit: Edit) -> Patch:
    here = document.places.get(edit.pointer)
    if here is None:
        return _insert(document, edit)
    if not edit.pointer:
        raise CannotEdit("the whole document cannot be replaced")
    text, span = document.text, here.value
    end = trimmed(text, span.start, span.end)
    old = text[span.start : end]
    flow = _in_flow(document, edit.pointer)
    if _is_block(document, here):
        return _replace_block(document, edit, here, end)
    new = yaml_text(edit.value, document.dialect, flow, old[:1])
    if not old:
        return _fill_empty(document, edit, here, new)
    return Patch(edit.path, span.start, end, new)


def _is_block(document: Document, here: Place) -> bool:
    """Whether the value is a block collection or a block scalar: it starts on a later line, or with | or >."""
    if here.key is None:
        return False
    return here.value.line > here.key.end_line or document.text.startswith(("|", ">"), here.value.start)


def _replace_block(document: Document, edit: Edit, here: Place, end: int) -> Patch:
    assert here.key is not None
    colon = _colon(document.text, here.key)
    inside = document.text[colon:end]
    if "#" in document.text[colon : line_end(document.text, end)]:  # the last line's as well: it is about another key
        raise CannotEdit("the block that would be replaced holds comments")
    if "&" in inside or "*" in inside:
        raise CannotEdit("the block that would be replaced holds anchors")
    return Patch(edit.path, colon, end, " " + yaml_text(edit.value, document.dialect))


def _fill_empty(document: Document, edit: Edit, here: Place, new: str) -> Patch:
    """`key:` without a value gets one right after the colon."""
    if here.key is None:
        raise CannotEdit("an empty list item cannot be filled")
    colon = _colon(document.text, here.key)
    return Patch(edit.path, colon, colon, " " + new)


def _colon(text: str, key: Span) -> int:
    """The offset after the colon of a key."""
    at = text.find(":", key.end)
    if at < 0 or text[key.end : at].strip():
        raise CannotEdit("the key is not followed by a colon")
    return at + 1


def _in_flow(document: Document, path: Path) -> bool:
    """Whether the value at `path` stands inside [ ] or { }."""
    above = (document.places.get(path[:length]) for length in range(len(path)))
    return any(outer is not None and document.text.startswith(("[", "{"), outer.value.start) for outer in above)


def _insert(document: Document, edit: Edit) -> Patch:
    parent, key = edit.pointer[:-1], edit.pointer[-1]
    if not isinstance(key, str):
        raise CannotEdit("a list item cannot be added")
    outer = document.places.get(parent)
    if outer is None or _is_null(document, parent):
        return _insert_parent(document, edit, parent, key)
    if document.text.startswith("{", outer.value.start):
        return _insert_flow(document, edit, outer, key)
    return _insert_block(document, edit, parent, key)


def _is_null(document: Document, path: Path) -> bool:
    value = document.value
    for part in path:
        value = value[part]
    return value is None


def _insert_parent(document: Document, edit: Edit, parent: Path, key: str) -> Patch:
    """The mapping that would hold the key is not there: it comes with the key, in flow style."""
    if not parent:
        text = f"{yaml_key(key, document.dialect)}: {yaml_text(edit.value, document.dialect)}{document.newline}"
        end = len(document.text)
        lead = "" if not document.text or document.text.endswith("\n") else document.newline
        return Patch(edit.path, end, end, lead + text)
    return _set(document, edit._replace(pointer=parent, value={key: edit.value}))


def _insert_flow(document: Document, edit: Edit, outer: Place, key: str) -> Patch:
    text = document.text
    close = outer.value.end - 1
    end = trimmed(text, outer.value.start, close)
    if "#" in text[line_start(text, end) : end] and "\n" in text[outer.value.start : close]:
        raise CannotEdit("the flow mapping ends in a comment")
    new = f"{yaml_key(key, document.dialect)}: {yaml_text(edit.value, document.dialect, flow=True)}"
    last = text[outer.value.start : end]
    lead = "" if last == "{" else " " if last.endswith(",") else ", "
    return Patch(edit.path, end, end, lead + new)


def _insert_block(document: Document, edit: Edit, parent: Path, key: str) -> Patch:
    """A line of its own after `near`, else after the last key of the mapping."""
    sibling = _sibling(document, parent, edit.near)
    here = document.places[sibling]
    assert here.key is not None
    text = document.text
    lead = text[line_start(text, here.key.start) : here.key.start]
    if lead.strip(" -"):
        raise CannotEdit("the mapping does not start on a line of its own")
    line = "".join(f"{one}{document.newline}" for one in _lines(key, edit.value, " " * len(lead), document.dialect))
    after = next_line(text, _last_offset(document, sibling))
    missing_break = not text.endswith("\n", 0, after)
    if missing_break and _ends_in_block_scalar(document):
        raise CannotEdit("a line break after the block scalar at the end of the file would change it")
    return Patch(edit.path, after, after, document.newline + line.rstrip("\r\n") if missing_break else line)


_WIDEST_FLOW = 100  # what is longer on one line is a block, as people write it


def _lines(key: str, value: Any, indent: str, dialect: str) -> Iterator[str]:
    """`key: value` on a line, or the lines of a block where the value is a long mapping."""
    start = f"{indent}{yaml_key(key, dialect)}:"
    line = f"{start} {yaml_text(value, dialect)}"
    if not isinstance(value, dict) or len(line) <= _WIDEST_FLOW:
        yield line
        return
    yield start
    for name, inner in value.items():
        yield from _lines(str(name), inner, f"{indent}  ", dialect)


def _ends_in_block_scalar(document: Document) -> bool:
    """Whether the file's last value is a | or > scalar, whose value depends on the line break that follows."""
    text = document.text
    if "|" not in text and ">" not in text:  # as in most files, so that no place is looked up
        return False
    places = (document.places[path].value for path in document.places)
    return any(text.startswith(("|", ">"), span.start) and not text[span.end :] for span in places)


def _sibling(document: Document, parent: Path, near: str) -> Path:
    own = [*members(document, parent)]
    if not own:
        raise CannotEdit(f"`{dotted(parent)}` has no keys of its own")
    return (*parent, near) if (*parent, near) in own else own[-1]


def _last_offset(document: Document, path: Path) -> int:
    """An offset on the last line that the value at `path` takes."""
    here = document.places[path]
    assert here.key is not None
    return trimmed(document.text, here.key.end, here.value.end)


def _remove(document: Document, edit: Edit) -> Patch:
    here = document.places[edit.pointer]
    if here.key is None:
        raise CannotEdit("a list item cannot be removed")
    if _in_flow(document, edit.pointer):
        return _remove_flow(document, edit, here)
    text = document.text
    start = line_start(text, here.key.start)
    if text[start : here.key.start].strip():
        raise CannotEdit("the key does not start on a line of its own")
    if [*members(document, edit.pointer[:-1])] == [edit.pointer]:
        raise CannotEdit("the mapping would be left empty")
    last = _last_offset(document, edit.pointer)
    removed = text[here.key.start : last]
    if "#" in removed and "\n" in removed:
        raise CannotEdit("the block that would be removed holds comments")
    trailing = text[last : line_end(text, last)].strip()
    if trailing.startswith("#"):
        if _SUPPRESSION.match(trailing):
            raise CannotEdit("the suppression on this line would cover the next key")
        # The comment stays, on a line of its own.
        return Patch(edit.path, here.key.start, text.index("#", last), "")
    return Patch(edit.path, start, next_line(text, last), "")


def _remove_flow(document: Document, edit: Edit, here: Place) -> Patch:
    assert here.key is not None
    text = document.text
    end = trimmed(text, here.key.end, here.value.end)
    after = skipped(text, end, " \t\r\n")
    if text.startswith(",", after):
        return Patch(edit.path, here.key.start, skipped(text, after + 1, " \t"), "")
    before = trimmed(text, 0, here.key.start)
    return Patch(edit.path, before - 1 if text.endswith(",", 0, before) else here.key.start, end, "")


def _rename(document: Document, edit: Edit) -> Patch:
    here = document.places[edit.pointer]
    if here.key is None:
        raise CannotEdit("a list item has no key")
    if (*edit.pointer[:-1], edit.value) in document.places:
        raise CannotEdit(f"`{edit.value}` is set as well")
    return Patch(edit.path, here.key.start, here.key.end, yaml_key(str(edit.value), document.dialect))


_ACTIONS = {"set": _set, "remove": _remove, "rename": _rename}
