"""The inputs that a rule reads. After a change of one key only the rules that read it are evaluated again.

An input (`Read`) is a tuple: ("raw", section, key) for a key of a file, ("raw", section) for a whole section,
("run", part) for a part of the run with the origins of its fields, ("estimate",), or ("all",) for any of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.memory.values import StagedEstimate
from memlint.ruleset.rule import Body, Rule
from memlint.run import Origin, Run
from memlint.source.scalars import same

Read = tuple[str, ...]
_ALL: Read = ("all",)
_ESTIMATE: Read = ("estimate",)
_STACK: Read = ("run", "stack")  # every finding reads this (the words "from trl 1.0 on") and the model (confidence)
_MODEL: Read = ("run", "model")
# The parts of a run that rules read; those before are its place, and planning is for moves.
_PARTS = tuple(name for name in Run._fields[Run._fields.index("model") :] if name != "planning")


def reads(rule: Rule) -> frozenset[Read]:
    """The inputs that the rule reads; {("all",)} for a rule in Python, whose inputs are unknown."""
    return frozenset([_ALL]) if rule.check is not None else _reads_of(rule.body()) | {_STACK, _MODEL}


def _reads_of(body: Body) -> frozenset[Read]:
    conditions = [body.when, *body.variables.values()]
    forms = [one.form for one in conditions if one is not None]
    templates = [part for part in (*body.message, *body.at) if not isinstance(part, str)]
    return frozenset(read for form in (*forms, templates) for read in _reads_of_form(form))


def _reads_of_form(form: Any) -> Iterator[Read]:
    """The inputs of a compiled expression (`Form`) or of a list of them, including nested ones."""
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
        yield from _reads_of_fact(form[1])
    for part in form[1:] if isinstance(word, str) else form:
        yield from _reads_of_form(part)


def _reads_of_fact(name: str) -> Iterator[Read]:
    """The inputs of a derived fact. `model.*` needs the architecture and the estimate (parameter counts); `hardware.*`
    the hardware; `estimate.*` the estimate, most often alone; any other fact may need everything."""
    if name.startswith("hardware."):
        yield ("run", "hardware")
    elif name == "estimate.is_over_at_full_length_alone":
        yield _ALL
    elif name.startswith("estimate."):
        yield _ESTIMATE
    elif name == "sequence.lengths":
        yield ("run", "sequence")
    elif name == "parallelism.is_certain":
        yield from (("run", "parallelism"), ("run", "readings"))
    elif name.startswith("model.") and name not in ("model.adapted_in_tower", "model.trains_nothing"):
        yield from (_MODEL, _ESTIMATE)
    else:
        yield _ALL


class RunFacts(NamedTuple):
    """What rules are evaluated on: a run, its estimate, and the values of the files' keys by section."""

    run: Run
    estimated: StagedEstimate
    raw: Mapping[str, Any]


def changed(before: RunFacts, after: RunFacts) -> frozenset[Read]:
    """The inputs that differ between `before` and `after`."""
    found = {*_changed_parts(before.run, after.run), *_changed_keys(before.raw, after.raw)}
    if _is_estimate_changed(before, after):
        found.add(_ESTIMATE)
    return frozenset(found | {_ALL} if found else found)


def _is_estimate_changed(before: RunFacts, after: RunFacts) -> bool:
    """Whether figures may differ. Those of runs without a card are not computed to compare them: the rules that read
    them ask again, and few get as far as a figure."""
    old, new = before.estimated, after.estimated
    if old.is_of_same_run(new):
        return False
    return (old.is_in_stages and new.is_in_stages) or old.whole != new.whole


def _changed_parts(before: Run, after: Run) -> Iterator[Read]:
    for part in _PARTS:
        if part != "origins" and getattr(before, part) != getattr(after, part):
            yield ("run", part)
    for name in before.origins.keys() | after.origins.keys():
        old, new = before.origins.get(name), after.origins.get(name)
        if old != new and _without_place(old) != _without_place(new):
            yield ("run", name.partition(".")[0])


def _without_place(origin: Origin | None) -> tuple[str, str] | None:
    """(kind, detail) of an origin. Its line is left out, because an edit further up moves it."""
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
