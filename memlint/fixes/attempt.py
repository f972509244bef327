"""Tries edits in memory: makes the files as they would be and checks every law of laws.py. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memlint._record import NamedTuple
from memlint.findings import Edit, Finding, Patch
from memlint.fixes.edits.apply import apply, has_place, patches
from memlint.fixes.edits.launcher import is_of_launcher
from memlint.fixes.edits.reread import encode
from memlint.fixes.edits.text import CannotEdit
from memlint.fixes.laws import BrokenLaw, broken, unsolved
from memlint.ruleset.engine import Analysis, Reanalyse
from memlint.source.document import Document, Start


class Attempt(NamedTuple):
    """Edits that were tried. `contents`: whole files by path; `before`: the bytes that they were made from. `refused`:
    why the fix cannot be applied; `broken`: the laws that fail.

    Laws 1 - 5 are about writing: where one fails, memlint has a bug. Law 6 is about the advice: a fix that leaves its
    finding or causes another one (offload removed on a card that needs it) is refused, and other fixes go on.
    """

    edits: tuple[Edit, ...]
    patches: tuple[Patch, ...] = ()
    contents: Mapping[str, bytes] = {}
    before: Mapping[str, bytes] = {}
    after: Analysis | None = None
    refused: str = ""
    broken: tuple[BrokenLaw, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.refused and not self.broken


def attempt(analysis: Analysis, edits: Iterable[Edit], finding: Finding | None, reanalyse: Reanalyse) -> Attempt:
    """Tries the edits of one fix. `finding`: the one that must be gone (None: none must)."""
    edits = tuple(_in_its_file(analysis.document, edit) for edit in edits)
    documents = _with_program(_documents(analysis), analysis.document, edits)
    found: list[Patch] = []
    contents: dict[str, bytes] = {}
    before: dict[str, bytes] = {}
    faults: list[BrokenLaw] = []
    for path, own in _edits_by_path(edits).items():
        if path not in documents:
            return Attempt(edits, refused=f"{path} is not one of the files that were read")
        try:
            placed = patches(documents[path], own)
        except CannotEdit as error:
            return Attempt(edits, refused=str(error) if path == analysis.document.path else f"{path}: {error}")
        faults.extend(broken(documents[path], own, placed))
        found.extend(placed)
        contents[path] = encode(documents[path], apply(documents[path].text, placed))
        before[path] = encode(documents[path], documents[path].text)
    if faults:
        return Attempt(edits, tuple(found), contents, before, broken=tuple(faults))
    if not found:
        return Attempt(edits, refused="the files say so already")
    after = reanalyse(contents)
    tried = Attempt(edits, tuple(found), contents, before, after)
    return tried if finding is None else check_finding(tried, analysis, finding)


def have_places(analysis: Analysis, edits: Iterable[Edit]) -> bool:
    """Whether each of the edits has a place, as far as can be said without reading changed files."""
    edits = tuple(_in_its_file(analysis.document, edit) for edit in edits)
    documents = _with_program(_documents(analysis), analysis.document, edits)
    return all(edit.path in documents and has_place(documents[edit.path], edit) for edit in edits)


def check_finding(tried: Attempt, analysis: Analysis, finding: Finding) -> Attempt:
    """`tried`, checked against law 6 for `finding`: refused where the finding stays or a new one appears."""
    if not tried.holds or tried.after is None:
        return tried
    reasons = unsolved(finding, analysis.findings, tried.after.findings)
    return tried._replace(refused="; ".join(law.detail for law in reasons))


def _in_its_file(document: Document, edit: Edit) -> Edit:
    """The edit of a command's value, made in the config that the command takes it from, or in the code of a program
    that reads no arguments. A new key goes there too if the command gives nothing but the config's name."""
    if document.start is None or not edit.pointer or edit.path != document.path:
        return edit
    if document.start.values.loading_call is not None and edit.pointer == ("torch_dtype",):
        return edit._replace(pointer=("dtype",))  # the reader's name for both arguments of `from_pretrained`
    file = document.start.values.file_of(str(edit.pointer[0]))
    if file is None and document.start.accepted.has_none and not is_of_launcher(document, edit.pointer):
        file = _in_program(document)
    return edit if file is None else edit._replace(path=file.path)


def _in_program(document: Document) -> Document | None:
    """The values in the code of the program that a command starts."""
    in_program = document.start.values.in_program if document.start is not None else None
    return None if in_program is None else in_program()


def _documents(analysis: Analysis) -> dict[str, Document]:
    parts = analysis.parsed.documents if analysis.parsed else ()
    start = analysis.document.start
    configs = () if start is None else (*start.values.documents(), *_launch_files(start))
    # The launcher's options in a script are a document of the same path: the program's arguments come first.
    read = (*configs, *reversed(parts), analysis.document)
    return {document.path: document for document in read}


def _launch_files(start: Start) -> tuple[Document, ...]:
    """The file of accelerate that a command names beside options of its own."""
    file = start.machine.launch_file
    return file.start.values.documents() if isinstance(file, Document) and file.start is not None else ()


def _with_program(documents: dict[str, Document], document: Document, edits: Iterable[Edit]) -> dict[str, Document]:
    """The documents with that of the program's code, where an edit is made there."""
    if all(edit.path in documents for edit in edits):
        return documents
    program = _in_program(document)
    return documents if program is None else {program.path: program, **documents}


def _edits_by_path(edits: tuple[Edit, ...]) -> dict[str, list[Edit]]:
    grouped: dict[str, list[Edit]] = {}
    for edit in edits:
        grouped.setdefault(edit.path, []).append(edit)
    return grouped
