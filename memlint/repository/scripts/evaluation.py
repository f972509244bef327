"""Decides whether a program only evaluates: it calls a trainer's `evaluate` or writes text with its model, and nothing
that it reaches trains.

What it imports without using it says nothing: a module of data sets often lies in one package with the trainers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence

from memlint.repository.scripts.completeness import nodes

_ASKS_TRAINER = frozenset(("evaluate", "predict", "save_model"))
_TRAINS = frozenset(("train", "fit", "backward"))
# Flags of programs that train. A program that writes text has none of them; one that asks a trainer parses its classes.
_OF_TRAINING = frozenset(
    ("learning_rate", "lr", "num_train_epochs", "epochs", "num_epochs", "max_steps", "gradient_accumulation_steps")
)
# Functions and classes of libraries that may train: `train_model(...)`, `SFTTrainer(...)`.
_MAY_TRAIN = re.compile(r"(?:^|_)(?:train|sft|dpo|grpo|ppo|fine_?tune|fit|learn)(?=_|$)|Trainer$|^\w+_training$")
_PREPARES = frozenset(("prepare_model_for_kbit_training", "prepare_model_for_int8_training"))
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def only_evaluates(trees: Sequence[ast.Module], flags: Collection[str]) -> bool:
    """Whether a program evaluates, predicts, saves or writes text, and nothing that it reaches trains.

    `trees`: the program, then the modules that it imports. `flags`: the names of its options.
    """
    asked = {_name(node.func) for node in nodes(trees[0]) if isinstance(node, ast.Call)}
    writes = "generate" in asked and not _OF_TRAINING & set(flags)
    if not asked & _ASKS_TRAINER and not writes:
        return False
    called, defined = _reached(trees)
    if called & _TRAINS:
        return False
    return bool(asked & _ASKS_TRAINER) or not any(map(_MAY_TRAIN.search, called - defined - _PREPARES))


def _reached(trees: Sequence[ast.Module]) -> tuple[set[str], set[str]]:
    """Names of the functions that the program calls, directly or through functions and classes of `trees`; names of
    those that are defined there."""
    defined: dict[str, list[ast.AST]] = {}
    for tree in trees[1:]:
        for node in tree.body:
            if isinstance(node, _DEFINITIONS):
                defined.setdefault(node.name, []).append(node)
    called, seen, waiting = set[str](), set[str](), list[ast.AST](trees[:1])
    while waiting:
        for name, is_called in _names(waiting.pop()):
            if is_called:
                called.add(name)
            if name not in seen:
                seen.add(name)
                waiting += defined.get(name, ())
    return called, {*defined} & seen


def _names(of: ast.AST) -> Iterator[tuple[str, bool]]:
    """Each name that is used, and whether it is called."""
    for node in ast.walk(of):
        if isinstance(node, ast.Call):
            yield _name(node.func), True
        elif isinstance(node, (ast.Name, ast.Attribute)):
            yield _name(node), False


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
