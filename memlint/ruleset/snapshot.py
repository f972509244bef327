"""The shipped rules as one file of checked forms: a start reads it in milliseconds, without `ast` or YAML.

Lines of JSON. The header has the version, the stamps, and where the parts below it end: id and name of each rule, an
index for each format that a rule names and one for all others ("*"), then each rule. A part is decoded when it is asked
for: a check of one file takes one index, and the rules that it does not exclude. A rule is three lines: its head, its
body, which judging it needs, and its texts and fixes, which a hit or its page needs.

Written when a wheel (or an editable install) is built, see hatch_build.py; never edited, never committed.
In a checkout it counts only while no rule file has changed since: the stamps say so.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from memlint.ruleset.index import Index, Table, tables_for
from memlint.ruleset.rule import Body, Check, Compiled, Condition, FixTemplate, Rule, Texts
from memlint.ruleset.rule_set import Names, RuleSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memlint.expressions.render import Template

VERSION = 9
_OTHERS = "*"  # formats that no rule names
_SELDOM = ("confidence", "severities", "profiles", "preview", "related", "folds_into", "plan")
Stamps = Mapping[str, str]


def stamps(folder: str, names: list[str]) -> dict[str, str]:
    """Size and modification time of each file, which change when the file does."""
    found = {}
    for name in names:
        status = os.stat(f"{folder}/{name}")
        found[name] = f"{status.st_size}:{status.st_mtime_ns}"
    return found


def dump(rules: Sequence[Rule], marks: Stamps) -> str:
    """The snapshot of `rules` as text. Of a rule in Python it has the fields; `read` is given its check."""
    formats = [*sorted({name for rule in rules for name in rule.formats}), _OTHERS]
    parts = [_line([[rule.id, rule.name] for rule in rules])]
    parts += [_line(_index_record(*tables_for(rules, name))) for name in formats]
    parts += ["".join(map(_line, (_head(rule), _body(rule), _pages(rule)))) for rule in rules]
    header = {
        "version": VERSION,
        "stamps": dict(marks),
        "formats": formats,
        "ends": list(accumulate(map(len, parts))),  # JSON is ASCII: a character is a byte
    }
    return "".join((_line(header), *parts))


def _line(record: object) -> str:
    return json.dumps(record) + "\n"


def read(data: bytes, checks: Mapping[str, Check]) -> tuple[RuleSet, Stamps] | None:
    """The rules and stamps of a snapshot; None if another version of memlint wrote it. `checks`: what the rules in
    Python do, by id."""
    below = data.find(b"\n") + 1
    try:
        header = json.loads(data[:below])
    except ValueError:
        return None
    if not isinstance(header, dict) or header.get("version") != VERSION:
        return None
    formats = header["formats"]
    borders = [below, *(below + end for end in header["ends"])]

    def part(number: int) -> str:
        return data[borders[number] : borders[number + 1]].decode("ascii")  # of bytes json guesses the encoding

    def names() -> Names:
        return tuple((id_, name) for id_, name in json.loads(part(0)))

    def index(format_name: str) -> Index:
        return _index(part(1 + formats.index(format_name if format_name in formats else _OTHERS)))

    def rule(number: int) -> Rule:
        found = _rule(part(1 + len(formats) + number))
        return found._replace(check=checks[found.id]) if found.id in checks else found

    return RuleSet(names, rule, index), header["stamps"]


def _index_record(always: list[int], tables: Mapping[tuple[str, str], Table]) -> list[Any]:
    """An index without JSON's mappings: their keys would all be texts."""
    return [always, [[*key, list(table.items())] for key, table in tables.items()]]


def _index(line: str) -> Index:
    always, tables = json.loads(line)
    return Index(always, {(kind, name): dict(rows) for kind, name, rows in tables})


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


def _rule(lines: str) -> Rule:
    first, body, pages = lines.splitlines()
    id_, name, severity, at, needs, formats, purposes, path, *seldom = json.loads(first)
    parts = _Parts(body, pages)
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
    """A rule's body, texts and fixes, each decoded when it is first needed."""

    __slots__ = ("_body", "_body_line", "_pages", "_pages_line")

    def __init__(self, body: str, pages: str) -> None:
        self._body_line = body
        self._pages_line = pages
        self._body: Body | None = None
        self._pages: list[Any] | None = None

    def body(self) -> Body:
        if self._body is None:
            when, message, variables, at = json.loads(self._body_line)
            compiled = {name: Compiled(form) for name, form in variables.items()}
            self._body = Body(Condition(when) if when else None, tuple(message), compiled, tuple(at))
        return self._body

    def texts(self) -> Texts:
        title, why, sources, applies, when, _ = self._decoded_pages()
        return Texts(title, why, tuple(sources), applies, when)

    def fixes(self) -> tuple[FixTemplate, ...]:
        return tuple(map(_fix, self._decoded_pages()[-1]))

    def _decoded_pages(self) -> list[Any]:
        if self._pages is None:
            self._pages = json.loads(self._pages_line)
        return self._pages


def _fix(record: list[Any]) -> FixTemplate:
    title, changes, keys, safe, speed, quality, note, when = record
    template: Template = tuple(title)
    listed = tuple((action, section, tuple(pointer), form) for action, section, pointer, form in keys)
    return FixTemplate(template, changes, listed, safe, speed, quality, note, Condition(when) if when else None)
