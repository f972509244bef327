"""What suppressions hide of one file's findings, and what they have to say themselves."""

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
    """`findings` that stay, those about suppressions included; `used`: the waivers of settings that hid something."""

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
    """The findings of a file after the comments and settings of every file that takes part in it.

    `can_name(name, path)`: whether the file at `path` can name the file `name`.
    """
    findings, suppressed, used = analysed.findings, 0, frozenset[Waiver]()
    extra: list[Finding] = []
    own = {analysis.document.path for analysis in analysed.analyses}
    for document in _documents(analysed):
        one = apply(findings, document, settings_of(document.path), today(), known, in_force)
        findings, suppressed, used = one.remaining, suppressed + len(one.suppressed), used | one.used
        if document.path in own and analysed.format:
            extra += (*one.extra, *_unusable(document, can_name))
    return Suppressed((*findings, *extra), suppressed, used)


def today() -> str:
    return time.strftime("%Y-%m-%d")


def _documents(analysed: FileAnalysis) -> Iterator[Document]:
    """Every document that takes part, each once, the file's own first."""
    seen: set[tuple[str, int]] = set()
    for analysis in analysed.analyses:
        for document in (analysis.document, *(analysis.parsed.documents if analysis.parsed else ())):
            if (document.path, document.index) not in seen:
                seen.add((document.path, document.index))
                yield document


def _unusable(document: Document, can_name: Callable[[str, str], bool]) -> Iterator[Finding]:
    """What a comment says and memlint cannot use: told there, as the estimate goes on without it."""
    own = read_directives(document)
    for name, (value, span) in own.facts.items():
        if name in _JUDGED and (wrong := _JUDGED[name](value)):
            yield finding(MALFORMED, wrong, document.path, span)
    for names, span in own.companions:
        for name in filter(None, names.split(",")):
            if not can_name(name, document.path):
                yield finding(MALFORMED, f"`with={name}`: there is no such file", document.path, span)


def _unknown_card(name: str) -> str:
    try:
        named_gpu(name)
    except UsageError as error:
        return str(error)
    return ""


_JUDGED: Mapping[str, Callable[[str], str]] = {"gpu": _unknown_card, "host_memory": host_memory_mistake}
