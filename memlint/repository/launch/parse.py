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
from memlint.repository.launch.words import BARE, MODULES, commands

MOST_LAUNCHES = 5000  # of one file: commands times the configs that each names
_NUMBER = re.compile(r"[1-9][0-9]{0,4}")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")

# What says nothing about the engine, with the number of words that follow (accelerate 1.15 commands/launch.py:156-330,
# torch 2.13 distributed/run.py, deepspeed 0.19 launcher/runner.py).
_ASIDE: Mapping[str, int] = {
    **dict.fromkeys(("main_process_ip", "main_process_port", "machine_rank", "rdzv_backend", "rdzv_conf"), 1),
    **dict.fromkeys(("rdzv_endpoint", "rdzv_id", "node_rank", "master_addr", "master_port", "max_restarts"), 1),
    **dict.fromkeys(("log_dir", "role", "tee", "num_cpu_threads_per_process", "monitor_interval", "redirects"), 1),
    **dict.fromkeys(("standalone", "quiet", "debug", "same_network", "enable_cpu_affinity", "no_python"), 0),
}
_COUNTS = {
    "accelerate": ("num_processes", ""),
    "torchrun": ("nproc_per_node", "nnodes"),
    "deepspeed": ("num_gpus", "num_nodes"),
}


def shown(name: str, text: str, tracked: TrackedNames) -> tuple[tuple[str, Launch], ...]:
    """Each config that a command in the file `name` launches, and how."""
    return tuple(islice(_shown(name, text, tracked), MOST_LAUNCHES))


def _shown(name: str, text: str, tracked: TrackedNames) -> Iterator[tuple[str, Launch]]:
    for command in commands(text):
        for config, launch in launches(command.words, _folders(posixpath.dirname(name), command.entered), tracked):
            told = launch._replace(path=name, line=command.line, visible=command.visible)
            yield config, told._replace(is_clear=told.is_clear and not told.is_beyond(told.gpus_per_node or told.gpus))


def own(name: str, text: str, tracked: TrackedNames) -> tuple[Launch, ...]:
    """How the comments of the config `name` say that it is launched."""
    comments = "\n".join(line if line.startswith("#") else "" for line in text[:MOST_BYTES].split("\n"))
    return tuple(launch for config, launch in shown(name, comments, tracked) if config == name)


def _folders(folder: str, entered: Iterable[str]) -> tuple[str, ...]:
    """What a command's words may count from: the file's folder and those above it, or a folder that it entered."""
    above = [folder]
    while folder:
        folder = posixpath.dirname(folder)
        above.append(folder)
    return tuple(dict.fromkeys((*(posixpath.join(base, name) for name in entered for base in above), *above)))


def launches(words: tuple[str, ...], folders: tuple[str, ...], tracked: TrackedNames) -> Iterator[tuple[str, Launch]]:
    """Each config that a command names, with what the command says of its launch; the place is left open."""
    launcher, rest = _launcher(words)
    own, arguments = _parted(rest) if launcher in _COUNTS else ([], rest)
    if own == ["?"] and not any(word.startswith("--") for word in rest):  # prose
        return
    said = _said(launcher, own, folders, tracked)
    sharded, arguments = _sharded_by(arguments, folders, tracked)
    if sharded is not None:
        said = said._replace(deepspeed="".join(sharded[:1]), is_clear=said.is_clear and len(sharded) == 1)
    if not (said.files or said.gpus):
        said = said._replace(is_clear=False)
    for word in dict.fromkeys(part for argument in arguments for part in _meant(argument)):
        if word.endswith(CONFIGS):
            named = tracked.resolve(word, folders)
            for config in named:
                yield config, said._replace(is_clear=said.is_clear and len(named) == 1)


def _meant(argument: str) -> Iterator[str]:
    """What may be a path in `--config=recipes/{a,b}.yaml`: the value, with each word in braces, as shells have it."""
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
    return (name, words[2:]) if name == "accelerate" or name in BARE else (name, words[1:])


def _parted(words: tuple[str, ...]) -> tuple[list[str], tuple[str, ...]]:
    """The launcher's own words, and those from its script or module on; none of its own where there is no such word."""
    for index, word in enumerate(words):
        if word.endswith(".py") or word in ("-m", "--module"):
            return list(words[:index]), words[index + 1 :]
    return ["?"], words


def _said(launcher: str, words: list[str], folders: tuple[str, ...], tracked: TrackedNames) -> Launch:
    """What the launcher's own words say. It is not clear where one is unknown or left open to the reader."""
    count, nodes = _COUNTS.get(launcher, ("", ""))
    said = Launch(launcher=launcher, is_clear=launcher in _COUNTS)
    machines = 1
    pending = list(reversed(words))
    while pending:
        name, equals, value = pending.pop().partition("=")
        option = name.lstrip("-").replace("-", "_") if name.startswith("-") else ""
        if option in _ASIDE:
            del pending[len(pending) - (0 if equals else min(_ASIDE[option], len(pending))) :]
            continue
        if option and option in (count, nodes, "num_machines", "config_file"):
            value = value if equals else pending.pop() if pending else ""
        if option == "config_file" and launcher == "accelerate":
            found = tracked.resolve(value, folders)
            said = said._replace(config_file="".join(found[:1]), is_clear=said.is_clear and len(found) == 1)
        elif option and option == count and _NUMBER.fullmatch(value):
            said = said._replace(gpus=int(value))
        elif option and option in (nodes, "num_machines") and _NUMBER.fullmatch(value):
            machines = int(value)
        else:
            said = said._replace(is_clear=False)
    if not said.gpus:
        return said._replace(is_clear=said.is_clear and machines == 1)
    if launcher == "accelerate":  # counts all processes; the others count those of one machine
        return said._replace(gpus_per_node=said.gpus // machines if machines > 1 else 0)
    return said._replace(gpus=said.gpus * machines, gpus_per_node=said.gpus)


def _sharded_by(
    words: tuple[str, ...], folders: tuple[str, ...], tracked: TrackedNames
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The file behind the script's own `--deepspeed`, and the other words; `--fsdp` and the like leave it open."""
    kept: list[str] = []
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
            kept.append(word)
    return found, tuple(kept)
