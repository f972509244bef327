"""Finds the scripts and pages of a repository that may launch its configs, by their names and a few words in them.

Only tracked files are read, once for a repository and up to a bound.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from memlint._record import NamedTuple
from memlint.source.suffixes import SHELL

T = TypeVar("T")

MOST_FILES = 1000
MOST_BYTES = 256 * 1024
MOST_BYTES_IN_ALL = 8 * 1024 * 1024
_SUFFIXES = (".md", ".markdown", ".rst", *SHELL, ".mk")
_NAMES = ("Makefile", "makefile", "justfile", "Justfile")
# Suffixes of programs that may read a config and start Python with values from it.
OTHER_LANGUAGES = (".js", ".mjs", ".ts", ".go", ".rs", ".rb", ".java", ".kt", ".cs", ".php", ".lua", ".jl", ".r", ".R")
# Tasks of SkyPilot and dstack and jobs of Kubernetes, by the names that they usually have.
_JOB_WORDS = ("sky", "job", "pod", "deploy", "k8s", "kube", ".dstack.")
_JOB_FOLDERS = frozenset({"skypilot", "k8s", "kubernetes", "helm", "manifests"})
# Files that hold commands as lists of words, or as steps of something larger.
_WITH_STEPS = (
    r"(?:^|/)(?:[^/]*(?:Dockerfile|Containerfile)[^/]*|package\.json|(?:docker-)?compose[^/]*\.ya?ml|dvc\.yaml|MLproject"
    r"|\.github/workflows/[^/]+|[^/]*sweep[^/]*\.ya?ml|[^/]+\.ipynb)$"
)
CONFIGS = (".yaml", ".yml", ".json", ".toml")
HINTS = (
    r"accelerate[ -]launch|accelerate\.commands|torchrun|torch\.distributed|deepspeed|axolotl|llamafactory|trl "
    r"|tune run|lightning run|fabric run"
)
# Where a command line begins that may start a Python program.
STARTS = rf"\bpython[\d.]*[ \t]|\buv run\b|{HINTS}|\.(?:sh|bash|slurm|sbatch)\b|(?m:^[$#> \t]{{0,8}}cd )"
_ANY_COMMAND = HINTS.encode() + rb"|\.(?:py|sh|bash|slurm|sbatch)\b|-m [a-z]|--config[ =]"
_LAUNCHERS = (
    *("accelerate", "torchrun", "torch.distributed", "deepspeed", "axolotl", "llamafactory", "trl ", "tune run"),
    *("lightning run", "fabric run"),
)
_BRACED = rb"\{[^{}\s]*,[^{}\s]*\}[^{}\s]*\.(?:ya?ml|json)"
_SCRIPT_WITH_ARGUMENTS = rb"\.(?:sh|bash|slurm|sbatch)[ \t]+[\w./\"'-]"
# A variable that is a whole word, or a whole part of a path: `$CONFIG`, `--config=$CONFIG`, `"$root/configs/$name"`.
_WHOLE_VARIABLE = rb"""(?<=[\s=/:])["']?\$(?:\w+|\{\w+\}|[@*#?])["']?(?=[\s/;:)&|]|\Z)"""
_ADDS_TO_VALUE = rb"`|\+=|\bprintf -v"
_RUNS_SCRIPT = rb"\.(?:sh|bash|slurm|sbatch)\b|\b(?:source|eval|sh|bash)[ \t]|(?m:^)[ \t]*\.[/ \t]|[;&(][ \t]*\.[/ \t]"
_OPEN_VALUE = r"[$<>{}*\[\]]"  # characters of a word that the shell, or the reader of a page, must fill in

_DOCSTRING = r"""(?s)\A(?:\s|#[^\n]*\n)*[rRuU]?(\"\"\"|''')(.*?)\1"""

_OWN_NAME = 16  # letters of a program's name that is no `run_sft.py` of other repositories


class TrackedNames(NamedTuple):
    """The repository's tracked files: `root` (absolute, posix), and every name below it."""

    root: str
    names: frozenset[str]

    def resolve(self, word: str, folders: Iterable[str]) -> tuple[str, ...]:
        """The tracked files that `word` may name, seen from one of `folders`, or with its whole path."""
        inside = f"{self.root.rstrip('/')}/"
        if word.startswith(inside):
            word, folders = word[len(inside) :].lstrip("/"), ("",)
        if posixpath.isabs(word) or re.search(_OPEN_VALUE, word):
            return ()
        places = (posixpath.normpath(posixpath.join(folder, word)) for folder in folders)
        return tuple(dict.fromkeys(place for place in places if place in self.names))

    def programs(self, word: str, folders: Iterable[str]) -> tuple[str, ...]:
        """The tracked programs that `word` may name. A command may be older than the folder that a program is in now:
        where nothing is at its path, the one file with that name counts, if few other repositories have the name."""
        found = self.resolve(word, folders)
        name = posixpath.basename(word)
        if found or len(name) < _OWN_NAME or "_" not in name or not name.endswith(".py"):
            return found
        moved = tuple(one for one in self.names if one.endswith(name) and posixpath.basename(one) == name)
        return moved if len(moved) == 1 else ()


def may_hold_commands(name: str) -> bool:
    """Whether files with this name usually contain commands: scripts, Makefiles, Markdown pages, jobs."""
    return name.endswith(_SUFFIXES) or posixpath.basename(name) in _NAMES or is_job(name)


def says_launchers(text: str) -> bool:
    """Whether a text may say how something is launched."""
    return any(word in text for word in _LAUNCHERS)


def comments(text: str) -> str:
    """The lines of a text that are comments, each on its own line."""
    if "#" not in text:  # as in most configs
        return "\n" * text.count("\n", 0, MOST_BYTES)
    return "\n".join(line if line.startswith("#") else "" for line in text[:MOST_BYTES].split("\n"))


def docstring(text: str) -> str:
    """A module's docstring with blanks in place of the text before it, so that offsets stay; "" without one."""
    match = re.match(_DOCSTRING, text)
    return re.sub(r"[^\n]", " ", text[: match.start(2)]) + match[2] if match else ""


def is_script(name: str) -> bool:
    """Whether a file of this name is a shell script."""
    return name.endswith(SHELL)


def is_job(name: str) -> bool:
    """Whether a file of this name may be a task of SkyPilot or dstack, or a job of Kubernetes."""
    *folders, file = name.split("/")
    if not file.endswith((".yaml", ".yml")):
        return False
    return any(word in file for word in _JOB_WORDS) or not _JOB_FOLDERS.isdisjoint(folders)


def names_config(data: bytes, config: str) -> bool:
    """Whether a file with these contents has the name of `config`."""
    return posixpath.basename(config).encode("utf-8", "replace") in data


def may_launch_any(name: str, data: bytes) -> bool:
    """Whether a file with these contents may launch configs that it does not name: it has `recipes/{a,b}.yaml`, or
    calls a script with arguments, or has variables and names may come from more than its own words."""
    if re.search(_BRACED, data) is not None or re.search(_SCRIPT_WITH_ARGUMENTS, data) is not None:
        return True
    if not (is_script(name) or is_job(name)) or re.search(rb"\$[{\w]", data) is None:
        return False
    return not _has_its_names(data)


def _has_its_names(script: bytes) -> bool:
    """Whether each file that the commands of a script may name is called as some word of it ends: its variables are
    whole parts of paths, and nothing else gives them a value."""
    if len(re.findall(_WHOLE_VARIABLE, script)) < script.count(b"$"):
        return False  # `run_$i.yaml`, `${name%.json}.yaml`, `$(basename ...)`
    return re.search(_ADDS_TO_VALUE, script) is None and re.search(_RUNS_SCRIPT, script) is None


def command_texts(tracked: TrackedNames, read: Callable[[str], bytes]) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files that show a launcher's command, nearest to the root first.

    Files that cannot be read, are too large or are not text are left out.
    """
    texts = _texts(filter(may_hold_commands, tracked.names), tracked.root, read)
    return ((name, data) for name, data in texts if re.search(_ANY_COMMAND, data) and b"\0" not in data)


def other_texts(tracked: TrackedNames, read: Callable[[str], bytes]) -> Iterator[tuple[str, bytes]]:
    """Names and contents of programs in other languages, and of files with steps, nearest to the root first."""
    has_steps = re.compile(_WITH_STEPS).search
    names = (name for name in tracked.names if name.endswith(OTHER_LANGUAGES) or is_job(name) or has_steps(name))
    return _texts(names, tracked.root, read)


def _texts(names: Iterable[str], root: str, read: Callable[[str], bytes]) -> Iterator[tuple[str, bytes]]:
    """Names and contents of these files, nearest to the root first and up to a bound."""
    room = MOST_BYTES_IN_ALL
    for name in sorted(names, key=lambda name: (name.count("/"), name))[:MOST_FILES]:
        try:
            data = read(posixpath.join(root, name))
        except OSError:
            continue
        room -= len(data)
        if room < 0:
            return
        if len(data) <= MOST_BYTES:
            yield name, data


def by_distance(items: Iterable[T], config: str, name: Callable[[T], str]) -> list[T]:
    """`items`, those whose `name` is fewest steps from the folder of `config` first."""
    here = posixpath.dirname(config).split("/")

    def steps(item: T) -> int:
        there = posixpath.dirname(name(item)).split("/")
        shared = 0
        while shared < min(len(here), len(there)) and here[shared] == there[shared]:
            shared += 1
        return len(here) + len(there) - 2 * shared

    return sorted(items, key=steps)
