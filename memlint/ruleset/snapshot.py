"""The shipped rules as one JSON file of checked forms: a start reads it in milliseconds, without `ast` or YAML.

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

VERSION = 3
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
    return json.dumps({"version": VERSION, "stamps": dict(marks), "rules": [_record(rule) for rule in rules]})


def read(text: str) -> tuple[tuple[Rule, ...], Stamps] | None:
    """The rules and stamps of a snapshot; None if another version of memlint wrote it."""
    try:
        data = json.loads(text)
    except ValueError:
        return None
    if not isinstance(data, dict) or data.get("version") != VERSION:
        return None
    return tuple(map(_rule, data["rules"])), data["stamps"]


def _record(rule: Rule) -> list[Any]:
    """What choosing rules needs, then what judging and what a hit or a page needs: texts, decoded when asked for."""
    when, message, variables, at = rule.body()
    body = json.dumps([_form(when), list(message), {name: _form(one) for name, one in variables.items()}, list(at)])
    late = json.dumps([*rule.texts(), [_fix_record(fix) for fix in rule.fixes()]])
    head = [rule.id, rule.name, rule.severity, list(rule.at), rule.needs, rule.confidence, dict(rule.severities)]
    middle = [list(rule.formats), list(rule.purposes), list(rule.profiles), rule.preview]
    return [*head, *middle, [list(item) for item in rule.related], rule.plan, rule.path, body, late]


def _form(expression: Any) -> Any:
    return expression.form if isinstance(expression, Compiled) else None


def _fix_record(fix: FixTemplate) -> list[Any]:
    when = fix.when.form if fix.when else None
    return [list(fix.title), dict(fix.changes), fix.keys, fix.safe, fix.speed, fix.quality, fix.note, when]


def _rule(record: list[Any]) -> Rule:
    id_, name, severity, at, needs, confidence, severities, formats, purposes, profiles, preview = record[:11]
    related, plan, path, body, late = record[11:]
    pages = _LazyParts(late)
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
