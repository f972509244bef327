"""Decides whether a program only evaluates: it calls a trainer's `evaluate` or writes text with its model, and nothing
that it reaches trains.

What it imports without using it says nothing: a module of data sets often lies in one package with the trainers, and a
program that uses a trained model takes its class from the file that trained it.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Collection, Iterator, Sequence

from memlint._record import NamedTuple
from memlint.repository.scripts.completeness import nodes

_WITHOUT_GRADIENTS = frozenset(("no_grad", "inference_mode"))
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


def only_evaluates(path: str, trees: Sequence[ast.Module], flags: Collection[str], classes: Collection[str]) -> bool:
    """Whether a program evaluates, predicts, saves or writes text, and nothing that it reaches trains.

    `trees`: the program at `path`, then the modules that it imports. `flags`: the names of its options. `classes`:
    those of training arguments that the modules name.
    """
    asked = {_name(node.func) for node in nodes(trees[0]) if isinstance(node, ast.Call)}
    reached = _reached(trees)
    if reached.called & _TRAINS:
        return False
    if asked & _ASKS_TRAINER:
        return True
    may_train = any(map(_MAY_TRAIN.search, reached.called - reached.defined - _PREPARES))
    if asked & _WITHOUT_GRADIENTS and "eval" in asked and not may_train:
        return True  # forward passes alone: log-probabilities of a reference model, before DPO
    if _OF_TRAINING & set(flags) or may_train or _MAY_TRAIN.search(posixpath.basename(path).removesuffix(".py")):
        return False
    writes = "generate" in asked or _turns_training_off(trees[0])
    return writes or (bool(classes) and not reached.used & set(classes))


def _turns_training_off(tree: ast.Module) -> bool:
    """Whether a program says `model.eval()`: a module that is not here may do the rest."""
    calls = (node for node in nodes(tree) if isinstance(node, ast.Call) and not node.args)
    return any(isinstance(call.func, ast.Attribute) and call.func.attr == "eval" for call in calls)


def asks_whether_to_train(tree: ast.Module) -> bool:
    """Whether a program trains where its arguments say `do_train`, which is off unless said: all of its calls of
    `train` stand below `if training_args.do_train:` (transformers 5.23 examples/pytorch)."""
    asked = [node for node in nodes(tree) if isinstance(node, ast.If) and _name(node.test) == "do_train"]
    below = {id(one) for node in asked for part in node.body for one in ast.walk(part)}
    trains = [one for one in nodes(tree) if isinstance(one, ast.Call) and _name(one.func) in _TRAINS]
    return bool(asked) and all(id(one) in below for one in trains)


class _Reach(NamedTuple):
    """Names that a program calls and uses, directly or through functions and classes of its modules; `defined`: those
    of these functions and classes."""

    called: set[str]
    used: set[str]
    defined: set[str]


def _reached(trees: Sequence[ast.Module]) -> _Reach:
    own = [{node.name: node for node in tree.body if isinstance(node, _DEFINITIONS)} for tree in trees]
    everywhere: dict[str, list[tuple[ast.AST, int]]] = {}
    for place, definitions in enumerate(own):
        for name, node in definitions.items():
            everywhere.setdefault(name, []).append((node, place))
    aliases = [
        [one for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for one in node.names] for tree in trees
    ]
    renamed = [{one.name for one in names if one.asname} for names in aliases]
    called, used = set[str](), set[str]()
    waiting: list[tuple[ast.AST, int]] = [(tree, 0) for tree in trees[:1]]
    known = {id(node) for node in own[0].values()}  # a part of what is waiting
    while waiting:
        of, place = waiting.pop()
        for name, is_called in _names(of):
            used.add(name)
            called.update({name} if is_called else ())
            found = everywhere.get(name, ())
            if name in own[place] and name not in renamed[place]:
                found = [(own[place][name], place)]
            waiting += (one for one in found if id(one[0]) not in known)
            known.update(id(node) for node, _ in found)
    return _Reach(called, used, {*everywhere} & used)


def _names(of: ast.AST) -> Iterator[tuple[str, bool]]:
    """Each name that is used, and whether it is called."""
    for node in ast.walk(of):
        if isinstance(node, ast.Call):
            yield _name(node.func), True
        elif isinstance(node, (ast.Name, ast.Attribute)):
            yield _name(node), False
        elif isinstance(node, ast.alias) and node.asname:
            yield node.name, True  # called under its other name


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
