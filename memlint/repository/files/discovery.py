"""Finds the config files below some roots, in a fixed order. Files that git ignores and does not track are left out;
files that are roots themselves are always included."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

import memlint.repository.files.tracked as tracked_by
from memlint._record import NamedTuple
from memlint.repository.files.globs import THIRD_PARTY_FOLDERS, Glob, compile_globs, match_decision
from memlint.source.suffixes import SHELL

SUFFIXES = (".yaml", ".yml", ".json", *SHELL, ".mk", ".just", ".py", ".ipynb", ".toml")
_MAKEFILES = frozenset(("Makefile", "makefile", "GNUmakefile", "justfile", "Justfile"))
# Data files, often of megabytes: those of tokenizers and checkpoints (transformers
# 5.23 utils/__init__.py, tokenization_utils_base.py, trainer_callback.py), and what describes a project.
_DATA_FILES = frozenset(
    {
        *("tokenizer.json", "vocab.json", "added_tokens.json", "model.safetensors.index.json"),
        *("pytorch_model.bin.index.json", "trainer_state.json", "package-lock.json"),
        *("pyproject.toml", "Cargo.toml"),
    }
)
MAX_JSON_BYTES = 128 * 1024  # a longer JSON file is data, such as a run's results: its text alone would take a second
# A longer one that begins with several of these keys may be a config all the same.
_HEAD_BYTES = 4096
_FEWEST_KEYS = 3
_KEYS_OF_CONFIGS = frozenset(
    {
        *("model_name_or_path", "base_model", "output_dir", "learning_rate", "num_train_epochs", "num_epochs"),
        *("per_device_train_batch_size", "gradient_accumulation_steps", "train_micro_batch_size_per_gpu"),
        *("train_batch_size", "zero_optimization", "fp16", "bf16", "optimizer", "scheduler", "dataset", "datasets"),
    }
)
_STRING_OR_BRACKET = r"""("(?:[^"\\]|\\.)*")(\s*:)?|([{\[])|[}\]]"""
MAX_IGNORE_BYTES = 1024 * 1024


class FoundFile(NamedTuple):
    """A file to read. With `error`: a root that cannot be read. With `note`: a remark on the folder `path`."""

    path: str
    named: bool = False
    error: str = ""
    note: str = ""


class _IgnoreFile(NamedTuple):
    """The patterns of one ignore file, relative to the folder `base` (absolute, with a final separator)."""

    base: str
    globs: tuple[Glob, ...]


class _Folder(NamedTuple):
    """A folder to walk. `ignores`: the patterns that apply, exclusions last. `tracked`: the repository around it.
    `is_ignored`: git ignores the folder, so that only tracked files count."""

    folder: str
    ignores: tuple[_IgnoreFile, ...]
    tracked: tracked_by.Tracked | None = None
    is_ignored: bool = False


def discover(
    roots: Sequence[str], exclude: Sequence[str] = (), base: str = ".", gitignore: bool = True
) -> Iterator[FoundFile]:
    """The config files below `roots`, each once, by name within a folder. A root that is a file is always included.

    `exclude`: patterns relative to the folder `base`. Hidden folders, virtual environments, node_modules
    and symbolic links are skipped.
    """
    excluded = _IgnoreFile(_with_separator(base), compile_globs(exclude))
    seen: set[str] | None = set() if len(roots) > 1 else None
    for root in roots:
        found = _walk(root, excluded, gitignore) if os.path.isdir(root) else iter((_named_root(root),))
        for file in found:
            if seen is not None:
                if (key := os.path.abspath(file.path)) in seen:
                    continue
                seen.add(key)
            yield file


def _named_root(path: str) -> FoundFile:
    if os.path.isfile(path):
        return FoundFile(path, named=True)
    if os.path.islink(path):
        return FoundFile(path, True, "a symbolic link that leads nowhere")
    return FoundFile(path, True, "not a regular file" if os.path.exists(path) else "no such file or folder")


def _walk(root: str, excluded: _IgnoreFile, gitignore: bool) -> Iterator[FoundFile]:
    """Walks depth first, with an explicit stack so that deep folders cause no recursion error."""
    above, repository = _ignores_above(os.path.abspath(root)) if gitignore else ((), None)
    pending = [_Folder(root, (*above, excluded), repository)]
    repositories = {repository.base: repository} if repository else {}
    while pending:
        current = pending.pop()
        folder = current.folder
        try:
            with os.scandir(folder) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError as error:
            if folder == root or not isinstance(error, (FileNotFoundError, NotADirectoryError)):
                yield FoundFile(folder, folder == root, f"cannot be listed: {error.strerror}")
            continue  # a folder that was removed meanwhile has no files
        if gitignore:
            current = _with_folder_contents(current, entries)
            if current.tracked:
                repositories[current.tracked.base] = current.tracked
        subfolders: list[_Folder] = []
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if not _is_skipped(entry):
                    subfolders += _subfolders(current, entry)
            elif may_be_config(entry.name) and entry.is_file(follow_symlinks=False) and _is_wanted(current, entry):
                yield from _found(_join(folder, entry.name), entry)
        pending += reversed(subfolders)
    yield from (FoundFile(each.base, note=each.problem) for each in repositories.values() if each.problem)


def may_be_config(name: str) -> bool:
    """Whether memlint reads a file with this name (without its folder) when it walks folders."""
    return (name.endswith(SUFFIXES) and name not in _DATA_FILES) or name in _MAKEFILES


def _with_folder_contents(current: _Folder, entries: Sequence[os.DirEntry[str]]) -> _Folder:
    """The folder with its own ignore file and its own repository."""
    for entry in entries:
        if entry.name > ".gitignore":
            break
        if entry.name == ".gitignore":
            ignores = (*current.ignores[:-1], *_read_ignores(current.folder, ".gitignore"), current.ignores[-1])
            current = current._replace(ignores=ignores)
        elif entry.name == ".git":
            current = current._replace(tracked=tracked_by.Tracked(os.path.abspath(current.folder)))
    return current


def _subfolders(current: _Folder, entry: os.DirEntry[str]) -> Iterator[_Folder]:
    ignored = current.is_ignored or _is_ignored(current.ignores, entry.path, True)
    if not ignored or _is_tracked(current, entry, True):
        yield _Folder(_join(current.folder, entry.name), current.ignores, current.tracked, ignored)


def _found(path: str, entry: os.DirEntry[str]) -> Iterator[FoundFile]:
    """The file, unless it is data by its size; a note on a large one that may be a config."""
    size = entry.stat(follow_symlinks=False).st_size if entry.name.endswith(".json") else 0
    if size <= MAX_JSON_BYTES:
        yield FoundFile(path)
    elif _begins_like_config(entry.path):
        large = f"JSON of {size // 1024} KiB, taken for data above {MAX_JSON_BYTES // 1024}"
        yield FoundFile(path, note=f"{path}: {large}, though it begins like a config: name the file to have it read")


def _begins_like_config(path: str) -> bool:
    """Whether a JSON file is an object whose first keys are several of a config's."""
    try:
        with open(path, "rb") as stream:
            head = stream.read(_HEAD_BYTES).decode("utf-8", "replace")
    except OSError:
        return False
    depth, keys = 0, set()
    for string, is_key, opens in map(re.Match.groups, re.finditer(_STRING_OR_BRACKET, head)):
        if string is None:
            depth += 1 if opens else -1
        elif is_key and depth == 1:
            keys.add(string[1:-1])
    return head.lstrip()[:1] == "{" and len(keys & _KEYS_OF_CONFIGS) >= _FEWEST_KEYS


def _is_wanted(current: _Folder, entry: os.DirEntry[str]) -> bool:
    """Whether git does not ignore a file, or tracks it although it is ignored."""
    ignored = current.is_ignored or _is_ignored(current.ignores, entry.path, False)
    return not ignored or _is_tracked(current, entry, False)


def _is_tracked(current: _Folder, entry: os.DirEntry[str], is_folder: bool) -> bool:
    """Whether git tracks an ignored file, and no pattern of the settings excludes it."""
    if current.tracked is None or _is_ignored(current.ignores[-1:], entry.path, is_folder):
        return False
    return current.tracked.contains(os.path.abspath(entry.path), is_folder)


def _join(folder: str, name: str) -> str:
    return name if folder == "." else os.path.join(folder, name)


def _is_skipped(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(".") or entry.name in THIRD_PARTY_FOLDERS:
        return True
    return os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))


def _is_ignored(ignores: Sequence[_IgnoreFile], path: str, is_folder: bool) -> bool:
    """The innermost ignore file with a matching pattern decides. `exclude` is last and cannot be negated."""
    absolute = ""
    for base, globs in reversed(ignores):
        if not globs:
            continue
        absolute = absolute or os.path.abspath(path)
        if absolute.startswith(base):
            decision = match_decision(globs, absolute[len(base) :].replace(os.sep, "/"), is_folder)
            if decision is not None:
                return decision
    return False


def _ignores_above(root: str) -> tuple[tuple[_IgnoreFile, ...], tracked_by.Tracked | None]:
    """The ignore files between the repository's root and `root`, outermost first; and the repository."""
    chain: list[_IgnoreFile] = []
    folder = root
    while True:
        if os.path.exists(os.path.join(folder, ".git")):
            return (*_read_ignores(folder, ".git/info/exclude"), *chain), tracked_by.Tracked(folder)
        parent = os.path.dirname(folder)
        if parent == folder:
            return (), None  # not in a repository: ignore files above the root do not count
        chain[:0] = _read_ignores(parent, ".gitignore")
        folder = parent


def _read_ignores(folder: str, name: str) -> tuple[_IgnoreFile, ...]:
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        return ()
    try:
        with open(path, "rb") as stream:
            text = stream.read(MAX_IGNORE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ()
    return (_IgnoreFile(_with_separator(folder), compile_globs(text.split("\n"))),)


def _with_separator(path: str) -> str:
    absolute = os.path.abspath(path)
    return absolute if absolute.endswith(os.sep) else absolute + os.sep
