"""The shipped rules as one file of checked forms: a start reads it in milliseconds, without `ast` or YAML.

Lines of JSON: version and stamps, then what choosing among the rules needs (the heads), then two lines for each rule,
which are decoded when that rule is asked: its body, and its texts and fixes. A head says where these lines lie.

Written when a wheel (or an editable install) is built, see hatch_build.py; never edited, never committed.
In a checkout it counts only while no rule file has changed since: the stamps say so.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from memlint.expressions.render import Template
from memlint.ruleset.rule import Body, Compiled, FixTemplate, Rule, Texts

VERSION = 7
_SELDOM = ("confidence", "severities", "profiles", "preview", "related", "folds_into", "plan")
Stamps = Mapping[str, str]


def stamps(folder: str, names: list[str]) -> dict[str, str]:
    """Size and modification time of each file, which change when the file does."""
    found = {}
    for name in names:
        status = os.stat(f"{folder}/{name}")
        found[name] = f"{status.st_size}:{status.st_mtime_ns}"
    return found


def dump(rules: tuple[Rule, ...], marks: Stamps) -> str:
    """The snapshot of `rules` as text. Of a rule in Python it has the fields; `read`'s caller adds the `check`."""
    header = {"version": VERSION, "stamps": dict(marks)}
    lines = [json.dumps(part) for rule in rules for part in (_body(rule), _pages(rule))]
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))  # JSON is ASCII: a character is a byte
    heads = [[*starts[2 * at : 2 * at + 3], *_head(rule)] for at, rule in enumerate(rules)]
    return "".join(f"{line}\n" for line in (json.dumps(header), json.dumps(heads), *lines))


def read(data: bytes) -> tuple[tuple[Rule, ...], Stamps] | None:
    """The rules and stamps of a snapshot; None if another version of memlint wrote it."""
    first, heads, lines = (*data.split(b"\n", 2), b"", b"")[:3]
    try:
        header = json.loads(first)
    except ValueError:
        return None
    if not isinstance(header, dict) or header.get("version") != VERSION:
        return None
    return tuple([_rule(head, lines) for head in json.loads(heads)]), header["stamps"]


def _head(rule: Rule) -> list[Any]:
    """What choosing rules needs; at its end, where a rule has any, the fields that few rules have."""
    seldom = {name: getattr(rule, name) for name in _SELDOM if getattr(rule, name) != Rule._field_defaults[name]}
    return [
        rule.id,
        rule.name,
        rule.severity,
        rule.at,
        rule.needs,
        rule.formats,
        rule.purposes,
        rule.path,
        *([seldom] if seldom else ()),
    ]


def _body(rule: Rule) -> list[Any]:
    """What judging needs."""
    when, message, variables, at = rule.body()
    return [_form(when), list(message), {name: _form(one) for name, one in variables.items()}, list(at)]


def _pages(rule: Rule) -> list[Any]:
    """What a hit or the rule's page needs."""
    return [*rule.texts(), [_fix_record(fix) for fix in rule.fixes()]]


def _form(expression: Any) -> Any:
    return expression.form if isinstance(expression, Compiled) else None


def _fix_record(fix: FixTemplate) -> list[Any]:
    when = fix.when.form if fix.when else None
    return [list(fix.title), dict(fix.changes), fix.keys, fix.safe, fix.speed, fix.quality, fix.note, when]


def _rule(head: list[Any], lines: bytes) -> Rule:
    start, middle, end, id_, name, severity, at, needs, formats, purposes, path, *seldom = head
    parts = _Parts(lines, start, middle, end)
    rule = Rule(
        id_,
        name,
        severity,
        tuple(at),
        parts.body,
        None if needs is None else tuple(map(tuple, needs)),
        formats=tuple(formats),
        purposes=tuple(purposes),
        fixes=parts.fixes,
        texts=parts.texts,
        path=path,
    )
    return rule._replace(**{field: _frozen(value) for field, value in seldom[0].items()}) if seldom else rule


def _frozen(value: Any) -> Any:
    """JSON's lists as the tuples that they were."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


class _Parts:
    """A rule's body, texts and fixes, each decoded when it is first needed; most rules are never evaluated.

    `lines`: the parts of all rules, in which this rule's body begins at `start`, its texts and fixes at `middle`.
    """

    __slots__ = ("_body", "_lines", "_pages", "_places")

    def __init__(self, lines: bytes, start: int, middle: int, end: int) -> None:
        self._lines = lines
        self._places = start, middle, end
        self._body: Body | None = None
        self._pages: list[Any] | None = None

    def body(self) -> Body:
        if self._body is None:
            start, middle, _ = self._places
            when, message, variables, at = json.loads(self._lines[start:middle])
            compiled = {name: Compiled(form) for name, form in variables.items()}
            self._body = Body(Compiled(when) if when else None, tuple(message), compiled, tuple(at))
        return self._body

    def texts(self) -> Texts:
        title, why, sources, applies, when, _ = self._decoded_pages()
        return Texts(title, why, tuple(sources), applies, when)

    def fixes(self) -> tuple[FixTemplate, ...]:
        return tuple(map(_fix, self._decoded_pages()[-1]))

    def _decoded_pages(self) -> list[Any]:
        if self._pages is None:
            _, middle, end = self._places
            self._pages = json.loads(self._lines[middle:end])
        return self._pages


def _fix(record: list[Any]) -> FixTemplate:
    title, changes, keys, safe, speed, quality, note, when = record
    template: Template = tuple(title)
    listed = tuple((action, section, tuple(pointer), form) for action, section, pointer, form in keys)
    return FixTemplate(template, changes, listed, safe, speed, quality, note, Compiled(when) if when else None)
