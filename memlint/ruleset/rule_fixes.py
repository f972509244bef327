"""The fixes of a rule for one run: values filled in, edits asked of the format, the peak estimated anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.expressions.build import Form, build
from memlint.expressions.facts import Facts
from memlint.expressions.render import render
from memlint.findings import Edit, Fix
from memlint.formats.base import Format, Parsed
from memlint.memory.values import Estimate
from memlint.ruleset.rule import FixTemplate
from memlint.run import UNKNOWN, Run, replace

Estimator = Callable[[Run], Estimate]


class Situation(NamedTuple):
    """What a fix is worked out for."""

    format: Format
    parsed: Parsed
    facts: Facts
    estimate: Estimate
    estimator: Estimator


def fixes_of(templates: tuple[FixTemplate, ...], situation: Situation) -> tuple[Fix, ...]:
    """The fixes that apply here. One that would make a fitting run run out of memory is not offered."""
    made = (_fix(template, situation) for template in templates)
    return tuple(fix for fix in made if fix is not None)


def _fix(template: FixTemplate, situation: Situation) -> Fix | None:
    facts = situation.facts
    if template.when is not None and template.when(facts) is not True:
        return None
    changes = {name: build(form)(facts) for name, form in template.changes.items()}
    keys = [(action, section, pointer, _value(form, facts)) for action, section, pointer, form in template.keys]
    if any(value is UNKNOWN for value in changes.values()) or any(value is UNKNOWN for *_, value in keys):
        return None
    edits = _edits(situation, changes, keys)
    fix = Fix(
        title=render(template.title, facts),
        edits=edits,
        changes=changes,
        safe=template.safe and bool(edits),
        speed=template.speed,
        quality=template.quality,
        note=template.note,
    )
    return _estimated(fix, situation) if changes else fix


def _value(form: Form | None, facts: Facts) -> Any:
    return None if form is None else build(form)(facts)


def _edits(situation: Situation, changes: Mapping[str, Any], keys: list[Any]) -> tuple[Edit, ...]:
    asked = situation.format.edits(situation.parsed, situation.facts.run, changes) if changes else ()
    return (*(asked or ()), *(edit for key in keys for edit in _key_edit(situation.parsed, *key)))


def _key_edit(parsed: Parsed, action: str, section: str, pointer: tuple[str, ...], value: Any) -> tuple[Edit, ...]:
    if section not in parsed.raw_places:
        return ()
    path, root = parsed.raw_places[section]
    return (Edit(path, (*root, *pointer), action, value),)


def _estimated(fix: Fix, situation: Situation) -> Fix | None:
    """The fix with its peaks: the upper end of the device interval, which is what the verdict compares."""
    before = situation.estimate
    after = situation.estimator(replace(situation.facts.run, fix.changes))
    if after.verdict == "out_of_memory" and before.verdict != "out_of_memory":
        return None
    if before.device_high_bytes is None or after.device_high_bytes is None:
        return fix
    return fix._replace(
        peak_before=before.device_high_bytes, peak_after=after.device_high_bytes, verdict_after=after.verdict
    )
