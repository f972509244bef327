"""What suppressions hide of one file's findings, and what they have to say themselves."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator

from memlint._record import NamedTuple
from memlint.checks.directives import MALFORMED, finding
from memlint.checks.suppressions import Known, Waiver, apply, read_directives
from memlint.commands import CommandError, options
from memlint.commands.session import Outcome
from memlint.findings import Finding
from memlint.settings import FileSettings
from memlint.source.document import Document


class Hidden(NamedTuple):
    """`findings` that stay, those about suppressions included; `used`: the waivers of settings that hid something."""

    findings: tuple[Finding, ...]
    suppressed: int = 0
    used: frozenset[Waiver] = frozenset()


def hidden(
    outcome: Outcome, settings_of: Callable[[str], FileSettings], known: Known = (), in_force: Known | None = None
) -> Hidden:
    """The findings of a file after the comments and settings of every file that takes part in it."""
    findings, suppressed, used = outcome.findings, 0, frozenset[Waiver]()
    extra: list[Finding] = []
    own = {analysis.document.path for analysis in outcome.analyses}
    for document in _documents(outcome):
        told = apply(findings, document, settings_of(document.path), today(), known, in_force)
        findings, suppressed, used = told.kept, suppressed + len(told.suppressed), used | told.used
        if document.path in own and outcome.format:
            extra += (*told.extra, *_unknown_cards(document))
    return Hidden((*findings, *extra), suppressed, used)


def today() -> str:
    return datetime.date.today().isoformat()


def _documents(outcome: Outcome) -> Iterator[Document]:
    """Every document that takes part, each once, the file's own first."""
    seen: set[tuple[str, int]] = set()
    for analysis in outcome.analyses:
        for document in (analysis.document, *(analysis.parsed.documents if analysis.parsed else ())):
            if (document.path, document.index) not in seen:
                seen.add((document.path, document.index))
                yield document


def _unknown_cards(document: Document) -> Iterator[Finding]:
    """A card that a comment names and nobody knows: said there, as the estimate goes on without one."""
    said = read_directives(document).facts.get("gpu")
    if said is None:
        return
    try:
        options.gpu(said[0])
    except CommandError as error:
        yield finding(MALFORMED, str(error), document.path, said[1])
