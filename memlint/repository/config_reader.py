"""Who reads a config: an argument parser of transformers or TRL, or a script of the repository by itself.

Read from text alone, never executed. A script counts where it can be tied to the config: a command names both, the
script names the file or its folder, or it reads most of the file's keys one by one. Commands outweigh names, names
outweigh keys.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from memlint.formats.base import ConfigReader, Launch
from memlint.repository.python_arguments import Script

MOST_COMMANDS = 200  # on pages that name one config
_CONTINUED = re.compile(r"\\\r?\n")
_SCRIPT = re.compile(r"[\w./-]+\.py\b|(?:(?<=-m )|(?<=--module ))[\w.]+")
_IMPORT = re.compile(rb"^[ \t]*(?:from|import)[ \t]+([\w.]+)", re.MULTILINE)
_QUOTED = re.compile(rb"""["']([^"'\n]{1,200})["']""")
_LOOKED_UP = rb"""(?:\[|\.get\(\s*)["'](%b)["']|\b(?:cfg|config|conf)\.(?:\w+\.)?(%b)\b"""
_HYDRA = b"hydra.main"
_OPEN = re.compile(r"[{*%]")
_UPWARDS = re.compile(r"^(?:\.{0,2}/)+")
_LAUNCHERS = re.compile(r"\b(?:accelerate|torchrun|deepspeed|torch\.distributed)\b")
_FEWEST_KEYS = 3  # of one config that a script reads before they are its own


def reader_of(
    config: str,
    keys: Collection[str],
    launches: Sequence[Launch],
    pages: Iterable[str],
    scripts: Sequence[Script],
    resolve: Callable[[str], Collection[str]],
    beside: Callable[[str, str], Collection[str]],
) -> ConfigReader:
    """Who reads the file `config` (relative to the root) with these `keys`; `ConfigReader()` where nothing tells.

    `launches`: the commands that launch it. `pages`: texts with commands that may name it. `scripts`: the repository's
    Python files that parse arguments, or load YAML or JSON. `resolve`: the tracked files that a word of a page may
    name, as absolute paths. `beside`: those that a word of the script at a path may name, relative to the root.
    """
    is_json = config.endswith(".json")
    if is_json:  # a file that names data is no reader, so the folder alone ties nothing
        scripts = [script._replace(reads_yaml=script.reads_json) for script in scripts]
    by_path = {script.path: script for script in scripts}
    if any(launch.launcher == "trl" for launch in launches):
        return ConfigReader("framework", parsers=frozenset({"TrlParser"}))
    for line in _commands(config, pages):
        named = [path for word in _SCRIPT.findall(line) for path in _module(word, resolve)]
        tied = [by_path[path] for path in named if path in by_path]
        # what a command starts comes first, with what it imports: it may hand the others what it read
        for part in (tied[:1], [*_imported(tied[:1], scripts)], tied[1:]):
            found = _of_scripts(part, keys, scripts)
            if found.kind:
                return found
        if _LAUNCHERS.search(line) and (named or _SCRIPT.search(line)):
            return ConfigReader("framework")
    naming = (script for script in scripts if _names_file(script, config, beside))
    near = _alike([script for script in scripts if _names_folder(script, config)], config)
    for some in (naming,) if is_json else (naming, near):
        found = _of_scripts(some, keys, scripts)
        if found.kind:
            return found
    return _of_keys(keys, scripts)


def _module(word: str, resolve: Callable[[str], Collection[str]]) -> Collection[str]:
    """The files of a script or module that a command names; packages may lie below `src/`."""
    path = _as_path(word)
    return resolve(path) or resolve(f"src/{path}")


def _imported(tied: Iterable[Script], scripts: Iterable[Script]) -> Iterator[Script]:
    """The scripts beside `tied` that these import."""
    for script in tied:
        modules = {name.rpartition(b".")[2].decode() for name in _IMPORT.findall(script.text)}
        folder = posixpath.dirname(script.path)
        for other in scripts:
            if posixpath.dirname(other.path) == folder and posixpath.basename(other.path)[:-3] in modules:
                yield other


def _as_path(word: str) -> str:
    return word if word.endswith(".py") else word.replace(".", "/") + ".py"


def _commands(config: str, pages: Iterable[str]) -> Iterator[str]:
    """Lines that name the config, each with its continuation lines."""
    name = posixpath.basename(config)
    lines = (line for page in pages if name in page for line in _CONTINUED.sub(" ", page).splitlines())
    found = 0
    for line in lines:
        if name in line and _SCRIPT.search(line):
            yield line
            found += 1
            if found >= MOST_COMMANDS:
                return


_TRAINER = re.compile(rb"\b(\w*Trainer)\s*\(")
# transformers 5.23.0 and trl 1.16.0.
_TRAINERS = re.compile(rb"(?:Seq2Seq|SFT|DPO|KTO|ORPO|CPO|GRPO|RLOO|Reward|PPO|OnlineDPO|GKD|PRM|BCO)?Trainer")


def has_own_trainer(script: bytes) -> bool:
    """Whether all trainers that a script makes are classes of other names than those of transformers and TRL."""
    names = _TRAINER.findall(script)
    return bool(names) and not any(map(_TRAINERS.fullmatch, names))


def _of_scripts(tied: Iterable[Script], keys: Collection[str], scripts: Sequence[Script]) -> ConfigReader:
    """What scripts that are tied to the config make of it: an argument parser in one of them outweighs the others."""
    found = list(tied)
    for script in found:
        if script.parsers:
            return ConfigReader("framework", script.path, script.parsers, has_own_trainer(script.text))
    loads = any(script.reads_yaml and not script.parsers for script in scripts)
    for script in found:
        if script.reads_yaml or (loads and len(_keys_read(script, keys)) >= _FEWEST_KEYS):
            return ConfigReader("script", script.path, has_own_trainer=has_own_trainer(script.text))
    return ConfigReader()


def _names_file(script: Script, config: str, beside: Callable[[str, str], Collection[str]]) -> bool:
    name = posixpath.basename(config).encode()
    words = {word.decode("utf-8", "replace") for word in _QUOTED.findall(script.text) if word.endswith(name)}
    return any(_may_mean(word, config, beside(word, script.path)) for word in words)


def _may_mean(word: str, config: str, found: Collection[str]) -> bool:
    """Whether a path in a script may be the config's. `found`: the files that it names from the script's folder or one
    above; where there are none, the script may have changed the folder, or lack its beginning or have one too many."""
    if found:
        return config in found
    if _OPEN.search(word):
        return posixpath.basename(word) == posixpath.basename(config)
    path, whole = f"/{_UPWARDS.sub('', word)}", f"/{config}"
    return path.endswith(whole) or whole.endswith(path)


def _names_folder(script: Script, config: str) -> bool:
    """Whether the script names the config's folder, or a pattern of files in it: not one that names another file. Hydra
    composes its file of all folders below the one that it is given, relative to the script."""
    folder = posixpath.dirname(config)
    if not folder:
        return False
    beside = posixpath.dirname(script.path)
    for word in _QUOTED.findall(script.text):
        text = word.decode("utf-8", "replace").removeprefix("./").rstrip("/")
        if text == folder or (text.startswith(f"{folder}/") and _OPEN.search(text)):
            return True
        if _HYDRA in script.text and text and _lies_below(folder, posixpath.normpath(posixpath.join(beside, text))):
            return True
    return False


def _alike(scripts: Sequence[Script], config: str) -> list[Script]:
    """Scripts that read a whole folder, first those called after the config: `train_grpo.py` for `grpo.yaml`."""
    stem = posixpath.basename(config).partition(".")[0]
    return sorted(scripts, key=lambda script: stem not in posixpath.basename(script.path))


def _lies_below(folder: str, top: str) -> bool:
    """Whether `top`, a path from the root of the file system, ends with the folder or with one above it."""
    parts = folder.split("/")
    return any(top.endswith("/" + "/".join(parts[: end + 1])) for end in range(len(parts)))


def _of_keys(keys: Collection[str], scripts: Sequence[Script]) -> ConfigReader:
    """The script that reads most of the file's keys one by one."""
    fewest = max(_FEWEST_KEYS, (len(keys) + 1) // 2)
    for script in scripts:
        if script.reads_yaml and not script.parsers and len(_keys_read(script, keys)) >= fewest:
            return ConfigReader("script", script.path, has_own_trainer=has_own_trainer(script.text))
    return ConfigReader()


def _keys_read(script: Script, keys: Collection[str]) -> set[bytes]:
    """The keys that the script looks up: `config["key"]`, `config.get("key")`, `config.key`."""
    words = b"|".join(re.escape(key.encode("utf-8", "replace")) for key in keys)
    if not words:
        return set()
    return {one or other for one, other in re.findall(_LOOKED_UP % (words, words), script.text)}
