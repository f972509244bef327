"""Imports: modules of the repository are followed to learn their names; any other module is a library."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence

from memlint.source.python.reader import Frame, Reader
from memlint.source.python.text import SourceText
from memlint.source.python.values import External, Known, Scope, Table, Value

Execute = Callable[[Reader, Sequence[ast.stmt], Frame], str]
MAX_MODULES = 40  # modules of the repository that are followed for one script
# Libraries whose names are also common for folders of a repository: an import means the installed package.
_INSTALLED = frozenset(
    {
        *("transformers", "trl", "peft", "torch", "accelerate", "deepspeed", "unsloth", "datasets", "numpy", "yaml"),
        *("json", "os", "sys", "argparse", "dataclasses", "typing", "pathlib", "logging", "math", "re", "time"),
        *("random", "collections", "functools", "wandb", "hydra", "omegaconf", "click", "typer", "fire", "tqdm"),
    }
)


def names_of(reader: Reader, module: SourceText, execute: Execute, is_script: bool = False) -> Scope:
    """The names that a module of the repository defines. `is_script`: it is the script that is started."""
    if module.path in reader.modules:
        return reader.modules[module.path]
    if not is_script:
        _fill_registries(reader, module, execute)
        if module.path in reader.modules:
            return reader.modules[module.path]
    scope = reader.modules[module.path] = Scope()
    scope.names["__name__"] = Known("__main__" if is_script else "module")
    scope.names["__file__"] = Known(module.path)
    for block in module.blocks:
        execute(reader, block, Frame(module, scope))
    return scope


_REGISTERS = re.compile(r"^@[\w.]*register\w*(?:\(|$)", re.MULTILINE)
_OWN_MODULES = re.compile(r"^from \.(\w+) import", re.MULTILINE)


def _fill_registries(reader: Reader, module: SourceText, execute: Execute) -> None:
    """Follows the package of a module first, as Python does, where it imports modules that enter what they define into
    a registry: `@MODELS.register("gpt")`. What else packages import is followed where it is used."""
    folder = posixpath.dirname(module.path)
    package = reader.module_at(posixpath.join(folder, "__init__.py"))
    if package is None or package.path == module.path or package.path in reader.modules:
        return
    names = _OWN_MODULES.findall(package.text)[:MAX_MODULES]
    inner = (reader.module_at(posixpath.join(folder, f"{name}.py")) for name in names)
    if any(one is not None and _REGISTERS.search(one.text) for one in inner):
        names_of(reader, package, execute)


def imported(reader: Reader, name: str, level: int, from_path: str, execute: Execute) -> Value:
    """The module `name`."""
    module = _find(reader, name, level, from_path)
    return Table(names_of(reader, module, execute).names) if module else _of_library(reader, name)


def imported_name(
    reader: Reader, module_name: str, level: int, name: str, from_path: str, execute: Execute
) -> Value | Scope:
    """`from module_name import name`; a scope for `*`."""
    module = _find(reader, module_name, level, from_path)
    if module is not None:
        scope = names_of(reader, module, execute)
        if name == "*":
            return scope
        if name in scope.names:
            return scope.names[name]
    below = _find(reader, f"{module_name}.{name}" if module_name else name, level, from_path)
    if below is not None:
        return Table(names_of(reader, below, execute).names)
    return _of_library(reader, f"{module_name}.{name}" if module_name else name)


def _of_library(reader: Reader, name: str) -> External:
    reader.imported.add(name.partition(".")[0])
    return External(name)


def _find(reader: Reader, name: str, level: int, from_path: str) -> SourceText | None:
    if (not level and name.partition(".")[0] in _INSTALLED) or len(reader.modules) >= MAX_MODULES:
        return None
    paths = module_paths("." * level + name, from_path)
    for path in paths if level else (*paths, *_added_paths(reader, name)):
        found = reader.module_at(path)
        if found is not None:
            return found
    return None


def _added_paths(reader: Reader, name: str) -> Iterator[str]:
    """The paths of a module in the folders that the script adds to `sys.path`: from the root, as `__file__` is given,
    or from the script's folder."""
    for folder in reader.import_folders:
        for base in ("", posixpath.dirname(reader.script)):
            yield from _files(posixpath.normpath(posixpath.join(base, folder)), name.replace(".", "/"))


def module_paths(name: str, from_path: str) -> Iterator[str]:
    """The possible paths of an imported module, most likely first: beside the script, then from each folder above it.

    A relative import has its dots: `.config`.
    """
    level = len(name) - len(name.lstrip("."))
    inner = name[level:].replace(".", "/")
    folder = posixpath.dirname(from_path)
    if level:
        for _ in range(level - 1):
            folder = posixpath.dirname(folder)
        yield from _files(folder, inner)
        return
    while True:
        yield from _files(folder, inner)
        yield from _files(posixpath.join(folder, "src"), inner)
        if not folder:
            return
        folder = posixpath.dirname(folder)


def _files(folder: str, inner: str) -> tuple[str, ...]:
    base = posixpath.join(folder, inner) if inner else folder
    return (f"{base}.py", posixpath.join(base, "__init__.py")) if inner else (posixpath.join(base, "__init__.py"),)
