"""One edit of a JSON document as one patch."""

from __future__ import annotations

import json

from memlint.findings import Edit, Patch
from memlint.fixes.edits.scalars import CannotWrite, json_text
from memlint.fixes.edits.text import CannotEdit, indent_of, line_start, trimmed
from memlint.source.document import Document, Path
from memlint.source.layout import members


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
    return Patch(edit.path, here.value.start, here.value.end, json_text(edit.value))


def _insert(document: Document, edit: Edit) -> Patch:
    parent, key = edit.pointer[:-1], edit.pointer[-1]
    outer = document.places.get(parent)
    if not isinstance(key, str):
        raise CannotEdit("a list item cannot be added")
    if outer is None:
        return _insert(document, edit._replace(pointer=parent, value={key: edit.value}, near=""))
    if not document.text.startswith("{", outer.value.start):
        return _set(document, edit._replace(pointer=parent, value={key: edit.value}))
    entry = f"{json.dumps(key, ensure_ascii=False)}: {json_text(edit.value)}"
    siblings = [*members(document, parent)]
    if not siblings:
        return Patch(edit.path, outer.value.start + 1, outer.value.end - 1, entry)
    after = (*parent, edit.near) if (*parent, edit.near) in siblings else siblings[-1]
    end = document.places[after].value.end
    return Patch(edit.path, end, end, f",{_between(document, after)}{entry}")


def _between(document: Document, sibling: Path) -> str:
    """What stands between two members: a line break and the sibling's indentation, or a space."""
    key = document.places[sibling].key
    assert key is not None
    start = line_start(document.text, key.start)
    if document.text[start : key.start].strip():
        return " "
    return document.newline + indent_of(document.text, key.start)


def _remove(document: Document, edit: Edit) -> Patch:
    here = document.places[edit.pointer]
    if here.key is None:
        raise CannotEdit("a list item cannot be removed")
    siblings = members(document, edit.pointer[:-1])
    before, after = _neighbours([*siblings], edit.pointer)
    if after is not None:
        return Patch(edit.path, here.key.start, siblings[after].start, "")
    if before is not None:
        return Patch(edit.path, document.places[before].value.end, here.value.end, "")
    outer = document.places[edit.pointer[:-1]]
    end = trimmed(document.text, outer.value.start, outer.value.end - 1)
    return Patch(edit.path, outer.value.start + 1, end, "")


def _neighbours(siblings: list[Path], path: Path) -> tuple[Path | None, Path | None]:
    """What stands before and after `path` among its siblings."""
    index = siblings.index(path)
    return next(iter(siblings[:index][::-1]), None), next(iter(siblings[index + 1 :]), None)


def _rename(document: Document, edit: Edit) -> Patch:
    here = document.places[edit.pointer]
    if here.key is None:
        raise CannotEdit("a list item has no key")
    if (*edit.pointer[:-1], edit.value) in document.places:
        raise CannotEdit(f"`{edit.value}` is set as well")
    return Patch(edit.path, here.key.start, here.key.end, json.dumps(edit.value, ensure_ascii=False))


_ACTIONS = {"set": _set, "remove": _remove, "rename": _rename}
