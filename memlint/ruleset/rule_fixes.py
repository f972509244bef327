"""Makes the fixes of a rule for one run: evaluates new values and asks the format for edits. What a run needs after a
fix is estimated later, for the fixes that are shown (`figured`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.expressions.build import Form, build
from memlint.expressions.facts import Facts
from memlint.expressions.render import render
from memlint.findings import Edit, Fix
from memlint.formats.base import Format, Parsed
from memlint.formats.fields import value_at
from memlint.memory.values import Estimate, StagedEstimate
from memlint.ruleset.rule import FixTemplate
from memlint.run import UNKNOWN, Run, replace

Estimator = Callable[[Run], Estimate]


class FixContext(NamedTuple):
    """The run that fixes are made for, with its format and facts."""

    format: Format
    parsed: Parsed
    facts: Facts


def fixes_of(templates: tuple[FixTemplate, ...], context: FixContext) -> tuple[Fix, ...]:
    """The fixes that apply to the run."""
    made = (_fix(template, context) for template in templates)
    return tuple(fix for fix in made if fix is not None)


def _fix(template: FixTemplate, context: FixContext) -> Fix | None:
    facts = context.facts
    if template.when is not None and not template.when(facts):
        return None
    changes = {name: build(form)(facts) for name, form in template.changes.items()}
    keys = [(action, section, pointer, _value(form, facts)) for action, section, pointer, form in template.keys]
    if any(value is UNKNOWN for value in changes.values()) or any(value is UNKNOWN for *_, value in keys):
        return None
    edits = _edits(context, changes, keys)
    return Fix(
        title=render(template.title, facts),
        edits=edits,
        changes=changes,
        safe=template.safe and bool(edits),
        speed=template.speed,
        quality=template.quality,
        note=template.note,
    )


def _value(form: Form | None, facts: Facts) -> Any:
    return None if form is None else build(form)(facts)


def _edits(context: FixContext, changes: Mapping[str, Any], keys: list[Any]) -> tuple[Edit, ...]:
    wanted_edits = context.format.edits(context.parsed, context.facts.run, changes) if changes else ()
    return (*(wanted_edits or ()), *(edit for key in keys for edit in _key_edit(context.parsed, *key)))


def _key_edit(parsed: Parsed, action: str, section: str, pointer: tuple[str, ...], value: Any) -> tuple[Edit, ...]:
    if section not in parsed.raw_places:
        return ()
    path, root = parsed.raw_places[section]
    document = next(one for one in parsed.documents if one.path == path)
    return (Edit(path, (*root, *_as_spelt(value_at(document.value, root), pointer)), action, value),)


def _as_spelt(section: Any, pointer: tuple[str, ...]) -> tuple[str, ...]:
    """The key in one piece where the file writes keys of sections so: OpenRLHF's `ds.packing_samples`."""
    names = section if isinstance(section, dict) and pointer[0] not in section else ()
    return (".".join(pointer),) if any("." in str(name) for name in names) else pointer


def figured(fixes: Iterable[Fix], run: Run, estimated: StagedEstimate, estimator: Estimator) -> Iterator[Fix]:
    """The fixes with what the run needs after each of them. One that would make it run out of memory is left out."""
    found = (_with_peaks(fix, run, estimated, estimator) for fix in fixes)
    return (fix for fix in found if fix is not None)


def _with_peaks(fix: Fix, run: Run, estimated: StagedEstimate, estimator: Estimator) -> Fix | None:
    """The fix with the memory that the run takes of its card before and after it; None if it would cause an OOM."""
    if not fix.changes:
        return fix
    before, after = estimated.whole, estimator(replace(run, fix.changes))
    if after.verdict == "out_of_memory" and before.verdict != "out_of_memory":
        return None
    if before.on_card is None or after.on_card is None:
        return fix
    return fix._replace(before=before.on_card, after=after.on_card, verdict_after=after.verdict)
