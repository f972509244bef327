"""Edits as text: patches at spans that change what an edit says and not one character more.

A document is never dumped again. Each edit becomes at most one `Patch`; an edit whose result already
stands gives none, so that placing edits twice changes nothing. What cannot be said safely (values
behind aliases, merge keys, documents with problems) raises `CannotEdit` with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import memlint.fixes.edits.json as json_edits
from memlint.findings import Edit, Patch
from memlint.fixes.edits import yaml as yaml_edits
from memlint.fixes.edits.pieces import as_patches, splice, whole
from memlint.fixes.edits.reread import reread
from memlint.fixes.edits.text import CannotEdit, dotted
from memlint.source.document import Document, Path
from memlint.source.scalars import same

MISSING = object()
ACTIONS = ("set", "remove", "rename")


def patches(document: Document, edits: Iterable[Edit]) -> tuple[Patch, ...]:
    """The patches that make `document` say `edits`, in order of place, none overlapping another.

    Each edit is placed in the text as the ones before it left it. New scalars in place of old ones move no other edit:
    they wait for the next one that may, so that the text is read again less often.
    Raises CannotEdit where an edit has no safe place.
    """
    edits = tuple(edits)
    at_once = _at_one_place(document, edits)
    if at_once is not None:
        return (at_once,)
    text = _EditedText(document, edits)
    for edit in edits:
        text.make(edit)
    text.settle()
    return as_patches(text.pieces, document.path, len(document.text))


class _EditedText:
    """A text under edits. `current`: the document as it was read last; `waiting`: edits since then, each with its patch
    of that text; `wanted`: all edits that are to be made."""

    def __init__(self, document: Document, wanted: tuple[Edit, ...]) -> None:
        self.wanted = wanted
        self.pieces = whole(document.text)
        self.current = document
        self.waiting: list[tuple[Edit, Patch]] = []

    def make(self, edit: Edit) -> None:
        """Places the edit, unless the text says so already."""
        if any(_is_within(edit.pointer, other.pointer) for other, _ in self.waiting):
            self.settle()
        _refuse_unsafe(self.current, edit)
        if is_applied(self.current.value, edit):
            return
        patch = _placed(self.current, edit)
        if any(patch.start < other.end and other.start < patch.end for _, other in self.waiting):
            self.settle()
            patch = _placed(self.current, edit)
        self.waiting.append((edit, patch))
        if not _is_in_place(self.current, edit, patch):
            self.settle()

    def settle(self) -> None:
        """Makes the edits that wait, and reads the text again."""
        if not self.waiting:
            return
        found = sorted((patch for _, patch in self.waiting), key=_from_the_end)
        for patch in found:
            self.pieces = splice(self.pieces, patch)
        made = tuple(edit for edit, _ in self.waiting)
        self.current = _reread(self.current, apply(self.current.text, found), made, self.wanted)
        self.waiting = []


def _is_within(path: Path, other: Path) -> bool:
    """Whether one of two places holds the other."""
    return path[: len(other)] == other or other[: len(path)] == path


def _is_in_place(document: Document, edit: Edit, patch: Patch) -> bool:
    """Whether the patch puts a scalar on one line in place of another, so that no other place moves to another line."""
    here = document.places.get(edit.pointer)
    if document.syntax not in ("yaml", "json") or edit.action != "set" or here is None:
        return False
    old = document.text[patch.start : patch.end]
    is_plain = "\n" not in old and "\n" not in patch.text and not old.startswith(("|", ">"))
    return patch.start == here.value.start < patch.end and is_plain


def _at_one_place(document: Document, edits: tuple[Edit, ...]) -> Patch | None:
    """The one place of a script that makes all edits, where there is one."""
    if document.syntax != "shell" or all(is_applied(document.value, edit) for edit in edits):
        return None
    from memlint.fixes.edits import shell as shell_edits

    return shell_edits.at_one_place(document, edits)


def has_place(document: Document, edit: Edit) -> bool:
    """Whether the edit alone has a place, as far as can be said without reading the changed text."""
    try:
        _refuse_unsafe(document, edit)
        return is_applied(document.value, edit) or bool(_placed(document, edit))
    except CannotEdit:
        return False


def _placed(document: Document, edit: Edit) -> Patch:
    if document.syntax == "shell":
        from memlint.fixes.edits import shell as shell_edits  # scripts are few

        return shell_edits.place(document, edit)
    if document.syntax == "python":
        from memlint.fixes.edits import python as python_edits  # as above

        return python_edits.place(document, edit)
    if document.syntax == "toml":
        from memlint.fixes.edits import toml as toml_edits  # as above

        return toml_edits.place(document, edit)
    return json_edits.place(document, edit) if document.syntax == "json" else yaml_edits.place(document, edit)


def _reread(document: Document, text: str, made: tuple[Edit, ...], wanted: tuple[Edit, ...]) -> Document:
    """The changed text, read: it says what the edits `made` want and nothing else. In a script one literal may give
    several values; then it says what others of the `wanted` edits want as well."""
    found = reread(document, text)
    if found is None:
        raise CannotEdit("the result is not one document")
    if document.syntax == "python":
        made = (*made, *(edit for edit in wanted if edit not in made and is_applied(found.value, edit)))
    if not same(found.value, expected(document.value, made)):
        # A shared anchor, or a neighbour whose extent depends on what follows it.
        raise CannotEdit("the change would reach other values of the file")
    # The text's own line break stays the one that new lines get.
    return found._replace(newline=document.newline)


def is_applied(value: Any, edit: Edit) -> bool:
    """Whether `value` already says what `edit` wants."""
    current = at(value, edit.pointer)
    if edit.action == "remove":
        return current is MISSING
    if edit.action == "rename":
        there = at(value, (*edit.pointer[:-1], edit.value)) is not MISSING
        if current is MISSING and not there:
            raise CannotEdit(f"`{edit.pointer[-1]}` is not there")
        return there and (current is MISSING or edit.value == edit.pointer[-1])
    wanted = list(edit.value) if isinstance(edit.value, tuple) else edit.value
    return current is not MISSING and same(current, wanted)


def at(value: Any, path: Path) -> Any:
    """What stands at `path`, or MISSING."""
    for part in path:
        if (isinstance(value, dict) and part in value) or _has(value, part):
            value = value[part]
        else:
            return MISSING
    return value


def _has(value: Any, index: str | int) -> bool:
    return isinstance(value, list) and isinstance(index, int) and 0 <= index < len(value)


def expected(value: Any, edits: Iterable[Edit]) -> Any:
    """What the document's value must be after `edits`: the law that a write is held against.

    Raises CannotEdit for an action that is none.
    """
    for edit in edits:
        if edit.action not in ACTIONS:
            raise CannotEdit(f"unknown action {edit.action!r}")
        value = _changed(value, edit, edit.pointer)
    return value


def _changed(value: Any, edit: Edit, path: Path) -> Any:
    if not path:
        return list(edit.value) if isinstance(edit.value, tuple) else edit.value
    head, rest = path[0], path[1:]
    if isinstance(head, int) and _has(value, head):
        item = [] if _removes(edit, rest) else [_changed(value[head], edit, rest)]
        return [*value[:head], *item, *value[head + 1 :]]
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise CannotEdit(f"`{dotted(edit.pointer)}` does not lead to a mapping")
    if rest or edit.action == "set":
        return {**value, head: _changed(value.get(head), edit, rest)}
    if edit.action == "remove":
        return {key: item for key, item in value.items() if key != head}
    return {edit.value if key == head else key: item for key, item in value.items()}


def _removes(edit: Edit, rest: Path) -> bool:
    return edit.action == "remove" and not rest


def apply(text: str, found: Iterable[Patch]) -> str:
    """`text` with the patches in it."""
    for patch in sorted(found, key=_from_the_end):
        text = text[: patch.start] + patch.text + text[patch.end :]
    return text


def _from_the_end(patch: Patch) -> tuple[int, int]:
    return -patch.start, -patch.end


def _refuse_unsafe(document: Document, edit: Edit) -> None:
    if any(problem.fatal for problem in document.problems):
        raise CannotEdit("the file does not parse")
    if document.documents > 1 and document.start is None:
        raise CannotEdit("the file holds several documents")
    if _is_said_twice(document, edit.pointer):
        raise CannotEdit(f"the file says `{dotted(edit.pointer)}`, or what it is a part of, twice")
    if any(edit.pointer[: len(alias)] == alias for alias in document.aliases):
        raise CannotEdit("the value is shared through a YAML alias: a change would reach other places")


def _is_said_twice(document: Document, pointer: Path) -> bool:
    """Whether the value, one around it or one in it has a key that its mapping has twice: readers differ in which of
    the two they take. Other values of such a file can be changed."""
    twice = {problem.span for problem in document.problems if problem.code == "duplicate-key"}
    return bool(twice) and any(
        place.key in twice and (pointer[: len(path)] == path or path[: len(pointer)] == pointer)
        for path, place in document.places.items()
    )
