"""What a rule reads of a file and its run, so that a file that changed in one key is not judged anew by every rule.

A read is a name: ("raw", section, key) for a key of a file, ("raw", section) for all of a section, ("run", part) for a
part of the run with the origins of its fields, ("estimate",), and ("all",) for any of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.memory.values import Estimate
from memlint.ruleset.rule import Body, Rule
from memlint.run import Origin, Run
from memlint.source.scalars import same

Read = tuple[str, ...]
_ALL: Read = ("all",)
_ESTIMATE: Read = ("estimate",)
_STACK: Read = ("run", "stack")  # confidence and the words "from trl 1.0 on" hang on these two
_MODEL: Read = ("run", "model")
_PARTS = Run._fields[Run._fields.index("model") :]  # of a run that no place in a file changes


def reads(rule: Rule) -> frozenset[Read]:
    """What the rule reads; {("all",)} for a rule in Python."""
    return frozenset([_ALL]) if rule.check is not None else _reads_of(rule.body()) | {_STACK, _MODEL}


def _reads_of(body: Body) -> frozenset[Read]:
    conditions = [body.when, *body.variables.values()]
    forms = [one.form for one in conditions if one is not None]
    templates = [part for part in (*body.message, *body.at) if not isinstance(part, str)]
    return frozenset(read for form in (*forms, templates) for read in _names(form))


def _names(form: Any) -> Iterator[Read]:
    """The reads of a form and of the forms in it; of an expression in a message as well."""
    if not isinstance(form, (list, tuple)) or not form:
        return
    word = form[0]
    if word in ("value", "version"):
        return
    if word == "raw":
        yield ("raw", *form[1:3])
    elif word in ("field", "origin"):
        yield ("run", form[1].partition(".")[0])
    elif word in ("term", "phase"):
        yield _ESTIMATE
    elif word == "fact":
        yield from _of_fact(form[1])
    for part in form[1:] if isinstance(word, str) else form:
        yield from _names(part)


def _of_fact(name: str) -> Iterator[Read]:
    """Facts of the model hang on its architecture and, of its parameters, on the estimate; others on anything."""
    if name.startswith("hardware.") and name != "hardware.budget_bytes":
        yield ("run", "hardware")
    elif name.startswith("model.") and name != "model.adapted_in_tower":
        yield from (_MODEL, _ESTIMATE)
    else:
        yield _ALL


class RunFacts(NamedTuple):
    """What rules are asked about: a run, its estimate, and the files' own keys by section."""

    run: Run
    estimate: Estimate
    raw: Mapping[str, Any]


def changed(before: RunFacts, after: RunFacts) -> frozenset[Read]:
    """The reads that may give something else for `after` than for `before`."""
    found = {*_changed_parts(before.run, after.run), *_changed_keys(before.raw, after.raw)}
    if before.estimate is not after.estimate and before.estimate != after.estimate:
        found.add(_ESTIMATE)
    return frozenset(found | {_ALL} if found else found)


def _changed_parts(before: Run, after: Run) -> Iterator[Read]:
    for part in _PARTS:
        if part != "origins" and getattr(before, part) != getattr(after, part):
            yield ("run", part)
    for name in before.origins.keys() | after.origins.keys():
        old, new = before.origins.get(name), after.origins.get(name)
        if old != new and _told(old) != _told(new):
            yield ("run", name.partition(".")[0])


def _told(origin: Origin | None) -> tuple[str, str] | None:
    """An origin without its place, which an edit above it moves."""
    return None if origin is None else (origin.kind, origin.detail)


def _changed_keys(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Read]:
    for section in before.keys() | after.keys():
        old, new = _keys(before.get(section)), _keys(after.get(section))
        differing = [key for key in old.keys() | new.keys() if not same(old.get(key, _ABSENT), new.get(key, _ABSENT))]
        if differing or before.get(section) != after.get(section):
            yield ("raw", section)
        yield from (("raw", section, key) for key in differing)


def _keys(section: Any) -> dict[Any, Any]:
    return section if isinstance(section, dict) else {}


_ABSENT = object()
