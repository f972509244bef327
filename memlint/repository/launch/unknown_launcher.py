"""Adds readings to a run whose launcher is unknown: in them the launcher shards the model over the GPUs.

`accelerate launch` enables DeepSpeed or FSDP by a file of its own, which a Trainer config does not name. LLaMA-Factory
and Axolotl start plain data parallelism by default (LLaMA-Factory v0.9.5 launcher.py:66-118, torchrun; Axolotl 0.19.0
cli/utils/train.py, `accelerate launch` with its defaults): their model is whole on each GPU, unless the repository has
an accelerate file or a command that shards it. Where nobody says on how many GPUs, only commands count that give the
config an engine's file: it is not meant for one GPU then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from memlint.formats.base import Context, Launch, MissingFile, Parsed
from memlint.repository.launch.readings import SECTIONS, with_readings
from memlint.run import LAUNCH, Reading, Run, differences
from memlint.source import load
from memlint.source.document import Document

REASON = "launcher not known"
# Launchers that only start processes: the program asks for an engine itself (deepspeed 0.19.8 launcher/launch.py; the
# Trainer gets DeepSpeed by its argument, or by accelerate's ACCELERATE_USE_DEEPSPEED).
_STARTS_ALONE = ("torchrun", "deepspeed")
_SHARDING = frozenset({"DEEPSPEED", "FSDP"})
_MOST_FILES = 20
_SUPPOSED_GPUS = 8  # the assumed number of GPUs if it is unknown: those of one machine
_OFFLOADED = "  offload_optimizer_device: cpu\n  offload_param_device: cpu\n"


def with_launcher_readings(
    parsed: Parsed, parse: Callable[[Document, Context], Parsed], document: Document, context: Context
) -> Parsed:
    """The same runs. Those with an unknown launcher get the readings in which it shards the model."""
    return with_readings(
        parsed,
        lambda run: _is_open(run, document, context),
        lambda run, index: _readings(run, index, parse, document, context),
    )


def _is_open(run: Run, document: Document, context: Context) -> bool:
    """Whether the run may be launched with an engine that no file here names."""
    engine, world = run.origins.get("parallelism.engine"), run.parallelism.world_size
    if engine is None or engine.kind != "inferred" or run.parallelism.engine not in ("single", "ddp"):
        return False
    if context.gpu is None or world == 1 or LAUNCH in run.origins or context.companions:
        return False
    if document.start is not None and document.start.launcher in _STARTS_ALONE:
        return False
    if run.format == "trainer":
        return not (run.stack.use_unsloth or _is_cell(document))
    return (isinstance(world, int) or _is_given_files(document, context)) and _repository_shards(document, context)


def _is_given_files(document: Document, context: Context) -> bool:
    """Whether all commands that name the config give it an engine's file: none starts it as it stands alone."""
    commands = context.repository.launch_commands(document.path)
    return bool(commands) and all(one.files for one in commands)


def _is_cell(document: Document) -> bool:
    """Whether a notebook's own cells train. Its kernel is one process, so no engine shards the model."""
    return document.path.endswith(".ipynb") and document.syntax == "python"


def _repository_shards(document: Document, context: Context) -> bool:
    """Whether commands that name the config may shard the model; without such commands, whether a launch file would."""
    commands = context.repository.launch_commands(document.path)
    if commands:
        return any(map(_may_shard, commands))
    return any(
        _shards(context, name, document.path) for name in context.repository.launch_files(document.path)[:_MOST_FILES]
    )


def _may_shard(launch: Launch) -> bool:
    """Whether the command may do more than start one process per GPU."""
    from memlint.repository.scripts.commands import PROGRAMS  # where a command names the config

    return bool(launch.files) or (launch.launcher != "torchrun" and launch.launcher not in PROGRAMS)


def _shards(context: Context, name: str, path: str) -> bool:
    found = context.read(name, path)
    if isinstance(found, MissingFile) or not isinstance(found.value, dict):
        return False
    return str(found.value.get("distributed_type")).upper() in _SHARDING


def _readings(
    run: Run, index: int, parse: Callable[[Document, Context], Parsed], document: Document, context: Context
) -> Iterator[Reading]:
    """The run under ZeRO-3, and under ZeRO-3 with everything offloaded: the least memory that a launcher can
    achieve."""
    world = run.parallelism.world_size
    gpus = world if isinstance(world, int) else _SUPPOSED_GPUS
    itself = f"whole on each of the {gpus} GPUs" if isinstance(world, int) else "whole on each GPU"
    for label, options in (("sharded", ""), ("sharded and offloaded", _OFFLOADED)):
        launcher = f"distributed_type: DEEPSPEED\nnum_processes: {gpus}\ndeepspeed_config:\n  zero_stage: 3\n{options}"
        companion = load(launcher.encode(), "launcher", "yaml")[0]
        runs = parse(document, context._replace(companions=(companion,))).runs
        if len(runs) > index and runs[index].parallelism.engine == "deepspeed":
            changes = differences(run, runs[index], SECTIONS)
            given = (("parallelism.engine", run.parallelism.engine),)
            yield Reading(REASON, f"{label} over {gpus} GPUs", itself, changes, given, only_where_over=True)
