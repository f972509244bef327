"""How a repository launches its configs: commands in its scripts and pages, read as text, never executed.

`accelerate launch --config_file recipes/zero3.yaml --num_processes 8 scripts/sft.py --config recipes/sft.yaml` says
what a Trainer's file cannot: which engine, and how many GPUs. Only tracked files are read, once for a repository and up
to a bound, and only for a config that leaves one of the two open.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from memlint.formats.base import Launch
from memlint.repository.launch.pages import CONFIGS, MOST_BYTES, TrackedNames
from memlint.repository.launch.variables import Variables, expanded
from memlint.repository.launch.words import MODULES, TRAIN_COMMANDS, commands

MOST_LAUNCHES = 5000  # in one file: commands times the configs that each names
_NUMBER = re.compile(r"[1-9][0-9]{0,4}")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")

# Options that change neither the engine nor the number of GPUs, with the number of values that each takes
# (accelerate 1.15 commands/launch.py:156-330, torch 2.13 distributed/run.py, deepspeed 0.19 launcher/runner.py).
_OPTIONS_WITHOUT_EFFECT: Mapping[str, int] = {
    **dict.fromkeys(("main_process_ip", "main_process_port", "machine_rank", "rdzv_backend", "rdzv_conf"), 1),
    **dict.fromkeys(("rdzv_endpoint", "rdzv_id", "node_rank", "master_addr", "master_port", "max_restarts"), 1),
    **dict.fromkeys(("log_dir", "role", "tee", "num_cpu_threads_per_process", "monitor_interval", "redirects"), 1),
    **dict.fromkeys(("standalone", "quiet", "debug", "same_network", "enable_cpu_affinity", "no_python"), 0),
}
_COUNT_OPTIONS = {
    "accelerate": ("num_processes", ""),
    "torchrun": ("nproc_per_node", "nnodes"),
    "deepspeed": ("num_gpus", "num_nodes"),
}


def launches_in_text(
    name: str, text: str, tracked: TrackedNames, known: Variables | None = None
) -> tuple[tuple[str, Launch], ...]:
    """Each config that a command in the file `name` launches, and how. `known`: what its variables stand for."""
    return tuple(islice(_iter_launches(name, text, tracked, known or {}), MOST_LAUNCHES))


def _iter_launches(name: str, text: str, tracked: TrackedNames, known: Variables) -> Iterator[tuple[str, Launch]]:
    for command in commands(text):
        folders = _folders(posixpath.dirname(name), command.entered)
        found = (
            one for words in expanded(command.words, known) for one in launches_of_command(words, folders, tracked)
        )
        for config, launch in found:
            located = launch._replace(path=name, line=command.line, visible=command.visible)
            yield (
                config,
                located._replace(
                    is_clear=located.is_clear and not located.is_beyond(located.gpus_per_node or located.gpus)
                ),
            )


def launches_in_comments(name: str, text: str, tracked: TrackedNames) -> tuple[Launch, ...]:
    """The commands in the comments of the config `name` that launch it."""
    comments = "\n".join(line if line.startswith("#") else "" for line in text[:MOST_BYTES].split("\n"))
    return tuple(launch for config, launch in launches_in_text(name, comments, tracked) if config == name)


def _folders(folder: str, entered: Iterable[str]) -> tuple[str, ...]:
    """The folders that a command's paths may be relative to: the file's own, those above it, and those after a `cd`."""
    above = [folder]
    while folder:
        folder = posixpath.dirname(folder)
        above.append(folder)
    return tuple(dict.fromkeys((*(posixpath.join(base, name) for name in entered for base in above), *above)))


def launches_of_command(
    words: tuple[str, ...], folders: tuple[str, ...], tracked: TrackedNames
) -> Iterator[tuple[str, Launch]]:
    """Each config that a command names, with the launch that the command describes, still without path and line."""
    launcher, rest = _launcher(words)
    launcher_words, arguments = _split_at_script(rest) if launcher in _COUNT_OPTIONS else ([], rest)
    if launcher_words == ["?"] and not any(word.startswith("--") for word in rest):  # prose
        return
    launch = _launcher_options(launcher, launcher_words, folders, tracked)
    sharded, arguments = _deepspeed_argument(arguments, folders, tracked)
    if sharded is not None:
        launch = launch._replace(deepspeed="".join(sharded[:1]), is_clear=launch.is_clear and len(sharded) == 1)
    if not (launch.files or launch.gpus):
        launch = launch._replace(is_clear=False)
    for word in dict.fromkeys(part for argument in arguments for part in _path_candidates(argument)):
        if word.endswith(CONFIGS):
            named = tracked.resolve(word, folders)
            for config in named:
                yield config, launch._replace(is_clear=launch.is_clear and len(named) == 1)


def _path_candidates(argument: str) -> Iterator[str]:
    """The paths that an argument may hold; `--config=recipes/{a,b}.yaml` holds two, as shells expand braces."""
    value = argument.partition("=")[2] or argument
    braces = _BRACES.search(value)
    if braces is None:
        yield value
    else:
        yield from (value[: braces.start()] + word + value[braces.end() :] for word in braces[1].split(","))


def _launcher(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    name = posixpath.basename(words[0])
    if name == "-m":
        return MODULES[words[1]], words[2:]
    if name == "accelerate-launch":
        return "accelerate", words[1:]
    return (name, words[2:]) if name == "accelerate" or name in TRAIN_COMMANDS else (name, words[1:])


def _split_at_script(words: tuple[str, ...]) -> tuple[list[str], tuple[str, ...]]:
    """The launcher's own options, and the words after its script or module; ["?"] and all words where it names none."""
    for index, word in enumerate(words):
        if word.endswith(".py") or word in ("-m", "--module"):
            return list(words[:index]), words[index + 1 :]
    return ["?"], words


def _launcher_options(launcher: str, words: list[str], folders: tuple[str, ...], tracked: TrackedNames) -> Launch:
    """The launch that the launcher's own options describe; not clear where one is unknown or a placeholder."""
    count, nodes = _COUNT_OPTIONS.get(launcher, ("", ""))
    launch = Launch(launcher=launcher, is_clear=launcher in _COUNT_OPTIONS)
    machines = 1
    pending = list(reversed(words))
    while pending:
        name, equals, value = pending.pop().partition("=")
        option = name.lstrip("-").replace("-", "_") if name.startswith("-") else ""
        if option in _OPTIONS_WITHOUT_EFFECT:
            del pending[len(pending) - (0 if equals else min(_OPTIONS_WITHOUT_EFFECT[option], len(pending))) :]
            continue
        if option and option in (count, nodes, "num_machines", "config_file"):
            value = value if equals else pending.pop() if pending else ""
        if option == "config_file" and launcher == "accelerate":
            found = tracked.resolve(value, folders)
            launch = launch._replace(config_file="".join(found[:1]), is_clear=launch.is_clear and len(found) == 1)
        elif option and option == count and _NUMBER.fullmatch(value):
            launch = launch._replace(gpus=int(value))
        elif option and option in (nodes, "num_machines") and _NUMBER.fullmatch(value):
            machines = int(value)
        else:
            launch = launch._replace(is_clear=False)
    if not launch.gpus:
        return launch._replace(is_clear=launch.is_clear and machines == 1)
    if launcher == "accelerate":  # counts all processes; the others count those of one machine
        return launch._replace(gpus_per_node=launch.gpus // machines if machines > 1 else 0)
    return launch._replace(gpus=launch.gpus * machines, gpus_per_node=launch.gpus)


def _deepspeed_argument(
    words: tuple[str, ...], folders: tuple[str, ...], tracked: TrackedNames
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The file of the script's own `--deepspeed`, and the other words; `--fsdp...` makes the engine unclear: ()."""
    others: list[str] = []
    found: tuple[str, ...] | None = None
    skip = False
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if skip:
            skip = False
        elif name == "--deepspeed":
            skip = not equals
            found = tracked.resolve(value if equals else "".join(words[index + 1 : index + 2]), folders)
        elif name.startswith("--fsdp"):
            found = ()
        else:
            others.append(word)
    return found, tuple(others)
