"""Decides whether all flags of a program are known: then any other flag makes it exit.

They are not if anything may add a flag, remove one before the parser sees it, or accept unknown ones: a parser made
elsewhere, computed names, arguments added by a library, aliases.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

_MAKES = frozenset(("ArgumentParser", "HfArgumentParser", "TrlParser", "H4ArgumentParser"))
_PARSES = frozenset(("parse_args", "parse_args_into_dataclasses", "parse_args_and_config"))
_LETS_THROUGH = frozenset(
    ("parse_known_args", "parse_known_intermixed_args", "add_subparsers", "set_defaults", "Fire", "make_dataclass")
    + ("add_class_arguments", "add_dataclass_arguments", "add_arguments", "register")
)
_OPTIONS_THAT_OPEN = frozenset(
    ("parents", "fromfile_prefix_chars", "prefix_chars", "conflict_handler", "return_remaining_strings", "aliases")
    + ("fail_with_unknown_args",)
)
# A program that changes what its parser reads, or whose arguments another library reads.
_OTHER_READERS = re.compile(
    r"sys\.argv(?:\[[^\]\n]*\])?\s*(?:\+?=(?!=)|\.(?:append|extend|insert|pop|remove))|\bdel sys\.argv"
    r"|\b(?:import|from) (?:click|fire|hydra|tyro|typer|jsonargparse|simple_parsing|absl)\b|[\"']aliases[\"']"
)


_OF_INTEREST = (ast.Call, ast.ClassDef, ast.FunctionDef, ast.Import, ast.ImportFrom, ast.Assign, ast.If)


@lru_cache(maxsize=64)
def nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """The calls, definitions, imports and assignments of a module. Cached, because walking a large tree is slow."""
    return tuple(node for node in ast.walk(tree) if isinstance(node, _OF_INTEREST))


def is_complete(program: ast.Module, text: str, modules: Sequence[ast.Module]) -> bool:
    """Whether the calls of a program determine all flags. `modules`: it and its imports; `text`: its code."""
    own = {name for _, name in _calls((program,))}
    if not own & _MAKES or not own & _PARSES or _OTHER_READERS.search(text):
        return False
    functions = {node.name for tree in modules for node in nodes(tree) if isinstance(node, ast.FunctionDef)}
    parsers = set(_parsers(modules))
    return all(_is_plain(call, name, functions, parsers) for call, name in _calls(modules))


def have_one_definition(names: Iterable[str], modules: Sequence[ast.Module]) -> bool:
    """Whether no two classes of the modules share one of the names."""
    defined = [node.name for tree in modules for node in nodes(tree) if isinstance(node, ast.ClassDef)]
    return all(defined.count(name) <= 1 for name in names)


def _calls(modules: Iterable[ast.Module]) -> Iterator[tuple[ast.Call, str]]:
    for tree in modules:
        for node in nodes(tree):
            if isinstance(node, ast.Call):
                yield node, _name(node.func)


def _parsers(modules: Iterable[ast.Module]) -> Iterator[str]:
    """Names of variables that hold a parser."""
    for tree in modules:
        for node in nodes(tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _name(node.value.func) in _MAKES:
                yield from (_name(target) for target in node.targets)


def _is_plain(call: ast.Call, name: str, functions: set[str], parsers: set[str]) -> bool:
    """Whether a call cannot change the set of flags."""
    if name in _LETS_THROUGH:
        return False
    if name in _MAKES | _PARSES | {"add_argument"} and any(one.arg is None or _opens(one) for one in call.keywords):
        return False
    if name == "add_argument":
        return all(isinstance(one, ast.Constant) for one in call.args)
    if name in _PARSES:
        return all(ast.unparse(one) == "sys.argv[1:]" for one in call.args)
    given = (*call.args, *(keyword.value for keyword in call.keywords))
    return name in functions or not any(isinstance(one, ast.Name) and one.id in parsers for one in given)


def _opens(keyword: ast.keyword) -> bool:
    return keyword.arg in _OPTIONS_THAT_OPEN or keyword.arg in ("args", "namespace")


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
