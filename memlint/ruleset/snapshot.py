"""The shipped rules as one file of checked forms: a start reads it in milliseconds, without `ast` or YAML.

Lines of JSON: version and stamps, then what choosing among the rules needs, then two lines for each rule, which are
decoded when that rule is asked: its body, and its texts and fixes.

Written when a wheel (or an editable install) is built, see hatch_build.py; never edited, never committed.
In a checkout it counts only while no rule file has changed since: the stamps say so.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from memlint.expressions.render import Template
from memlint.ruleset.rule import Body, Compiled, FixTemplate, Rule, Texts

VERSION = 4
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
    late = (part for rule in rules for part in (_body(rule), _pages(rule)))
    return "\n".join(map(json.dumps, (header, [_head(rule) for rule in rules], *late)))


def read(text: str) -> tuple[tuple[Rule, ...], Stamps] | None:
    """The rules and stamps of a snapshot; None if another version of memlint wrote it."""
    first, _, rest = text.partition("\n")
    try:
        header = json.loads(first)
    except ValueError:
        return None
    if not isinstance(header, dict) or header.get("version") != VERSION:
        return None
    heads, *late = rest.split("\n")
    return tuple(map(_rule, json.loads(heads), late[::2], late[1::2])), header["stamps"]


def _head(rule: Rule) -> list[Any]:
    """What choosing rules needs."""
    head = [rule.id, rule.name, rule.severity, list(rule.at), rule.needs, rule.confidence, dict(rule.severities)]
    middle = [list(rule.formats), list(rule.purposes), list(rule.profiles), rule.preview]
    return [*head, *middle, [list(item) for item in rule.related], rule.plan, rule.path]


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


def _rule(head: list[Any], body: str, texts: str) -> Rule:
    id_, name, severity, at, needs, confidence, severities, formats, purposes, profiles, preview = head[:11]
    related, plan, path = head[11:]
    pages = _LazyParts(texts)
    return Rule(
        id=id_,
        name=name,
        severity=severity,
        at=tuple(at),
        body=_Body(body),
        needs=None if needs is None else tuple(map(tuple, needs)),
        confidence=confidence,
        severities=severities,
        formats=tuple(formats),
        purposes=tuple(purposes),
        profiles=tuple(profiles),
        preview=preview,
        related=tuple((target, label) for target, label in related),
        fixes=pages.fixes,
        plan=plan,
        texts=pages.texts,
        path=path,
    )


class _Body:
    """The body of a rule, decoded at the first call; most rules are never evaluated."""

    __slots__ = ("_body", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._body: Body | None = None

    def __call__(self) -> Body:
        if self._body is None:
            when, message, variables, at = json.loads(self._text)
            compiled = {name: Compiled(form) for name, form in variables.items()}
            self._body = Body(Compiled(when) if when else None, tuple(message), compiled, tuple(at))
        return self._body


class _LazyParts:
    """The texts and fixes of a rule, decoded when they are first needed."""

    __slots__ = ("_data", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._data: list[Any] | None = None

    def _decoded(self) -> list[Any]:
        if self._data is None:
            self._data = json.loads(self._text)
        return self._data

    def texts(self) -> Texts:
        title, why, sources, applies, when, _ = self._decoded()
        return Texts(title, why, tuple(sources), applies, when)

    def fixes(self) -> tuple[FixTemplate, ...]:
        return tuple(map(_fix, self._decoded()[-1]))


def _fix(record: list[Any]) -> FixTemplate:
    title, changes, keys, safe, speed, quality, note, when = record
    template: Template = tuple(title)
    listed = tuple((action, section, tuple(pointer), form) for action, section, pointer, form in keys)
    return FixTemplate(template, changes, listed, safe, speed, quality, note, Compiled(when) if when else None)
