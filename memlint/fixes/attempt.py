"""Trying edits in memory: the files as they would be, held against every law, nothing written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from memlint._record import NamedTuple
from memlint.findings import Edit, Finding, Patch
from memlint.fixes.edits.apply import apply, patches
from memlint.fixes.edits.reread import encode
from memlint.fixes.edits.text import CannotEdit
from memlint.fixes.laws import Broken, broken, unsolved
from memlint.ruleset.engine import Analysis
from memlint.source.document import Document

# The analysis of the same file when these files hold other bytes.
Reanalyse = Callable[[Mapping[str, bytes]], Analysis]


class Attempt(NamedTuple):
    """`contents` are whole files by path, `before` the bytes they were made from; `refused` says why there is nothing
    to do, `broken` which law fails.

    Laws 1 - 5 are about the writing: a failure is memlint's bug. Law 6 is about the advice: a fix that leaves its
    finding or brings another one (offload removed on a card that needs it) is refused, and others go on.
    """

    edits: tuple[Edit, ...]
    patches: tuple[Patch, ...] = ()
    contents: Mapping[str, bytes] = {}
    before: Mapping[str, bytes] = {}
    after: Analysis | None = None
    refused: str = ""
    broken: tuple[Broken, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.refused and not self.broken


def attempt(analysis: Analysis, edits: Iterable[Edit], finding: Finding | None, again: Reanalyse) -> Attempt:
    """The edits of one fix, placed and judged. `finding` is what must be gone (None: nothing must)."""
    edits = tuple(edits)
    documents = _documents(analysis)
    found: list[Patch] = []
    contents: dict[str, bytes] = {}
    before: dict[str, bytes] = {}
    faults: list[Broken] = []
    for path, own in _by_path(edits).items():
        if path not in documents:
            return Attempt(edits, refused=f"{path} is not one of the files that were read")
        try:
            placed = patches(documents[path], own)
        except CannotEdit as error:
            return Attempt(edits, refused=f"{path}: {error}")
        faults.extend(broken(documents[path], own, placed))
        found.extend(placed)
        contents[path] = encode(documents[path], apply(documents[path].text, placed))
        before[path] = encode(documents[path], documents[path].text)
    if faults:
        return Attempt(edits, tuple(found), contents, before, broken=tuple(faults))
    if not found:
        return Attempt(edits, refused="the files say so already")
    after = again(contents)
    tried = Attempt(edits, tuple(found), contents, before, after)
    return tried if finding is None else held(tried, analysis, finding)


def held(tried: Attempt, analysis: Analysis, finding: Finding) -> Attempt:
    """`tried` held against law 6 for `finding`: refused where the finding stays or a new one comes."""
    if not tried.holds or tried.after is None:
        return tried
    reasons = unsolved(finding, analysis.findings, tried.after.findings)
    return tried._replace(refused="; ".join(law.detail for law in reasons))


def _documents(analysis: Analysis) -> dict[str, Document]:
    parts = analysis.parsed.documents if analysis.parsed else ()
    return {document.path: document for document in (analysis.document, *parts)}


def _by_path(edits: tuple[Edit, ...]) -> dict[str, list[Edit]]:
    grouped: dict[str, list[Edit]] = {}
    for edit in edits:
        grouped.setdefault(edit.path, []).append(edit)
    return grouped
