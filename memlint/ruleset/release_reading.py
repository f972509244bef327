"""Reads a run under older releases too, if the releases in use are not known: then the verdict may depend on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from memlint.formats.base import Context, Parsed
from memlint.memory.values import Estimate
from memlint.run import Reading, Run, differences
from memlint.source.document import Document

# The last transformers 4, TRL before its chunked losses, and LLaMA-Factory of that time.
OLDER: Mapping[str, tuple[int, ...]] = {
    "transformers": (4, 57),
    "trl": (0, 28),
    "peft": (0, 17),
    "llamafactory": (0, 9, 4),
}
_REASON = "releases not known"
_FORMATS = ("trainer", "llamafactory")
_SECTIONS = Run._fields[Run._fields.index("model") : Run._fields.index("hardware")]


def with_release_readings(
    parsed: Parsed, estimates: Sequence[Estimate], parse: Callable[[Document, Context], Parsed], context: Context
) -> Parsed:
    """The same runs. One that is out of memory under releases that are only assumed gets a reading with older ones."""
    asked = [_may_depend_on_releases(run, estimate) for run, estimate in zip(parsed.runs, estimates)]
    if not any(asked):
        return parsed
    older = parse(parsed.documents[0], context._replace(versions={**context.versions, **OLDER}))
    if len(older.documents) < len(parsed.documents) or len(older.runs) != len(parsed.runs):
        return parsed  # a companion was deleted meanwhile: the two parses cannot be compared
    runs = tuple(
        run._replace(readings=(*run.readings, _reading(run, before))) if asks else run
        for run, before, asks in zip(parsed.runs, older.runs, asked)
    )
    return parsed._replace(runs=runs)


def _may_depend_on_releases(run: Run, estimate: Estimate) -> bool:
    return estimate.verdict == "out_of_memory" and run.format in _FORMATS and not is_stated(run)


def _reading(run: Run, older: Run) -> Reading:
    changes = differences(run, older, _SECTIONS)
    newest, before = names(run)
    given = (("stack.transformers", run.stack.transformers),)
    return Reading(_REASON, f"with {before}", f"with {newest}", changes, given, only_where_over=True)


def is_stated(run: Run) -> bool:
    """Whether a version of the framework is stated, pinned or inferred from a key."""
    stated = ("stack.transformers", "stack.trl", "stack.framework_version")
    return any(name in run.origins and run.origins[name].kind != "default" for name in stated)


def names(run: Run) -> tuple[str, str]:
    """(the releases that the run is read with, the older ones), as messages name them."""
    if run.stack.framework == "llamafactory":
        return f"LLaMA-Factory {_dotted(run.stack.framework_version)}", "LLaMA-Factory 0.9.4 and transformers 4.57"
    transformers = f"transformers {_dotted(run.stack.transformers)}"
    if run.stack.framework == "trl":
        return f"TRL {_dotted(run.stack.trl)} and {transformers}", "TRL 0.28 and transformers 4.57"
    return transformers, "transformers 4.57"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
