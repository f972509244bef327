"""A config that leaves its engine or the number of GPUs open, read as the repository's own commands launch it.

Weaker than everything that a person tells memlint, and used only where all commands that name the config agree; where
they do not, or only launch files lie near it, they are named and no more.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from memlint._record import NamedTuple
from memlint.expressions.facts import Advice
from memlint.findings import Finding
from memlint.formats.base import Context, Launch, MissingFile, Parsed
from memlint.formats.fields import as_int
from memlint.run import LAUNCH, Origin, Run
from memlint.source.document import Document

FORMATS = ("trainer", "llamafactory", "axolotl")
_ENGINES = ("deepspeed", "fsdp", "fsdp_config")
_MOST_NAMED = 3


class Launched(NamedTuple):
    """What the config is read with. `launch` is None where the repository's commands add nothing."""

    context: Context
    launch: Launch | None = None


def as_launched(document: Document, format_name: str, context: Context) -> Launched:
    """The context with what the repository's commands say of the engine and of the number of GPUs."""
    value = document.value
    if format_name not in FORMATS or context.companions or not isinstance(value, dict):
        return Launched(context)
    counted, sharded = isinstance(context.gpus, int), any(value.get(key) for key in _ENGINES)
    if (counted and sharded) or context.gpus == 1:
        return Launched(context)
    launch = agreed(context.launches(document.path), counted)
    if launch is None:
        return Launched(context)
    files = _read(launch, document.path, context, sharded)
    if files is None or not (files or launch.gpus):
        return Launched(context)
    context = context._replace(companions=files)
    return Launched(context if counted or not launch.gpus else _counted(context, launch), launch)


def agreed(launches: Sequence[Launch], counted: bool) -> Launch | None:
    """The first of several that say the same; None where one does not, or says what nobody can tell from its words.

    `counted`: the number of GPUs is known otherwise.
    """
    if not launches or not all(one.is_clear for one in launches):
        return None
    said = {(one.files, *((one.gpus, one.gpus_per_node) if not counted else ())) for one in launches}
    return launches[0] if len(said) == 1 else None


def _read(launch: Launch, path: str, context: Context, sharded: bool) -> tuple[Document, ...] | None:
    """The launch and DeepSpeed files; None where one is none, or DeepSpeed's for a config with its own engine."""
    if launch.deepspeed and sharded:
        return None
    found = []
    for name in launch.files:
        document = context.read(name, path)
        from memlint.formats.engine_files import claims, deepspeed_file, launch_file  # where a command names a file

        reader = launch_file if name == launch.config_file else deepspeed_file
        if isinstance(document, MissingFile) or not claims(reader, document):
            return None
        if not launch.gpus and launch.is_beyond(as_int(document.value.get("num_processes")) or 0):
            return None
        found.append(document)
    return tuple(found)


def _counted(context: Context, launch: Launch) -> Context:
    counted = context._replace(gpus=launch.gpus, gpus_origin=_origin(launch))
    return counted._replace(gpus_per_node=launch.gpus_per_node) if launch.gpus_per_node else counted


def _origin(launch: Launch) -> Origin:
    return Origin("inferred", launch.path, launch.line, 1, detail="the repository launches it there")


def noted(parsed: Parsed, launch: Launch | None) -> Parsed:
    """The same runs, which say where the command stands that they were read with."""
    if launch is None:
        return parsed
    runs = (_noted(run, launch) for run in parsed.runs)
    return parsed._replace(runs=tuple(runs))


def _noted(run: Run, launch: Launch) -> Run:
    return run._replace(origins={**run.origins, LAUNCH: _origin(launch)})


def is_own(finding: Finding, document: Document) -> bool:
    """Whether a finding stands in the config: what one run makes of a launch file is no word on the others of that
    file, and a command may change what the config says."""
    return finding.location.path == document.path


def advice(document: Document, launched: Launched) -> Advice:
    """The commands that launch a config whose engine nobody gave, else launch files near it."""
    context = launched.context
    if launched.launch or context.companions:
        return Advice()
    named = {(one.files, one.gpus): one for one in reversed(context.launches(document.path)) if one.files or one.gpus}
    if named:
        first, *others = (_told(one) for one in reversed(named.values()))
        more = f" and in {len(others)} other ways" if others[1:] else f" and {others[0]}" if others else ""
        file = next((one.files[0] for one in reversed(named.values()) if one.files), "")
        which = "; --with FILE says which holds" if file and others else "; --with that file says so" if file else ""
        return Advice(f"; launched {first}{more}{which}", file)
    near = context.launchers(document.path)
    return Advice(f"; --with {_listed(near)} says what launches it", near[0]) if near else Advice()


def _listed(names: Sequence[str]) -> str:
    """ "recipes/zero3.yaml (or ddp.yaml there)": the first, and what lies beside it."""
    folder = posixpath.dirname(names[0])
    beside = [posixpath.basename(name) for name in names[1:] if posixpath.dirname(name) == folder]
    return f"{names[0]} (or {', '.join(beside[: _MOST_NAMED - 1])} there)" if beside else names[0]


def _told(launch: Launch) -> str:
    """ "with recipes/zero3.yaml on 8 GPUs in README.md:12"."""
    words = [f"with {' and '.join(launch.files)}"] if launch.files else [f"by {launch.launcher}"]
    words += [f"on {launch.gpus} GPU{'s' if launch.gpus > 1 else ''}"] if launch.gpus else []
    return f"{' '.join(words)} in {launch.path}:{launch.line}"
