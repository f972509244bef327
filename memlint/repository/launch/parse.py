"""Finds how a repository launches its configs: follows commands in scripts and pages like a shell, without running
them.

`accelerate launch --config_file recipes/zero3.yaml --num_processes 8 scripts/sft.py --config recipes/sft.yaml` tells
two facts that a Trainer's file lacks: the engine, and the number of GPUs. Only tracked files are read, once for a
repository and up to a bound, and only for a config that leaves one of the two open.

Scripts and recipes are followed as a whole, with their variables and the scripts that they call, and so are the
commands of a job in YAML. In pages and in a config's comments, each command is followed by itself.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.accelerate.trl_files import LAUNCH_FILES
from memlint.formats.base import PROCESS_LAUNCHERS, Launch
from memlint.repository.launch.pages import CONFIGS, TrackedNames, is_job, is_script
from memlint.repository.launch.snippets import COMMAND, snippets
from memlint.repository.scripts.commands import LAUNCHER_WORDS, LaunchCommand, options, overrides
from memlint.repository.scripts.commands import command as launch_command
from memlint.repository.scripts.environment import TELLING
from memlint.repository.scripts.job_headers import job
from memlint.repository.scripts.jobs import commands_in_yaml
from memlint.repository.scripts.makefiles import holds_recipes, recipes
from memlint.repository.scripts.slurm import Job
from memlint.repository.scripts.values import value_of
from memlint.repository.scripts.world import World, asked_for, told, visible_devices, world
from memlint.source import load
from memlint.source.shell.interpreter import Interpreter
from memlint.source.shell.invocation import Invocation, Surroundings
from memlint.source.shell.text import Word
from memlint.source.shell.tree import Source

MOST_LAUNCHES = 5000  # in one file: commands times the configs that each names
MOST_FOLDERS = 8  # folders that one file enters with `cd`
# Options that change neither the engine nor the number of GPUs (accelerate 1.15 commands/launch.py:156-330,
# torch 2.13 distributed/run.py, deepspeed 0.19 launcher/runner.py), and those that `scripts.world` evaluates.
_WITHOUT_EFFECT = frozenset(
    ("main_process_ip", "main_process_port", "machine_rank", "rdzv_backend", "rdzv_conf", "rdzv_endpoint", "rdzv_id")
    + ("node_rank", "master_addr", "master_port", "max_restarts", "log_dir", "role", "tee", "monitor_interval")
    + ("num_cpu_threads_per_process", "redirects", "standalone", "quiet", "debug", "same_network", "m", "module")
    + ("enable_cpu_affinity", "no_python", "gradient_accumulation_steps")
    + ("deepspeed_multinode_launcher", "main_address", "main_port", "accelerator")
)
_READ = {
    "accelerate": frozenset(("num_processes", "num_machines", "config_file")),
    "torchrun": frozenset(("nproc_per_node", "nnodes")),
    "deepspeed": frozenset(("num_gpus", "num_nodes", "include", "i")),
    "tune": frozenset(("nproc_per_node", "nnodes")),
    "lightning": frozenset(("devices", "num_nodes")),
}
_OF_MODULES = {"axolotl.cli.train": "axolotl"}  # module started with `python -m` -> launcher
Read = Callable[[str], "str | None"]


class Command(NamedTuple):
    """A program that a file's commands start. `job`: what the job around it asks for; a page may show several."""

    invocation: Invocation
    job: Job | None = None


def _no_text(name: str) -> str | None:
    return None


def launches_in_text(
    name: str, text: str, tracked: TrackedNames, read: Read = _no_text
) -> tuple[tuple[str, Launch], ...]:
    """(config, launch) for each config that a command in the file `name` launches. `read`: reads a tracked file's text,
    by its name."""
    return launches_among(commands(name, text, tracked, read), name, text, tracked)


def launches_among(
    found: Iterable[Command], name: str, text: str, tracked: TrackedNames
) -> tuple[tuple[str, Launch], ...]:
    """The same of the programs that the file's commands start."""
    text = text.replace("\r\n", "\n")
    launches = (
        (config, _placed(launch, one, name, text))
        for one in found
        for config, launch in launches_of_command(one, folders_of(name, one.invocation.folder, tracked.root), tracked)
    )
    return tuple(islice(launches, MOST_LAUNCHES))


def _placed(launch: Launch, command: Command, name: str, text: str) -> Launch:
    """The launch with its place in the file `name`, and with the card of its job."""
    launch = launch._replace(path=name, line=_line(text, command.invocation.at.start))
    asked = asked_for(command.invocation.wrappers, command.job)
    if asked is None or not asked.card:
        return launch
    return launch._replace(card=asked.card, card_line=_line(text, asked.card_at))


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def commands(
    name: str, text: str, tracked: TrackedNames, read: Read, start: re.Pattern[str] | None = None
) -> Iterator[Command]:
    """The programs that the commands of a file start. `start`: matches the beginning of a command in a page; by
    default, of one that may launch a config."""
    text = text.replace("\r\n", "\n")
    path = posixpath.join(tracked.root, name)
    for sources, asked in _scripts(path, text, start or COMMAND):
        follower = Interpreter(path, _surroundings(name, tracked, read, asked))
        follower.follow_all(sources, posixpath.dirname(path))
        yield from (Command(one, asked) for one in follower.invocations)


def _scripts(path: str, text: str, start: re.Pattern[str]) -> Iterator[tuple[Iterable[Source], Job | None]]:
    """The scripts in a file, each as the sequence of texts that one shell reads, and the job that it is of."""
    if is_script(path):
        yield (Source.of_file(path, text),), job(text)
    elif holds_recipes(path):
        yield from (((Source(part.text),), None) for part in recipes(path, text))
    elif is_job(path):
        documents = load(text.encode("utf-8", "replace"), path)
        parts = (part for document in documents for part in commands_in_yaml(document))
        yield from (((Source(part.text),), part.job) for part in parts)
    else:
        yield map(Source, snippets(path, text, start)), None


def _surroundings(name: str, tracked: TrackedNames, read: Read, asked: Job | None) -> Surroundings:
    """The tracked files as a script's surroundings, with the variables of its job. The script may be started in its own
    folder or in one above."""
    start = posixpath.dirname(posixpath.join(tracked.root, name))
    above = _above(posixpath.dirname(name))

    def find(path: str, kind: str) -> str | None:
        word = posixpath.relpath(path, start)
        places = (posixpath.normpath(posixpath.join(base, word)) for base in above)
        found = next((place for place in places if place in tracked.names), None) if kind != "folder" else None
        return posixpath.join(tracked.root, found) if found is not None else None

    variables = asked.variables if asked is not None else {}
    telling = TELLING if asked is None else None  # a job's card is that of all scripts that it runs
    return Surroundings(lambda path: read(posixpath.relpath(path, tracked.root)), find, variables, telling=telling)


def _above(folder: str) -> tuple[str, ...]:
    """The folder and those above it, up to the root: for "a/b" ("a/b", "a", "")."""
    found = [folder]
    while found[-1]:
        found.append(posixpath.dirname(found[-1]))
    return tuple(found)


def folders_of(name: str, entered: str, root: str) -> tuple[str, ...]:
    """The folders that a command's paths may be relative to: those that the file entered, its own, those above it.

    The start folder of a page is unknown: after `git clone ...; cd repository; cd tune` the command may be in
    `repository/tune`, or in `tune` below the page's folder or one above it.
    """
    own = posixpath.dirname(name)
    above = _above(own)
    steps = posixpath.relpath(entered, posixpath.join(root, own)).split("/")[-MOST_FOLDERS:]
    tails = ("/".join(steps[index:]) for index in range(len(steps)))
    inside = (posixpath.normpath(posixpath.join(base, tail)) for tail in tails for base in above)
    return tuple(dict.fromkeys("" if one == "." else one for one in (*inside, *above)))


def launches_of_command(
    command: Command, folders: tuple[str, ...], tracked: TrackedNames
) -> Iterator[tuple[str, Launch]]:
    """(file, launch) for each config that the program's arguments name; under a launcher also for the program's file.

    The launch has no path, line and card yet.
    """
    launched = _launched(command.invocation.words)
    if launched is None or launched.program is None or _is_prose(launched):
        return
    launch = _described(launched, command.invocation, folders, tracked, command.job)
    programs = _programs(launched.program, folders, tracked)
    launch = launch._replace(
        is_foreign=_is_foreign(launched.program, folders, tracked), program=programs[0] if len(programs) == 1 else ""
    )
    configs = {word: tracked.resolve(word, folders) for word in _values(launched.arguments) if word.endswith(CONFIGS)}
    over = launch._replace(options=tuple(_options_over(launched.arguments)))
    for named in configs.values():
        yield from ((config, over._replace(is_clear=launch.is_clear and len(named) == 1)) for config in named)
    name = launched.program.text
    if launch.launcher not in PROCESS_LAUNCHERS or launched.is_module or not name.endswith(".py"):
        return  # the program's own file says the rest
    programs = tracked.programs(name, folders)
    over = over._replace(is_clear=launch.is_clear and len(programs) == 1, names_config=any(configs.values()))
    yield from ((program, over) for program in programs)


def _options_over(arguments: Sequence[Word]) -> Iterator[tuple[str, Any]]:
    """What the options of a program say over the config that it is given: `--bf16 true`, `bf16=true`."""
    named, others = options(arguments)
    for one in (*named, *overrides(others)):
        if not any(word.text.endswith(CONFIGS) for word in one.values):
            yield one.name, value_of(one.values, frozenset())


def _programs(program: Word, folders: tuple[str, ...], tracked: TrackedNames) -> tuple[str, ...]:
    """The files of the repository that a program may be."""
    name = program.known or ""
    return tuple(tracked.programs(name, folders)) if name.endswith(".py") and not posixpath.isabs(name) else ()


def _is_foreign(program: Word, folders: tuple[str, ...], tracked: TrackedNames) -> bool:
    """Whether a program is a file that the repository does not have."""
    name = program.known or ""
    return name.endswith(".py") and not posixpath.isabs(name) and not tracked.resolve(name, folders)


def _launched(words: Sequence[Word]) -> LaunchCommand | None:
    """The launch in a command, or in the end of it, as an unknown wrapper may come before it."""
    for index, word in enumerate(words):
        if posixpath.basename(word.text) in LAUNCHER_WORDS or word.text.startswith("python"):
            found = launch_command(words[index:])
            if found is not None and found.launcher == "python" and found.is_module and found.program is not None:
                found = found._replace(launcher=_OF_MODULES.get(found.program.text, "python"))
            if found is not None and found.launcher != "python":
                return found
    return None


def _is_prose(launched: LaunchCommand) -> bool:
    """Whether a launch is just prose, such as `torchrun with sft.yaml`: it has neither program nor option."""
    if launched.launcher not in PROCESS_LAUNCHERS or launched.is_module or launched.program is None:
        return False
    words = (launched.program, *(one.flag for one in launched.options), *launched.arguments)
    return not launched.program.text.endswith(".py") and not any(word.text.startswith("--") for word in words)


def _described(
    launched: LaunchCommand, invocation: Invocation, folders: tuple[str, ...], tracked: TrackedNames, asked: Job | None
) -> Launch:
    """The launch that the launcher's options describe. It is not clear if another option may change it.

    A program that starts its own processes takes all GPUs that there are, unless it is told how many.
    """
    launcher = launched.launcher
    if launcher == "trl":
        return _of_trl(launched, invocation, folders, tracked, asked)
    if launcher not in PROCESS_LAUNCHERS:
        size = _of_own_processes(launched, invocation, asked)
        own = Launch(launcher=launcher, gpus=size.gpus, gpus_per_node=size.per_node, is_clear=True)
        own = _with_deepspeed(own, launched, folders, tracked)
        return own._replace(is_clear=own.is_clear and bool(own.gpus or own.deepspeed))
    launch = Launch(
        launcher=launcher, visible=visible_devices(invocation.variables), is_clear=_is_clear(launched, launcher)
    )
    file = launched.option("config_file") if launcher == "accelerate" else None
    if file is not None:
        found = tracked.resolve(file.values[0].text, folders) if file.values else ()
        launch = launch._replace(config_file="".join(found[:1]), is_clear=launch.is_clear and len(found) == 1)
    launch = _with_gpus(launch, launched, invocation, asked)
    launch = _with_deepspeed(launch, launched, folders, tracked)
    is_beyond = launch.is_beyond(launch.gpus_per_node or launch.gpus)
    return launch._replace(is_clear=launch.is_clear and not is_beyond and bool(launch.files or launch.gpus))


def _of_own_processes(launched: LaunchCommand, invocation: Invocation, asked: Job | None) -> World:
    """The GPUs of a program that starts its own processes: what it is told, else what the job around it asks for."""
    if asked is None:
        return told(launched, invocation.variables)
    return world(launched, invocation.variables, invocation.wrappers, asked)


def _of_trl(
    launched: LaunchCommand, invocation: Invocation, folders: tuple[str, ...], tracked: TrackedNames, asked: Job | None
) -> Launch:
    """The launch of TRL's command, which takes the options of `accelerate launch` beside its own, and a launch file by
    its path or by a name that TRL knows (trl 1.16.0 cli/accelerate_config.py)."""
    given = {one.name: one for one in options(launched.arguments)[0]}
    named = next((given[name].values for name in ("accelerate_config", "config_file") if name in given), ())
    found = tracked.resolve(named[0].text, folders) if named else ()
    shipped = named[0].text if named and not found and named[0].text in LAUNCH_FILES else ""
    size = _of_own_processes(launched, invocation, asked)
    launch = Launch(
        launcher="trl",
        config_file="".join(found[:1]),
        shipped=shipped,
        gpus=size.gpus,
        gpus_per_node=size.per_node,
        asks_for_gpus="num_processes" in given and not size.gpus,
        is_clear=len(found) == 1 or bool(shipped) if named else size.gpus > 0,
    )
    return _with_deepspeed(launch, launched, folders, tracked)


def _is_clear(launched: LaunchCommand, launcher: str) -> bool:
    """Whether the program is known, and the launch depends on no options but the number of GPUs and the launch file."""
    program = launched.program.known if launched.program is not None else None
    named = launched.is_module or launcher == "tune"  # a recipe by its name
    is_program = program is not None and (named or program.endswith(".py"))
    return is_program and all(one.name in _WITHOUT_EFFECT | _READ[launcher] for one in launched.options)


def _with_gpus(launch: Launch, launched: LaunchCommand, invocation: Invocation, job: Job | None) -> Launch:
    """The launch with its number of GPUs. The number in a launch file has priority over the visible devices."""
    asked = [one for one in launched.options if one.name in _READ[launch.launcher] and one.name != "config_file"]
    if launched.option("config_file") is not None and not launched.option("num_processes"):
        return launch._replace(asks_for_gpus=bool(asked))
    size = world(launched, invocation.variables, invocation.wrappers if job is not None else (), job)
    if not size.gpus:
        return launch._replace(asks_for_gpus=bool(asked))
    return launch._replace(gpus=size.gpus, gpus_per_node=size.per_node)


def _with_deepspeed(launch: Launch, launched: LaunchCommand, folders: tuple[str, ...], tracked: TrackedNames) -> Launch:
    """The launch with the file of the program's own `--deepspeed` or `deepspeed=`. `--fsdp...` makes the engine
    unclear."""
    named, others = options(launched.arguments)
    given = {one.name: one for one in (*named, *overrides(others))}
    if any(name.startswith("fsdp") for name in given):
        return launch._replace(is_clear=False)
    if "deepspeed" not in given:
        return launch
    values = given["deepspeed"].values
    found = tracked.resolve(values[0].text, folders) if values else ()
    return launch._replace(deepspeed="".join(found[:1]), is_clear=launch.is_clear and len(found) == 1)


def _values(arguments: Sequence[Word]) -> Iterator[str]:
    """The values of the arguments, without the file of `--deepspeed` or `deepspeed=`, no config of the program."""
    previous = ""
    for word in arguments:
        name, joined, value = word.text.partition("=")
        if name not in ("--deepspeed", "deepspeed") and previous != "--deepspeed":
            yield value if joined else name
        previous = "" if joined else name
