"""How a command starts its program: what is started, on which machine, and which arguments the program accepts."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from memlint.formats.trainer.python.python_run import PythonRun
from memlint.repository.reader.script import has_own_trainer
from memlint.repository.scripts.commands import LaunchCommand, may_have_more, options, overrides
from memlint.repository.scripts.document import keys_of, switches_of
from memlint.repository.scripts.environment import grows_segments
from memlint.repository.scripts.files import NamedFiles
from memlint.repository.scripts.known_programs import OVERRIDDEN, WHOLE_PROGRAMS, task_of
from memlint.repository.scripts.launch import ScriptLaunch
from memlint.repository.scripts.model_changes import MAY_FREEZE, happening
from memlint.repository.scripts.refused import ambiguous_flags, flags_without_value, refused_flags
from memlint.repository.scripts.slurm import Job
from memlint.repository.scripts.spelling import spelled
from memlint.repository.scripts.translate import flag_names
from memlint.repository.scripts.world import World
from memlint.source.document import AcceptedArguments, Document, Machine, Start, StartedProgram, ValueSources
from memlint.source.python.values import Undetermined, source_of
from memlint.source.shell.invocation import Invocation

# Programs of transformers' examples (examples/pytorch, text-classification, token-classification, question-answering),
# which load a classifier. They stand in few repositories that start them.
_CLASSIFYING = re.compile(r"(?:^|/)run_(?:glue|classification|xnli|ner|qa)(?:_no_trainer)?\.py$")
_IMPORTED = re.compile(r"^[ \t]*from[ \t]+([\w.]+)[ \t]+import", re.MULTILINE)
_ENGINE = re.compile(r"\bAccelerator\(|\bdeepspeed\.initialize\(")


def start(launch: ScriptLaunch, size: World, job: Job | None, file: Document | None, asks_for_gpus: bool) -> Start:
    """How the command starts its program.

    `size`: the processes that it starts. `job`: what the script asks the queue for. `file`: the launcher's options as
    a file of accelerate. `asks_for_gpus`: the script counts the GPUs of the machine.
    """
    invocation, run = launch.invocation, launch.run
    if run is not None and run.run.gpus and launch.command.launcher in ("", "python"):
        size = size._replace(gpus=run.run.gpus, per_node=run.run.gpus_per_node or run.run.gpus)
    in_configs = () if run is None else _in_a_config(run.run, launch.files)
    return Start(
        launch.format_name,
        launch.command.launcher,
        _program(launch),
        _machine(invocation, launch.files.script, size, job)._replace(launch_file=file, asks_for_gpus=asks_for_gpus),
        ValueSources(located=launch.files.located, in_other_file=dict.fromkeys(in_configs, False)),
        _accepted(launch, launch.files.script if invocation.is_of_script else ""),
    )


def _program(launch: ScriptLaunch) -> StartedProgram:
    """What the command starts, and what its code shows."""
    launched, files = launch.command, launch.files
    name = files.repository.below_root(launched.program.text) if launched.program else ""
    found = _by_definitions(launch, name) if launch.run is None else _by_its_run(launch.run.run, name)
    if launch.format_name in WHOLE_PROGRAMS:
        found = found._replace(unmodelled="", freezes="")
    return found._replace(
        folder=launch.invocation.elsewhere or files.repository.below_root(launch.invocation.folder),
        file=files.repository.below_root(launch.path) if launch.path is not None else "",
        is_foreign=launch.path is None and _is_script(launched),
        has_own_trainer=_has_own_trainer(launched, files),
        writes_groups=launch.definitions.writes_groups,
    )


def _by_its_run(run: PythonRun, name: str) -> StartedProgram:
    """A program whose code was followed to its end."""
    return run.started(name)._replace(hides_model=isinstance(run.keys.get("model_name_or_path"), Undetermined))


def _by_definitions(launch: ScriptLaunch, name: str) -> StartedProgram:
    """A program of which only the definitions of its arguments were read, and the changes that it makes to its
    model."""
    definitions = launch.definitions
    framework, task = task_of(launch.command, definitions)
    happens = happening(definitions.changes, definitions.flags, launch.command.arguments)
    changed = next((one for one in happens if not one.freezes), None)
    unmodelled = changed.what if changed is not None else ""
    if changed is not None and changed.extends:
        freezes, model_state = f"{unmodelled}, {MAY_FREEZE}", "all"
    else:
        freezes = "" if unmodelled else next((one.what for one in happens if one.freezes), "")
        model_state = "headless" if _is_classifier(launch.command) and not unmodelled else ""
    return StartedProgram(name, framework, task=task, unmodelled=unmodelled, freezes=freezes, model_state=model_state)


def _is_classifier(launched: LaunchCommand) -> bool:
    return launched.program is not None and _CLASSIFYING.search(launched.program.text) is not None


def _is_script(launched: LaunchCommand) -> bool:
    """Whether the program is a Python file or a module, not one that a framework installs (`trl sft`). One that
    only a variable names is a file: `accelerate launch scripts/$NAME`."""
    program = launched.program
    if launched.trl_task:
        return False
    return launched.is_module or (program is not None and (program.text.endswith(".py") or bool(program.unknown)))


def _has_own_trainer(launched: LaunchCommand, files: NamedFiles) -> bool:
    """Whether the program only uses trainer classes of its own, and it or a module that it imports creates an
    engine for them. Without an engine, such a class is probably a plain subclass of Trainer."""
    program = launched.program.text if launched.program else ""
    text = files.text(program) if program.endswith(".py") else None
    if not text or not has_own_trainer(text.encode("utf-8", "replace")):
        return False
    modules = [f"{name.replace('.', '/')}.py" for name in _IMPORTED.findall(text)]
    places = [folder + module for folder in {"", posixpath.dirname(program) + "/"} for module in modules]
    return any(_ENGINE.search(found) for found in (text, *map(files.text, places)) if found)


def _machine(invocation: Invocation, script: str, size: World, job: Job | None) -> Machine:
    at = size.at if size.at is not None and size.at.path == script else invocation.at
    return Machine(
        size.gpus,
        size.per_node,
        (at.start, at.end),
        card=job.card if job is not None else "",
        card_at=job.card_at if job is not None else 0,
        grows_segments=grows_segments(invocation.variables),
    )


def _in_a_config(run: PythonRun, files: NamedFiles) -> Iterator[str]:
    """The arguments that the program takes from a config of the repository, which is linted by itself."""
    for key, value in run.keys.items():
        source = source_of(value)
        path = posixpath.normpath(posixpath.join(files.repository.root, source.path))
        if source.how == "config" and path not in files.written:
            yield key


def _accepted(launch: ScriptLaunch, only_in: str) -> AcceptedArguments:
    """`only_in`: the script to which what is said of the program's refusals is limited, as in refused.py."""
    launched, definitions, format_name = launch.command, launch.definitions, launch.format_name
    given = definitions.flags.items()
    return AcceptedArguments(
        defined=frozenset(definitions.flags),
        is_own=definitions.parses == "argparse" and not definitions.swift_task,
        by_classes=definitions.parses == "dataclasses",
        has_none=launch.run is not None and not definitions.parses and not given,
        makes_adapter=bool(definitions.parses or definitions.constants) and "ModelConfig" not in definitions.classes,
        switches=switches_of(format_name) | frozenset(name for name, one in given if one.is_switch),
        dashed=frozenset(name for name, one in given if one.is_dashed),
        refused=refused_flags(launched, definitions, only_in),
        without_value=flags_without_value(launched, definitions, launch.files.repository.read, only_in),
        leaves_open=may_have_more(launched.arguments, switches_of(format_name)),
        by_override=format_name in OVERRIDDEN,
        ambiguous=ambiguous_flags(launched, definitions, only_in),
        overridden=frozenset(one.name for one in overrides(options(launched.arguments)[1])),
        names=flag_names(launched, definitions),
        spelled=spelled(launched, definitions, keys_of(format_name)),
    )
