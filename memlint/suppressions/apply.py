"""Applies suppressions (comments and settings) to findings, and reports those that are no longer needed.

A comment at the end of a line covers the line. A comment on a line of its own covers the key below it with everything
in it. Suppressions in settings cover a JSON pointer and everything below. MEM000 (our bug) is never suppressed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from memlint._record import NamedTuple
from memlint.findings import Finding, Fix
from memlint.formats.schema.suggest import nearest
from memlint.identity_cache import IdentityCache
from memlint.rule_groups import INTERNAL_ERROR
from memlint.rule_selectors import covers
from memlint.source import comments
from memlint.source.document import Document, Span
from memlint.suppressions.dates import is_past
from memlint.suppressions.directives import MALFORMED, MARK, Directives, Suppression, directives, finding
from memlint.suppressions.waiver import Waiver

UNUSED = ("SUP001", "suppressions/unused")
EXPIRED = ("SUP002", "suppressions/expired")
NO_REASON = ("SUP003", "suppressions/without-reason")
NEVER = frozenset({INTERNAL_ERROR})

Names = Sequence[tuple[str, str]]  # (id, name) of rules
Known = Callable[[], Names]  # asked where a file has suppressions


class SuppressionSettings(Protocol):
    """The part of a config's settings that suppressions read."""

    @property
    def require_reason(self) -> bool: ...
    @property
    def waivers(self) -> Sequence[Waiver]: ...


class SuppressionResult(NamedTuple):
    """The findings that remain, those suppressed with the reason, and findings about the suppressions (`extra`).

    `used`: the waivers (suppressions in settings) that suppressed a finding.
    """

    remaining: tuple[Finding, ...]
    suppressed: tuple[tuple[Finding, str], ...] = ()
    extra: tuple[Finding, ...] = ()
    used: frozenset[Waiver] = frozenset()


class _Scope(NamedTuple):
    """A suppression and the lines that it covers, the last one included."""

    suppression: Suppression
    first: int
    last: int


_Hit = tuple[int, str]  # index of a suppression, and the selector of it that covers a finding


def apply(
    findings: Iterable[Finding],
    document: Document,
    settings: SuppressionSettings,
    today: str,
    known: Known | None = None,
    in_force: Known | None = None,
) -> SuppressionResult:
    """Sorts the findings of one file into those that stay and those that are suppressed.

    `today`: a date, YYYY-MM-DD. `known()`: all existing rules; a suppression that names none of them is malformed.
    `in_force()`: the rules that ran (None: all); a suppression of a rule that did not run is not reported as unused.
    Unused waivers are reported by `waiver_findings`, after all files.
    """
    stated = read_directives(document)
    scopes = [_scope(document, item) for item in stated.suppressions]
    waivers = [waiver for waiver in settings.waivers if not is_past(waiver.until, today)]
    remaining: list[Finding] = []
    suppressed: list[tuple[Finding, str]] = []
    hits: set[_Hit] = set()
    used: set[Waiver] = set()
    for item in findings:
        matching = _matching(scopes, item, document.path)
        hits.update(matching)  # also of expired suppressions, which are then not reported as unused as well
        stated_here = [scopes[index].suppression for index, _ in matching]
        waived = [waiver for waiver in waivers if _waives(waiver, item, document.path)]
        used.update(waived)
        reasons = [one.reason for one in stated_here if not is_past(one.until, today)]
        reasons += [waiver.reason for waiver in waived]
        if reasons:
            suppressed.append((item, reasons[0]))
        else:
            remaining.append(item)
    judge = _Judge(document, settings, today, known, in_force)
    extra = [found for index, scope in enumerate(scopes) for found in judge.findings(index, scope.suppression, hits)]
    return SuppressionResult(tuple(remaining), tuple(suppressed), (*stated.issues, *extra), frozenset(used))


def _matching(scopes: Sequence[_Scope], item: Finding, path: str) -> list[_Hit]:
    """The suppressions that cover a finding, expired ones included."""
    return [
        (index, selector)
        for index, scope in enumerate(scopes)
        for selector in scope.suppression.rules
        if _covers(scope, selector, item, path)
    ]


_READ = IdentityCache(8)  # the current file is asked for repeatedly, beside what its fixes make of it


def read_directives(document: Document) -> Directives:
    """The directives of a document; most files have none, and are not scanned for comments."""
    if MARK not in document.text:
        return Directives()
    found: Directives | None = _READ.get(document.text, document.path)
    if found is None:
        found = directives(comments(document, MARK), document.path)
        _READ.put(found, document.text, document.path)
    return found


def waiver_findings(
    waivers: Iterable[Waiver], used: frozenset[Waiver], today: str, require_reason: bool = False
) -> tuple[Finding, ...]:
    """Findings about suppressions in settings: expired, unused, without reason. To be called after all files."""
    found: list[Finding] = []
    for waiver in dict.fromkeys(waivers):
        rules, place = ", ".join(waiver.rules), waiver.origin
        span = Span(0, 0, place.line, place.column, place.line, place.column)
        if is_past(waiver.until, today):
            found.append(finding(EXPIRED, _expired(rules, waiver.until), place.path, span))
        elif waiver not in used:
            found.append(finding(UNUSED, f"{rules}: nothing to suppress; remove this entry", place.path, span, "info"))
        if require_reason and not waiver.reason:
            found.append(finding(NO_REASON, f"{rules}: suppressed without a reason", place.path, span))
    return tuple(found)


def mend(text: str, findings: Iterable[Finding]) -> str:
    """`text` without the suppression comments that `findings` call unused or expired."""
    changes = {(item.data["start"], item.data["end"]): item.data["text"] for item in findings if "text" in item.data}
    for (start, end), new in sorted(changes.items(), reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _covers(scope: _Scope, selector: str, item: Finding, path: str) -> bool:
    if item.rule in NEVER or item.location.path != path or not covers(selector, item.rule, item.name):
        return False
    return scope.suppression.whole_file or scope.first <= item.location.line <= scope.last


def _waives(waiver: Waiver, item: Finding, path: str) -> bool:
    if item.rule in NEVER or item.location.path != path:
        return False
    below = tuple(map(str, item.location.pointer[: len(waiver.pointer)]))
    return below == waiver.pointer and any(covers(selector, item.rule, item.name) for selector in waiver.rules)


def _scope(document: Document, suppression: Suppression) -> _Scope:
    line = suppression.comment.span.line
    if not suppression.comment.own_line:
        return _Scope(suppression, line, line)
    below = _line_below(document.text, suppression.comment.span.end, line)
    last = below
    for place in document.places.values():
        span = place.value
        if (place.key or span).line == below:
            end = span.end_line - 1 if span.end_column == 1 else span.end_line  # of a block scalar
            last = max(last, end) if place.key or not _is_outer(document, span) else last
    return _Scope(suppression, below, last)


def _is_outer(document: Document, span: Span) -> bool:
    """Whether `span` is that of the whole document: a comment above the first key covers this key, not the file."""
    root = document.places.get(())
    return root is not None and span == root.value and isinstance(document.value, dict)


def _line_below(text: str, end: int, line: int) -> int:
    """The next line that is neither empty nor only a comment; the line itself at the end of the text."""
    for number, content in enumerate(text[end:].splitlines()[1:], line + 1):
        stripped = content.strip()
        if stripped and not stripped.startswith("#"):
            return number
    return line


class _Judge(NamedTuple):
    """Checks the suppressions of one document: malformed, expired, unused, without a reason."""

    document: Document
    settings: SuppressionSettings
    today: str
    known: Known | None
    in_force: Known | None

    def findings(self, index: int, item: Suppression, hits: set[_Hit]) -> list[Finding]:
        path, span = self.document.path, item.comment.span
        rules = ", ".join(item.rules)
        found: list[Finding] = []
        if is_past(item.until, self.today):
            found.append(self._removable(EXPIRED, _expired(rules, item.until), item, (), "warning"))
        known = self.known() if self.known else ()
        unknown = [name for name in item.rules if known and not _names_any(name, known)]
        found += [finding(MALFORMED, _unknown(name, known), path, span) for name in unknown]
        unused = [name for name in item.rules if name not in unknown and self._is_unused(index, name, hits)]
        if unused and not is_past(item.until, self.today):
            left = tuple(name for name in item.rules if name not in unused)
            message = f"{', '.join(unused)}: nothing to suppress here; remove it"
            found.append(self._removable(UNUSED, message, item, left, "info"))
        if self.settings.require_reason and not item.reason:
            found.append(finding(NO_REASON, f"{rules}: suppressed without a reason; add one behind ]", path, span))
        return found

    def _is_unused(self, index: int, name: str, hits: set[_Hit]) -> bool:
        if (index, name) in hits or self.document.documents > 1:  # another document of the file may need it
            return False
        return self.in_force is None or _names_any(name, self.in_force())

    def _removable(
        self, rule: tuple[str, str], message: str, item: Suppression, left: tuple[str, ...], severity: str
    ) -> Finding:
        title = "Remove what is not needed from the comment" if left else "Remove the comment"
        found = finding(rule, message, self.document.path, item.comment.span, severity)
        return found._replace(fixes=(Fix(title, safe=True),), data=_removal(self.document.text, item, left))


def _unknown(name: str, known: Names) -> str:
    near = nearest(name, [word for rule in known for word in rule])
    return f"there is no rule {name}" + (f": did you mean {near}?" if near else "; `memlint rules` lists them")


def _removal(text: str, item: Suppression, left: tuple[str, ...]) -> Mapping[str, int | str]:
    """The range of text to replace, and the new text: the rules that are `left`, or "" to remove the whole comment with
    its line or the space before it."""
    start, end = item.comment.span.start, item.comment.span.end
    if left:
        opened = text.index("[", start)
        return {"start": opened + 1, "end": text.index("]", opened), "text": ", ".join(left)}
    while start > 0 and text[start - 1] in " \t":
        start -= 1
    if item.comment.own_line:
        end += 2 if text.startswith("\r\n", end) else 1 if end < len(text) else 0
    return {"start": start, "end": end, "text": ""}


def _names_any(selector: str, rules: Names) -> bool:
    return any(covers(selector, rule, name) for rule, name in rules)


def _expired(rules: str, until: str) -> str:
    return f"{rules}: the suppression ended on {until}; mend what it hides, or give it a new date"
