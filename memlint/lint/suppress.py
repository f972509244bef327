"""Applies suppressions to the findings of one file, and adds findings about malformed comments."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from memlint._record import NamedTuple
from memlint.errors import UsageError
from memlint.findings import Finding
from memlint.hardware.named import named_gpu
from memlint.lint.analyse_file import FileAnalysis
from memlint.settings import FileSettings
from memlint.settings.meaning import host_memory_mistake
from memlint.source.document import Document
from memlint.suppressions.apply import Known, apply, read_directives
from memlint.suppressions.directives import MALFORMED, finding
from memlint.suppressions.waiver import Waiver


class Suppressed(NamedTuple):
    """`findings`: those that remain, and those about the suppressions themselves. `suppressed`: how many were removed.
    `used`: the waivers that removed one."""

    findings: tuple[Finding, ...]
    suppressed: int = 0
    used: frozenset[Waiver] = frozenset()


def suppress(
    analysed: FileAnalysis,
    settings_of: Callable[[str], FileSettings],
    known: Known,
    in_force: Known,
    can_name: Callable[[str, str], bool],
) -> Suppressed:
    """The findings of a file after suppression, by comments and settings of every file that takes part in its runs.

    `known`, `in_force`: all rules, and those that run. `can_name(name, path)`: whether the file at `path` can name the
    file `name` as a companion.
    """
    findings, suppressed, used = analysed.findings, 0, frozenset[Waiver]()
    extra: list[Finding] = []
    own_paths = {analysis.document.path for analysis in analysed.analyses}
    for document in _documents(analysed):
        one = apply(findings, document, settings_of(document.path), today(), known, in_force)
        findings, suppressed, used = one.remaining, suppressed + len(one.suppressed), used | one.used
        if document.path in own_paths and analysed.format:
            extra += (*one.extra, *_unusable_directives(document, can_name))
    return Suppressed((*findings, *extra), suppressed, used)


def today() -> str:
    """The local date, YYYY-MM-DD."""
    return time.strftime("%Y-%m-%d")


def _documents(analysed: FileAnalysis) -> Iterator[Document]:
    """Every document of the analysis once, the file's own first."""
    seen: set[tuple[str, int]] = set()
    for analysis in analysed.analyses:
        for document in (analysis.document, *(analysis.parsed.documents if analysis.parsed else ())):
            if (document.path, document.index) not in seen:
                seen.add((document.path, document.index))
                yield document


def _unusable_directives(document: Document, can_name: Callable[[str, str], bool]) -> Iterator[Finding]:
    """Findings about comments that name an unknown GPU, an invalid size or a missing file; estimates ignore them."""
    directives = read_directives(document)
    for name, (value, span) in directives.facts.items():
        if name in _VALUE_CHECKS and (message := _VALUE_CHECKS[name](value)):
            yield finding(MALFORMED, message, document.path, span)
    for names, span in directives.companions:
        for name in filter(None, names.split(",")):
            if not can_name(name, document.path):
                yield finding(MALFORMED, f"`with={name}`: there is no such file", document.path, span)


def _unknown_card(name: str) -> str:
    try:
        named_gpu(name)
    except UsageError as error:
        return str(error)
    return ""


_VALUE_CHECKS: Mapping[str, Callable[[str], str]] = {"gpu": _unknown_card, "host_memory": host_memory_mistake}
