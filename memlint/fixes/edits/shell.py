"""One edit of a command's arguments as one patch of its script.

A value is changed where it is assigned (`BATCH=4`, `${BATCH:-4}`) if nothing else depends on it, else at its flag. A
new flag stands behind another one, on a line of its own where the others do. Nothing is said to be safe here: whoever
places an edit reads the script again (fixes/edits/apply.py) and compares every value of the launch.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any

from memlint.findings import Edit, Patch
from memlint.fixes.edits.launcher import is_of_launcher
from memlint.fixes.edits.text import CannotEdit, dotted, indent_of, line_start
from memlint.source.document import Document, Path, Place, Start
from memlint.source.flags import has_dashed_flags
from memlint.source.layout import shared_steps
from memlint.source.scalars import same

_BREAK = re.compile(r"(?:[ \t]*\\\r?\n|[ \t\r\n])*$")  # spaces and continued lines before a place
_PLAIN = re.compile(r"[\w./:,=+@%-]+")
_WORD = re.compile(r"""(?:[^\s'"\\;|&()$]|\\.|'[^']*'|"(?:\\.|[^"\\])*"|\$\{[^}]*\}|\$\([^)]*\)|\$)+""")


def place(document: Document, edit: Edit) -> Patch:
    """The patch of one edit. Raises CannotEdit with the reason where there is none."""
    start = document.start
    if start is None or not edit.pointer:
        raise CannotEdit("the whole command cannot be replaced")
    if is_of_launcher(document, edit.pointer):
        raise CannotEdit("the launcher's options say it")
    if edit.action == "rename":
        return _rename(document, edit)
    here = document.places.get(edit.pointer) if edit.pointer in document.places else None
    if edit.action == "remove":
        return _removed(document, edit, _own_place(document, here))
    if here is None or _is_default(document, here):
        return _added(document, start, edit)
    return _set(document, start, edit, here)


def at_one_place(document: Document, edits: Sequence[Edit]) -> Patch | None:
    """The one variable whose assignment makes all edits at once: accumulation is often computed from the batch size."""
    start = document.start
    if start is None or len(edits) < 2 or any(edit.action != "set" for edit in edits):
        return None
    wanted = document.value
    for edit in edits:
        wanted = _with(wanted, edit.pointer, edit.value)
    for edit in edits:
        here = document.places.get(edit.pointer) if edit.pointer in document.places else None
        patch = _at_source(document, start, edit, here) if here is not None else None
        if patch is not None and _gives(document, start, patch, wanted):
            return patch
    return None


def _is_default(document: Document, here: Place) -> bool:
    """Whether the value stands for a default of the program: its place is the whole command."""
    whole = document.places[()].value
    return (here.value.start, here.value.end) == (whole.start, whole.end)


def _own_place(document: Document, here: Place | None) -> Place:
    if here is None or here.key is None or _is_default(document, here):
        raise CannotEdit("no flag says it")
    return here


def _set(document: Document, start: Start, edit: Edit, here: Place) -> Patch:
    if _is_bare(here):
        return _set_bare(document, start, edit, here)
    for place_of in (_at_source, _at_flag):
        patch = place_of(document, start, edit, here)
        if patch is not None and _reads_as(document, start, edit, patch):
            return patch
    raise CannotEdit(f"what sets `{dotted(edit.pointer)}` sets other options as well")


def _at_source(document: Document, start: Start, edit: Edit, here: Place) -> Patch | None:
    """The value where a variable is assigned; None where it is not written there, or needs quotes of its own."""
    if edit.pointer not in start.values.sources:
        return None
    first, last = start.values.sources[edit.pointer]
    text = _words(edit.value, document.text[first:last])
    return Patch(edit.path, first, last, text) if _PLAIN.fullmatch(text) else None


def _at_flag(document: Document, start: Start, edit: Edit, here: Place) -> Patch | None:
    first, last = here.value.start, here.value.end
    return Patch(edit.path, first, last, _words(edit.value, document.text[first:last]))


def _reads_as(document: Document, start: Start, edit: Edit, patch: Patch) -> bool:
    """Whether the patched script gives the launch that value, and every other value of every launch as it was."""
    return _gives(document, start, patch, _with(document.value, edit.pointer, edit.value))


def _gives(document: Document, start: Start, patch: Patch, wanted: Any) -> bool:
    """Whether the patched script gives the launch the values `wanted`, and the other launches those that they had."""
    text = document.text[: patch.start] + patch.text + document.text[patch.end :]
    found = start.values.reread(text) if start.values.reread is not None else ()
    before = start.values.reread(document.text) if start.values.reread is not None else ()
    if len(found) != len(before) or len(found) != document.documents:
        return False
    others = (same(new.value, old.value) for new, old in zip(found, before) if new.index != document.index)
    return all(others) and same(found[document.index].value, wanted)


def _with(value: Any, pointer: Path, new: Any) -> Any:
    head, *rest = pointer
    inner = value.get(head) if isinstance(value, dict) else None
    return {**(value or {}), head: _with(inner, tuple(rest), new) if rest else _plain(new)}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _is_bare(here: Place) -> bool:
    return here.key is not None and (here.key.start, here.key.end) == (here.value.start, here.value.end)


def _set_bare(document: Document, start: Start, edit: Edit, here: Place) -> Patch:
    """`--bf16` alone means true; a switch of argparse takes no value, so false is its absence."""
    if edit.pointer[-1] in start.accepted.switches:
        if edit.value is False:
            return _removed(document, edit, here)
        raise CannotEdit("the flag takes no value")
    end = here.value.end
    return Patch(edit.path, end, end, " " + _words(edit.value, ""))


def _removed(document: Document, edit: Edit, here: Place) -> Patch:
    """Flag and value, with the spaces and the continued line in front of them."""
    key = here.key
    if key is None:
        raise CannotEdit("no flag says it")
    before = _BREAK.search(document.text, 0, key.start)
    first = before.start() if before is not None else key.start
    if document.text[first : key.start] == "":
        raise CannotEdit("the flag is part of another word")
    return Patch(edit.path, first, max(key.end, here.value.end), "")


def _added(document: Document, start: Start, edit: Edit) -> Patch:
    if len(edit.pointer) != 1 or not isinstance(edit.pointer[0], str) or start.accepted.by_override:
        return _added_override(document, start, edit)
    name = start.accepted.names.get(edit.pointer[0], edit.pointer[0])
    if start.accepted.is_own and name not in start.accepted.defined:
        raise CannotEdit(f"`{start.program.entry}` has no flag for `{name}`")
    if start.program.is_foreign and start.program.entry.endswith(".py") and has_dashed_flags(document):
        raise CannotEdit(f"`{start.program.entry}` is not in the repository, and its flags are its own")
    neighbour = _neighbour(document, edit.near)
    assert neighbour.key is not None
    dashed = name in start.accepted.dashed if start.accepted.is_own else has_dashed_flags(document)
    flag = "--" + (name.replace("_", "-") if dashed else name)
    switch = name in start.accepted.switches and edit.value is True
    if name in start.accepted.switches and edit.value is False:
        raise CannotEdit("the flag takes no value")
    words = flag if switch else f"{flag} {_words(edit.value, '')}"
    end = max(neighbour.key.end, neighbour.value.end)
    return Patch(edit.path, end, end, _between(document, neighbour) + words)


def _added_override(document: Document, start: Start, edit: Edit) -> Patch:
    """`a.b.c=value` behind an override of the command, as Hydra takes it: the last of those that are nearest to it
    (`a.b.d=...`), which scripts keep in one array; of a command that has none, behind its options, if every key is an
    override. Where several launches share the array, behind the last override of all that leaves the others alone."""
    whole = start.accepted.by_override
    places = {
        path: place
        for path, place in document.places.items()
        if (whole or len(path) > 1) and place.key is not None and not _is_default(document, place)
    }
    own = {path: one for path, one in places.items() if one.key and not document.text.startswith("--", one.key.start)}
    own = own or (places if whole else {})
    if not own or not all(isinstance(step, str) for step in edit.pointer) or isinstance(edit.value, (dict, list)):
        raise CannotEdit("a part of a value cannot be added")
    last = max(own.values(), key=lambda one: one.value.end)
    nearest = max(own, key=lambda path: (shared_steps(path, edit.pointer), own[path].value.end))
    patch = _override_behind(document, edit, own[nearest])
    alone = own[nearest] is last or document.documents == 1
    return patch if alone or _reads_as(document, start, edit, patch) else _override_behind(document, edit, last)


def _override_behind(document: Document, edit: Edit, neighbour: Place) -> Patch:
    """The override behind the word of another one, whose value may stand elsewhere, in a variable, or behind a flag and
    its value."""
    word = _WORD.match(document.text, neighbour.key.start) if neighbour.key else None
    end = word.end() if word is not None and not word[0].startswith("-") else neighbour.value.end
    name = ".".join(map(str, edit.pointer))
    return Patch(edit.path, end, end, f"{_between(document, neighbour)}{name}={_words(edit.value, '')}")


def _neighbour(document: Document, near: str) -> Place:
    """The flag that a new one is placed behind: `near`, else the last one of the command."""
    found = [document.places[(key,)] for key in document.value if isinstance(key, str)]
    own = [one for one in found if one.key is not None and not _is_default(document, one)]
    flags = [one for one in own if one.key is not None and document.text.startswith("--", one.key.start)]
    if not flags:
        raise CannotEdit("the command has no flag that a new one could stand behind")
    if (near,) in document.places and document.places[(near,)] in flags:
        return document.places[(near,)]
    return max(flags, key=lambda one: max(one.value.end, one.key.end if one.key else 0))


def _between(document: Document, neighbour: Place) -> str:
    """What stands between two flags: a continued line with the same indentation, a line of an array, or a space."""
    key = neighbour.key
    assert key is not None
    text = document.text
    start = line_start(text, key.start)
    if text[start : key.start].strip() or start == 0:
        return " "
    before = text[: start - 1].removesuffix("\r")
    indent = indent_of(text, key.start)
    return f" \\{document.newline}{indent}" if before.endswith("\\") else f"{document.newline}{indent}"


def _rename(document: Document, edit: Edit) -> Patch:
    here = _own_place(document, document.places.get(edit.pointer) if edit.pointer in document.places else None)
    key = here.key
    if key is None or (*edit.pointer[:-1], edit.value) in document.places:
        raise CannotEdit(f"`{edit.value}` is set as well")
    old = document.text[key.start : key.end]
    if not old.startswith("-"):  # an override: `trainer.nnodes=1`
        section, dot, _ = old.rpartition(".")
        return Patch(edit.path, key.start, key.end, f"{section}{dot}{edit.value}")
    new = str(edit.value).replace("_", "-") if "-" in old[2:] else str(edit.value)
    return Patch(edit.path, key.start, key.end, f"--{new}")


def _words(value: Any, old: str) -> str:
    """A value as words of a shell. `old`: the text that it replaces, whose quotes and spelling of truth are kept."""
    if isinstance(value, (list, tuple)):
        return " ".join(_as_shell_word(one, "") for one in value)
    if isinstance(value, dict):
        return shlex.quote(json.dumps(value))
    return _as_shell_word(value, old)


def _as_shell_word(value: Any, old: str) -> str:
    if value is None:
        raise CannotEdit("a flag cannot say null")
    if isinstance(value, bool):
        text = str(value)
        text = text.lower() if old.strip("'\"")[:1].islower() else text
    else:
        text = repr(value) if isinstance(value, float) else str(value)
    quote = old[:1]
    if quote and quote in "'\"" and old[-1:] == quote and _PLAIN.fullmatch(text):
        return f"{quote}{text}{quote}"
    return shlex.quote(text)
