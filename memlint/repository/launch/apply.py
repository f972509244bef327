"""Takes the engine and the number of GPUs of a config from the repository's own launch commands.

Only values that config, command line and settings leave open are taken, and only if all commands that name the config
agree. Where they differ in the number of GPUs alone, each number is one way in which the run may go. If they disagree
in more, or if there are only launch files nearby, nothing is taken and a message names them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from memlint._record import NamedTuple
from memlint.expressions.facts import Advice
from memlint.findings import Finding
from memlint.formats.accelerate.trl_files import LAUNCH_FILES
from memlint.formats.base import Context, Launch, MissingFile, Parsed
from memlint.formats.fields import as_int
from memlint.hardware.named import requested_card
from memlint.run import LAUNCH, LAUNCH_OPTIONS, Origin, differences
from memlint.source.document import Document, Place, Span, Start
from memlint.source.lines import Lines

FORMATS = ("trainer", "llamafactory", "axolotl", "torchtune", "oumi", "autotrain", "torchtitan")
_ENGINES = ("deepspeed", "fsdp", "fsdp_config")
_MOST_NAMED = 3
_MOST_NUMBERS = 4


class LaunchContext(NamedTuple):
    """The context to read a config in. `launch`: the command whose facts it includes; None if none was used.
    `numbers`: commands that differ in their number of GPUs alone, one for each number."""

    context: Context
    launch: Launch | None = None
    numbers: tuple[Launch, ...] = ()


def with_launch_command(document: Document, format_name: str, context: Context) -> LaunchContext:
    """The context, with the engine's files and the number of GPUs from the repository's launch commands."""
    value = document.value
    if document.start is not None:
        context = _started(document, document.start, context)
        if document.syntax != "python":
            return LaunchContext(context)
    if format_name not in FORMATS or context.companions or not isinstance(value, dict):
        return LaunchContext(context)
    gpus_known, sharded = isinstance(context.gpus, int), any(value.get(key) for key in _ENGINES)
    if (gpus_known and sharded) or context.gpus == 1:
        return LaunchContext(context)
    launches = context.repository.launch_commands(document.path)
    if document.start is not None:  # a program's run of this config: others may train with it otherwise
        launches = tuple(one for one in launches if not _starts_another(one, document.start, value))
        launches = _of_its_command(launches, document.start)
    launch, numbers = _agreed(launches, gpus_known, partial(_gpus_in_file, document, context))
    if launch is None:
        return LaunchContext(context)
    files = _engine_files(launch, document.path, context, sharded)
    if files is None or not (files or launch.gpus):
        return LaunchContext(context)
    context = _with_card(context._replace(companions=files), launch)
    if not (gpus_known or numbers) and launch.gpus:
        context = _with_gpu_count(context, launch)
    return LaunchContext(context, launch, numbers)


def _of_its_command(launches: tuple[Launch, ...], start: Start) -> tuple[Launch, ...]:
    """The command among `launches` that gives a program's run its options; all of them where none does. Another command
    has other options, so that its launcher and its GPUs would be a run that nobody starts."""
    at = start.values.commanded_at
    return tuple(one for one in launches if f"{one.path}:{one.line}" == at) if at else launches


def _starts_another(launch: Launch, start: Start, value: Mapping[str, Any]) -> bool:
    """Whether a command starts another program than the one of these arguments, or gives it another model: a page may
    show one way to start a program for each model."""
    models = {given for name, given in launch.options if "model" in name and isinstance(given, str) and "/" in given}
    own = value.get("model_name_or_path")
    return launch.starts_another(start.program.entry) or bool(isinstance(own, str) and models and own not in models)


def on_machine(document: Document, context: Context) -> Document:
    """The document, with its values for the number of GPUs and for the card, if they are known."""
    start = document.start
    if start is None or start.machine.at_card is None or context.gpu is None or not any(context.gpu.capability):
        return _at_gpus(document, context)
    found = start.machine.at_card(context.gpu.capability)
    return _at_gpus(document if found is None else found, context)


def _at_gpus(document: Document, context: Context) -> Document:
    start = document.start
    if (
        start is None
        or not start.machine.asks_for_gpus
        or start.machine.at_gpus is None
        or not isinstance(context.gpus, int)
    ):
        return document
    found = start.machine.at_gpus(context.gpus_per_node if isinstance(context.gpus_per_node, int) else context.gpus)
    return document if found is None else found


def _started(document: Document, start: Start, context: Context) -> Context:
    """The context of the arguments of a command: its GPUs, its launch file, the files that it names."""
    read = context.read

    def named(reference: str, path: str) -> Document | MissingFile:
        located = start.values.located if path == document.path else None
        found = None if located is None else located(reference)
        return found if isinstance(found, Document) else read(found or reference, path)

    context = context._replace(read=named, started_processes=start.machine.gpus)
    if start.machine.gpus and not isinstance(context.gpus, int):
        position = Lines(document.text).span(*start.machine.gpus_at)
        origin = Origin("file", document.path, position.line, position.column, detail=f"{start.launcher} starts it")
        context = context._replace(
            gpus=start.machine.gpus, gpus_per_node=start.machine.gpus_per_node or start.machine.gpus, gpus_origin=origin
        )
    card, detail = requested_card(start.machine.card) if context.gpu is None else (None, "")
    if card is not None:
        position = Lines(document.text).span(start.machine.card_at, start.machine.card_at)
        origin = Origin("file", document.path, position.line, position.column, detail=detail)
        context = context._replace(gpu=card, gpu_origin=origin)
    if start.machine.launch_file is not None and not context.companions:
        context = context._replace(companions=(start.machine.launch_file,))
    return context


Gpus = tuple[int, int]  # (of all machines, of one machine); 0: unknown
GpusInFile = Callable[[Launch], Gpus]


def _no_gpus(launch: Launch) -> Gpus:
    return 0, 0


def _agreed(
    launches: Sequence[Launch], gpus_known: bool, gpus_in_file: GpusInFile
) -> tuple[Launch | None, tuple[Launch, ...]]:
    """(a command for all, None where they disagree; one command for each number of GPUs where they differ in it)."""
    launch = agreed_launch(launches, gpus_known, gpus_in_file)
    if launch is not None or gpus_known:
        return launch, ()
    is_in_file = any(gpus_in_file(one) != (0, 0) for one in launches)  # which the run would be read with
    numbers = () if is_in_file else one_of_each_number(launches)
    return agreed_launch(launches, True) if numbers else None, numbers


def one_of_each_number(launches: Sequence[Launch]) -> tuple[Launch, ...]:
    """A command for each number of GPUs, the smallest first; () where a command does not say it, or there are many."""
    found = {(one.gpus, one.gpus_per_node): one for one in reversed(_that_tell(launches))}
    says_all = all(gpus for gpus, _ in found) and not any(one.asks_for_gpus for one in launches)
    return tuple(found[number] for number in sorted(found)) if says_all and len(found) <= _MOST_NUMBERS else ()


def _that_tell(launches: Sequence[Launch]) -> list[Launch]:
    """The commands without those that leave everything open, where another one of the same program does not."""
    telling = {one.launcher for one in launches if not one.leaves_all_open}
    return [one for one in launches if not one.leaves_all_open or one.launcher not in telling]


def agreed_launch(launches: Sequence[Launch], gpus_known: bool, gpus_in_file: GpusInFile = _no_gpus) -> Launch | None:
    """A command for all, if all are clear and launch in the same way; else None. Its card is that of their jobs.

    A command that leaves everything open contradicts none of the same program. `gpus_known`: the number of GPUs is
    known already, so the commands may differ in it. `gpus_in_file`: reads the number from a command's launch file, for
    commands that do not state it.
    """
    launches = _that_tell(launches)
    if (
        not launches
        or not all(one.is_clear for one in launches)
        or len({(one.files, one.shipped) for one in launches}) > 1
    ):
        return None
    first = _with_agreed_card(launches)
    if gpus_known:
        return first
    if any(one.asks_for_gpus for one in launches):
        return None
    if len({(one.gpus, one.gpus_per_node) for one in launches}) == 1:
        return first
    numbers = {(one.gpus, one.gpus_per_node) if one.gpus else gpus_in_file(one) for one in launches}
    return first if len(numbers) == 1 else None


def _with_agreed_card(launches: Sequence[Launch]) -> Launch:
    """The first command that names a card, if no other names another one; else the first, without a card."""
    cards = {one.card for one in launches if one.card}
    return next(one for one in launches if one.card) if len(cards) == 1 else launches[0]._replace(card="")


def _gpus_in_file(document: Document, context: Context, launch: Launch) -> Gpus:
    """`num_processes` of accelerate's file, spread over its `num_machines`."""
    found = context.read(launch.config_file, document.path) if launch.config_file else None
    in_file = found.value if isinstance(found, Document) and isinstance(found.value, dict) else {}
    value = LAUNCH_FILES.get(launch.shipped, in_file)
    gpus = as_int(value.get("num_processes")) or 0
    return gpus, gpus // max(1, as_int(value.get("num_machines")) or 1)


def _engine_files(launch: Launch, path: str, context: Context, sharded: bool) -> tuple[Document, ...] | None:
    """The documents of the launch file and the DeepSpeed file that a command names.

    None if one of them is not such a file, or if the config names an engine and the command a DeepSpeed file.
    """
    if launch.deepspeed and sharded:
        return None
    found = [_shipped_file(launch)] if launch.shipped else []
    for name in launch.files:
        document = context.read(name, path)
        from memlint.formats.engine_files import deepspeed_file, launch_file, recognises  # where a command names a file

        reader = launch_file if name == launch.config_file else deepspeed_file
        if isinstance(document, MissingFile) or not recognises(reader, document):
            return None
        if not launch.gpus and launch.is_beyond(as_int(document.value.get("num_processes")) or 0):
            return None
        found.append(document)
    return tuple(found)


def _shipped_file(launch: Launch) -> Document:
    """A launch file of TRL's package, which stands nowhere in the repository: reports point at the command."""
    place = Place(None, Span(0, 0, launch.line, 1, launch.line, 1))
    value = {**LAUNCH_FILES[launch.shipped]}
    return Document(launch.path, "", "shell", "shell", value, {(): place}, start=Start("accelerate", "trl"))


def _with_card(context: Context, launch: Launch) -> Context:
    card, detail = requested_card(launch.card) if context.gpu is None else (None, "")
    if card is None:
        return context
    origin = Origin("inferred", launch.path, launch.card_line, 1, detail=detail)
    return context._replace(gpu=card, gpu_origin=origin)


def _with_gpu_count(context: Context, launch: Launch) -> Context:
    gpus_known = context._replace(gpus=launch.gpus, gpus_origin=_origin(launch))
    return gpus_known._replace(gpus_per_node=launch.gpus_per_node) if launch.gpus_per_node else gpus_known


def _origin(launch: Launch, detail: str = "the repository launches it there") -> Origin:
    return Origin("inferred", launch.path, launch.line, 1, detail=detail)


def with_launch_origin(
    parsed: Parsed, launch: Launch | None, document: Document, parse: Callable[[Document], Parsed]
) -> Parsed:
    """The same runs, with the launch command that they were read with in their origins."""
    if launch is None:
        return parsed
    found = {LAUNCH: _origin(launch)}
    if left_out := _left_out(parsed, launch, document, parse):
        found[LAUNCH_OPTIONS] = _origin(launch, left_out)
    return parsed._replace(runs=tuple(run._replace(origins={**run.origins, **found}) for run in parsed.runs))


_OF_MEMORY = (
    *("model", "method", "precision", "batch", "sequence", "attention", "checkpointing", "loss", "optimizer"),
    *("parallelism", "offload"),
)


def _left_out(parsed: Parsed, launch: Launch, document: Document, parse: Callable[[Document], Parsed]) -> str:
    """The command's options that would make another run of the config: its figures are those of the file alone."""
    value = document.value if isinstance(document.value, dict) else {}
    other = {name: given for name, given in launch.options if value.get(name) != given}

    def changes(options: Mapping[str, Any]) -> bool:
        runs = parse(document._replace(value={**value, **options})).runs
        return len(runs) != len(parsed.runs) or any(
            differences(run, changed, _OF_MEMORY) for run, changed in zip(parsed.runs, runs)
        )

    if not other or not changes(other):
        return ""
    names = [name for name, given in other.items() if changes({name: given})] or list(other)
    return f"without its {', '.join(f'`{name}`' for name in names)}"


def is_in_config(finding: Finding, document: Document, launch: Launch) -> bool:
    """Whether a finding is about the config itself or the files that it names.

    Findings of one run in a launch file need not hold for other runs that use the file, and a command may override the
    config. The document made from a command's options has the config's path, but keys of its own.
    """
    if finding.location.path != document.path:
        return finding.location.path not in (launch.path, *launch.files)
    pointer = finding.location.pointer
    return not pointer or not isinstance(document.value, dict) or pointer[0] in document.value


def advice(document: Document, launched: LaunchContext) -> Advice:
    """The advice in messages about a config without an engine: its launch commands, else the launch files nearby."""
    context = launched.context
    if launched.launch or context.companions:
        return Advice()
    named = {
        (one.files, one.gpus): one
        for one in reversed(context.repository.launch_commands(document.path))
        if one.files or one.gpus
    }
    if named:
        first, *others = (_in_words(one) for one in reversed(named.values()))
        more = f" and in {len(others)} other ways" if others[1:] else f" and {others[0]}" if others else ""
        file = next((one.files[0] for one in reversed(named.values()) if one.files), "")
        which = "; --with FILE says which holds" if file and others else "; --with that file says so" if file else ""
        return Advice(f"; launched {first}{more}{which}", file)
    nearby = context.repository.launch_files(document.path)
    return Advice(f"; --with {_listed(nearby)} says what launches it", nearby[0]) if nearby else Advice()


def _listed(names: Sequence[str]) -> str:
    """ "recipes/zero3.yaml (or ddp.yaml there)": the first, and others in the same folder."""
    folder = posixpath.dirname(names[0])
    siblings = [posixpath.basename(name) for name in names[1:] if posixpath.dirname(name) == folder]
    return f"{names[0]} (or {', '.join(siblings[: _MOST_NAMED - 1])} there)" if siblings else names[0]


def _in_words(launch: Launch) -> str:
    """ "with recipes/zero3.yaml on 8 GPUs in README.md:12"."""
    words = [f"with {' and '.join(launch.files)}"] if launch.files else [f"by {launch.launcher}"]
    words += [f"on {launch.gpus} GPU{'s' if launch.gpus > 1 else ''}"] if launch.gpus else []
    return f"{' '.join(words)} in {launch.path}:{launch.line}"
