"""The run under the releases before, where nobody says which are in use: a verdict that hangs on them is none."""

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
    """The same runs; one that is out of memory by the newest releases alone has the reading with older ones."""
    runs = tuple(
        run._replace(readings=(*run.readings, _reading(run, index, parse, parsed.documents[0], context)))
        if estimate.verdict == "out_of_memory" and run.format in _FORMATS and not is_stated(run)
        else run
        for index, (run, estimate) in enumerate(zip(parsed.runs, estimates))
    )
    return parsed._replace(runs=runs)


def _reading(
    run: Run, index: int, parse: Callable[[Document, Context], Parsed], document: Document, context: Context
) -> Reading:
    older = parse(document, context._replace(versions={**context.versions, **OLDER})).runs
    changes = differences(run, older[index], _SECTIONS) if len(older) > index else ()
    newest, before = names(run)
    given = (("stack.transformers", run.stack.transformers),)
    return Reading(_REASON, f"with {before}", f"with {newest}", changes, given)


def is_stated(run: Run) -> bool:
    """Whether somebody or a key of the file told a version."""
    stated = ("stack.transformers", "stack.trl", "stack.framework_version")
    return any(name in run.origins and run.origins[name].kind != "default" for name in stated)


def names(run: Run) -> tuple[str, str]:
    """The releases that the run is read with, and those before, for messages."""
    if run.stack.framework == "llamafactory":
        return f"LLaMA-Factory {_dotted(run.stack.framework_version)}", "LLaMA-Factory 0.9.4 and transformers 4.57"
    transformers = f"transformers {_dotted(run.stack.transformers)}"
    if run.stack.framework == "trl":
        return f"TRL {_dotted(run.stack.trl)} and {transformers}", "TRL 0.28 and transformers 4.57"
    return transformers, "transformers 4.57"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
