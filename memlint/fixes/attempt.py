"""Tries edits in memory: makes the files as they would be and checks every law of laws.py. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memlint._record import NamedTuple
from memlint.findings import Edit, Finding, Patch
from memlint.fixes.edits.apply import apply, patches
from memlint.fixes.edits.reread import encode
from memlint.fixes.edits.text import CannotEdit
from memlint.fixes.laws import BrokenLaw, broken, unsolved
from memlint.ruleset.engine import Analysis, Reanalyse
from memlint.source.document import Document


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
    documents = _documents(analysis)
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


def check_finding(tried: Attempt, analysis: Analysis, finding: Finding) -> Attempt:
    """`tried`, checked against law 6 for `finding`: refused where the finding stays or a new one appears."""
    if not tried.holds or tried.after is None:
        return tried
    reasons = unsolved(finding, analysis.findings, tried.after.findings)
    return tried._replace(refused="; ".join(law.detail for law in reasons))


def _in_its_file(document: Document, edit: Edit) -> Edit:
    """The edit of a command's value, made in the config that the command takes it from. A new key goes there too if the
    command gives nothing but the config's name."""
    if document.start is None or not edit.pointer or edit.path != document.path:
        return edit
    file = document.start.values.file_of(str(edit.pointer[0]))
    return edit if file is None else edit._replace(path=file.path)


def _documents(analysis: Analysis) -> dict[str, Document]:
    parts = analysis.parsed.documents if analysis.parsed else ()
    start = analysis.document.start
    configs = () if start is None else start.values.documents()
    # The launcher's options in a script are a document of the same path: the program's arguments come first.
    read = (*configs, *reversed(parts), analysis.document)
    return {document.path: document for document in read}


def _edits_by_path(edits: tuple[Edit, ...]) -> dict[str, list[Edit]]:
    grouped: dict[str, list[Edit]] = {}
    for edit in edits:
        grouped.setdefault(edit.path, []).append(edit)
    return grouped
