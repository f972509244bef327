"""What the classes of a framework take, read from its sources; for tools/argument_names.py and argument_releases.py."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from pathlib import Path

# TRL's classes of arguments, whose trainers memlint knows by name (memlint/formats/trainer/python/python_run.py).
CLASSES = (
    *("SFTConfig", "DPOConfig", "KTOConfig", "ORPOConfig", "CPOConfig", "GRPOConfig", "RLOOConfig", "RewardConfig"),
    *("PPOConfig", "OnlineDPOConfig", "GKDConfig", "PRMConfig", "BCOConfig", "XPOConfig", "NashMDConfig"),
)
TRAINERS = tuple(name.removesuffix("Config") + "Trainer" for name in CLASSES)
TAKES_ANY = "**"  # among names, where a constructor has `**kwargs`


def modules_of(package: Path) -> list[Path]:
    """The files of an unpacked package, without those of its command line."""
    return sorted(path for path in package.rglob("*.py") if "cli" not in path.parts)


def fields_of(paths: Iterator[Path] | list[Path]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """The fields that each class declares, and the names of its bases, over all files."""
    own: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for node in _classes(paths):
        names = (line.target.id for line in _annotated(node) if isinstance(line.target, ast.Name))
        own.setdefault(node.name, set()).update(name for name in names if not name.startswith("_"))
        bases.setdefault(node.name, set()).update(map(ast.unparse, node.bases))
    return own, bases


def inherited(name: str, own: dict[str, set[str]], bases: dict[str, set[str]], depth: int = 8) -> set[str]:
    """The fields of a class and of those that it derives from."""
    if name not in own or not depth:
        return set()
    return own[name].union(*(inherited(base, own, bases, depth - 1) for base in bases[name] if base != name))


def constructors(paths: list[Path], names: tuple[str, ...]) -> Iterator[tuple[str, set[str]]]:
    """The classes of these names, and what `__init__` takes: `TAKES_ANY` where it has `**kwargs`, and the old names
    that its decorators translate."""
    for node in _classes(paths):
        for line in node.body if node.name in names else ():
            if isinstance(line, ast.FunctionDef) and line.name == "__init__":
                yield node.name, _parameters(line)


def _classes(paths: Iterator[Path] | list[Path]) -> Iterator[ast.ClassDef]:
    for path in paths:
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        yield from (node for node in nodes if isinstance(node, ast.ClassDef))


def _annotated(node: ast.ClassDef) -> list[ast.AnnAssign]:
    return [line for line in node.body if isinstance(line, ast.AnnAssign)]


def _parameters(node: ast.FunctionDef) -> set[str]:
    found = node.args
    names = {one.arg for one in (*found.posonlyargs, *found.args, *found.kwonlyargs)} - {"self"}
    calls = (one for one in node.decorator_list if isinstance(one, ast.Call) and "kwarg" in ast.unparse(one.func))
    names |= {str(ast.literal_eval(call.args[0])) for call in calls}
    return names | ({TAKES_ANY} if found.kwarg is not None else set())


def block(fields: set[str], indent: int) -> str:
    """The names as a string over several lines of the generated file."""
    space = " " * indent
    lines = textwrap.fill(" ".join(sorted(fields)), 116 - indent, break_on_hyphens=False)
    return f'{space}"""\n{textwrap.indent(lines, space)}\n{space}"""'
