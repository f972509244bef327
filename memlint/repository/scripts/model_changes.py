"""What a program does to its model that no flag tells: it loads a class of its own or a classifier, it freezes weights.

A change below `if args.freeze_backbone:` happens where that flag is on. A classifier below `if isinstance(x, str):`
(copies of TRL's GRPOTrainer load one) is there where a reward is a model's name and not a function. A class of the
repository that stands on one of transformers' (LLaVA's on LlamaForCausalLM) adds to that model.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memlint._record import NamedTuple
from memlint.repository.scripts.commands import Option, options
from memlint.repository.scripts.completeness import nodes
from memlint.repository.scripts.reached import unreached
from memlint.source.shell.text import Word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memlint.repository.scripts.definitions import Definition

MAY_FREEZE = "which may freeze parts of itself"
_CLASSIFIERS = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
_LIBRARIES = ("transformers", "trl", "peft", "unsloth", "optimum", "auto_gptq", "awq")  # with classes of models
_REWARD = "reward_model"  # part of a flag's name: the program can take its rewards from a model
_OFF = frozenset({"false", "0", "no", "none", "off"})


class ModelChange(NamedTuple):
    """One change that a program's code makes to its model.

    `what`: in words, with file and line. `switch`: the flag that must be on for the change; "" if it always happens.
    `freezes`: it freezes parameters. `extends`: it loads a subclass, defined in the repository, of a transformers
    language model.
    """

    what: str
    switch: str = ""
    freezes: bool = False
    extends: bool = False


def changes(
    trees: Sequence[tuple[str, ast.Module]], classes: Mapping[str, Any], own: Sequence[str], flags: Mapping[str, Any]
) -> tuple[ModelChange, ...]:
    """The changes that a program makes. `trees`: path and syntax tree of its modules, the program first; `own`: parts
    of names of classes that are models."""
    has_reward_models = any(_REWARD in name for name in flags)
    found = _within_reach(list(_all(trees, classes, own)), trees)
    return tuple(one for each in found if (one := _placed(each, has_reward_models)) is not None)


def happening(
    found: Sequence[ModelChange], flags: Mapping[str, Definition], arguments: Sequence[Word]
) -> list[ModelChange]:
    """The changes that happen with the arguments of a command."""
    named, _ = options(arguments)
    return [one for one in found if not one.switch or _is_on(one.switch, flags, named)]


def _is_on(switch: str, flags: Mapping[str, Definition], named: Sequence[Option]) -> bool:
    """Whether a flag is on, or may be."""
    given = [option for option in named if option.name == switch]
    if given:
        return not any(word.text.strip("\"'").lower() in _OFF for word in given[-1].values)
    defined = flags.get(switch)
    if defined is None:
        return True
    return bool(defined.default) if defined.default is not None else not defined.is_switch


class _Found(NamedTuple):
    what: str
    is_classifier: bool
    freezes: bool
    extends: bool
    path: str
    node: ast.AST
    tree: ast.Module

    @property
    def line(self) -> int:
        return getattr(self.node, "lineno", 0)


def _all(trees: Sequence[tuple[str, ast.Module]], classes: Mapping[str, Any], own: Sequence[str]) -> Iterator[_Found]:
    for path, tree in trees:
        decides = path == trees[0][0] or _makes_parser(tree)  # `train_mem.py` calls `train()` of another file
        for node in nodes(tree):
            owner = _loads(node)
            if owner in classes and any(part in owner for part in own):
                what = f"loads `{owner}`, a class of the repository"
                yield _Found(what, False, False, _extends(owner, classes), path, node, tree)
            elif any(part in owner for part in own) and _comes_with_all(node, owner, tree):
                yield _Found(f"loads `{owner}`, a class of the repository", False, False, False, path, node, tree)
            elif owner.endswith(_CLASSIFIERS):
                yield _Found(f"loads `{owner}`, a classifier", True, False, False, path, node, tree)
            elif decides and _freezes(node):
                yield _Found("freezes parameters of its own choice", False, True, False, path, node, tree)


def _comes_with_all(node: ast.AST, name: str, tree: ast.Module) -> bool:
    """Whether a module of the repository brings a bare name: nothing but `from own.model import *` can (LLaVA's
    packages import their classes by `exec`)."""
    imports = [one for one in nodes(tree) if isinstance(one, ast.ImportFrom)]
    bound = {alias.asname or alias.name for one in imports for alias in one.names}
    of_all = [one.module or "." for one in imports if any(alias.name == "*" for alias in one.names)]
    is_bare = (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
    )
    is_own = bool(of_all) and not any(one.partition(".")[0] in _LIBRARIES for one in of_all)
    return is_bare and is_own and name not in bound


def _within_reach(found: list[_Found], trees: Sequence[tuple[str, ast.Module]]) -> list[_Found]:
    """Without what stands in code that the program imports and never names: the other trainers of a package."""
    if all(one.path == trees[0][0] for one in found):
        return found
    left_out = unreached(trees)
    return [one for one in found if not any(one.line in lines for lines in left_out.get(one.path, ()))]


def _extends(owner: str, classes: Mapping[str, Any]) -> bool:
    """Whether a class of the repository stands on a language model of transformers."""
    bases = [_name(base) for base in classes[owner][0].bases] if classes[owner] else []
    return any(base.endswith("ForCausalLM") and base not in classes for base in bases)


def _placed(found: _Found, has_reward_models: bool) -> ModelChange | None:
    tests = list(_tests_around(found.node, found.tree))
    if found.is_classifier and not has_reward_models and any(_asks_for_text(test) for test in tests):
        return None
    what = f"{posixpath.basename(found.path)}:{found.line} {found.what}"
    switch = next((flag for test in tests if (flag := _switch(test))), "")
    return ModelChange(what, switch, found.freezes, found.extends)


def _tests_around(node: ast.AST, tree: ast.Module) -> Iterator[ast.expr]:
    """The conditions below which a node stands."""
    line = getattr(node, "lineno", 0)
    for one in nodes(tree):
        if isinstance(one, ast.If) and one.body[0].lineno <= line <= (one.body[-1].end_lineno or 0):
            yield one.test


def _switch(test: ast.expr) -> str:
    """`freeze_backbone` of `if model_args.freeze_backbone:`."""
    is_flag = isinstance(test, ast.Attribute) and isinstance(test.value, ast.Name) and "args" in test.value.id
    return test.attr if is_flag and isinstance(test, ast.Attribute) else ""


def _asks_for_text(test: ast.expr) -> bool:
    """`isinstance(x, str)`."""
    if not isinstance(test, ast.Call) or _name(test.func) != "isinstance" or len(test.args) != 2:
        return False
    return _name(test.args[1]) == "str"


def _makes_parser(tree: ast.Module) -> bool:
    calls = (node for node in nodes(tree) if isinstance(node, ast.Call))
    return any(_name(call.func).endswith("ArgumentParser") for call in calls)


def _loads(node: ast.AST) -> str:
    """The class whose `from_pretrained` is called; "" for all else."""
    is_call = isinstance(node, ast.Call) and _name(node.func) == "from_pretrained"
    return _name(node.func.value) if is_call and isinstance(node.func, ast.Attribute) else ""  # type: ignore[attr-defined]


def _freezes(node: ast.AST) -> bool:
    """`model.requires_grad_(False)`, `p.requires_grad = False`; a reference model is frozen anyway."""
    target: ast.AST | None = None
    if isinstance(node, ast.Call) and _name(node.func) == "requires_grad_" and isinstance(node.func, ast.Attribute):
        target = node.func.value if node.args and _is_false(node.args[0]) else None
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
        is_off = node.targets[0].attr == "requires_grad" and _is_false(node.value)
        target = node.targets[0].value if is_off else None
    return target is not None and "ref" not in ast.unparse(target)


def _is_false(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
