"""Laws that hold for every write. They are checked at run time: where one of 1 - 5 is broken, nothing is written.

1. parses: the result parses without a new problem.
2. value: the loaded value differs from the old one only as the edits declare.
3. bytes: outside of the patches nothing changed, and every comment survived, beside the same key.
4. idempotent: placing the same edits again gives no patch.
5. rounds: fixing ends after at most `MAX_ROUNDS` rounds.
6. finding: the finding is gone, and no new one of equal or higher severity came, but for one that says that there is
   room to spare now, that a buffer is larger than what is left needs, or that the run is tight where it was out of
   memory; else this one fix is refused.

Laws 1 - 4 are about one file and are checked here; 5 and 6 need the rule engine (fixes/apply.py, fixes/attempt.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from memlint._record import NamedTuple
from memlint.findings import SEVERITIES, Edit, Finding, Patch
from memlint.fixes.edits.apply import apply, expected, patches
from memlint.fixes.edits.reread import reread
from memlint.fixes.edits.text import CannotEdit
from memlint.rule_groups import LAUNCHER_UNKNOWN, OUT_OF_MEMORY, OVER_AT_FULL_LENGTH, ROOM_TO_SPARE, TIGHT
from memlint.source.comments import comment_texts
from memlint.source.document import Document
from memlint.source.scalars import same

MAX_ROUNDS = 10
Identity = tuple[str, str, str]  # path, rule, key: see `identity`


class BrokenLaw(NamedTuple):
    """A law that does not hold, and what was seen."""

    law: str
    detail: str


def broken(document: Document, edits: Iterable[Edit], found: tuple[Patch, ...]) -> tuple[BrokenLaw, ...]:
    """Which of laws 1 - 4 the patched text breaks; empty when it may be written."""
    edits = tuple(edits)
    text = apply(document.text, found)
    after = reread(document, text)
    if after is None:
        return (BrokenLaw("parses", "the result is not one document"),)
    return (
        *_parses(document, after),
        *_value(document, after, edits),
        *_bytes(document, text, found),
        *_comments(document, after),
        *_idempotent(after, edits),
    )


def _parses(before: Document, after: Document) -> Iterator[BrokenLaw]:
    old = Counter(problem.code for problem in before.problems)
    new = Counter(problem.code for problem in after.problems)
    for code in new - old:
        yield BrokenLaw("parses", f"the result has a new problem: {code}")


def _value(before: Document, after: Document, edits: tuple[Edit, ...]) -> Iterator[BrokenLaw]:
    try:
        wanted = expected(before.value, edits)
    except CannotEdit as error:
        yield BrokenLaw("value", str(error))
        return
    if not same(after.value, wanted):
        yield BrokenLaw("value", "the result loads as something else than the edits declare")


def _bytes(document: Document, text: str, found: tuple[Patch, ...]) -> Iterator[BrokenLaw]:
    position = shift = 0
    for patch in found:
        if document.text[position : patch.start] != text[position + shift : patch.start + shift]:
            yield BrokenLaw("bytes", f"text before offset {patch.start} changed")
        position = patch.end
        shift += len(patch.text) - (patch.end - patch.start)
    if document.text[position:] != text[position + shift :]:
        yield BrokenLaw("bytes", "text after the last patch changed")


def _comments(before: Document, after: Document) -> Iterator[BrokenLaw]:
    old, new = map(comment_texts, (before, after))
    if old != new:
        lost = Counter(old) - Counter(new)
        yield BrokenLaw("bytes", f"comments changed: {', '.join(list(lost)[:3]) or 'order or number'}")


def _idempotent(after: Document, edits: tuple[Edit, ...]) -> Iterator[BrokenLaw]:
    try:
        again = patches(after, edits)
    except CannotEdit as error:
        yield BrokenLaw("idempotent", str(error))
        return
    if again:
        yield BrokenLaw("idempotent", "placing the same edits again changes the file again")


def unsolved(gone: Finding, before: Iterable[Finding], after: Iterable[Finding]) -> tuple[BrokenLaw, ...]:
    """Law 6: what `after` holds that it must not, when the fix of `gone` was applied."""
    old = Counter(map(identity, before))
    new = Counter(map(identity, after))
    found = []
    if new[identity(gone)] >= old[identity(gone)]:
        found.append(BrokenLaw("finding", f"{gone.rule} would still be there"))
    rank = SEVERITIES.index(gone.severity)
    allowed = (*ROOM_TO_SPARE, *_milder_instead(old, new))
    for item in after:
        fresh = new[identity(item)] > old[identity(item)]
        if fresh and SEVERITIES.index(item.severity) >= rank and item.rule not in allowed:
            found.append(BrokenLaw("finding", f"it would bring the {item.severity} {item.rule} ({item.name})"))
    return tuple(found)


def _milder_instead(old: Counter[Identity], new: Counter[Identity]) -> tuple[str, ...]:
    """Rules that say less of a run's memory than one that went: that it is tight, or too large at full length alone."""
    gone = {rule for _, rule, _ in old} - {rule for _, rule, _ in new}
    if gone & {*OUT_OF_MEMORY, *LAUNCHER_UNKNOWN}:
        return *OVER_AT_FULL_LENGTH, *TIGHT
    return TIGHT if gone & {*OVER_AT_FULL_LENGTH} else ()


def identity(finding: Finding) -> Identity:
    """What makes two findings of two rounds the same one."""
    return (finding.location.path, finding.rule, finding.key)
