"""Evaluates what a program computes from its flags before the Trainer gets them: `fp16=args.fp16 and not args.bf16`, or
`training_args.eval_steps = max(steps // 5, 5)` after parsing.

Expressions of flags and constants are evaluated; any other is unknown.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memlint._record import NamedTuple

# Queries of the machine, which are true on any card that memlint estimates for: it has bfloat16.
_TRUE_ON_A_CARD = frozenset(("is_bf16_supported", "is_available", "is_torch_bf16_gpu_available", "is_cuda_available"))
_CONVERTS: Mapping[str, Callable[[Any], Any]] = {"int": int, "float": float, "str": str, "bool": bool}
_COMPARES: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
}


class Assignment(NamedTuple):
    """`args.key = value` in a program. `at`: file and line. `where_unset`: only `if args.key is None`, or false.
    `is_part`: it sets a part of the value: `args.lr_scheduler_kwargs["min_lr"] = rate`."""

    value: ast.expr
    at: str
    where_unset: bool = False
    is_conditional: bool = False
    is_part: bool = False


def value_of(expression: ast.expr, flags: Mapping[str, Any]) -> Any:
    """The value of an expression. `flags`: attributes of the parsed arguments. Raises LookupError if it is unknown."""
    try:
        return _value(expression, flags)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise LookupError(str(error)) from error


def _value(node: ast.expr, flags: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return flags[node.attr]
    if isinstance(node, ast.BoolOp):
        return _either(node, flags)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _value(node.operand, flags)
    if isinstance(node, ast.IfExp):
        return _value(node.body if _value(node.test, flags) else node.orelse, flags)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARES:
        return _COMPARES[type(node.ops[0])](_value(node.left, flags), _value(node.comparators[0], flags))
    if isinstance(node, ast.Call):
        return _called(node, flags)
    raise LookupError(ast.unparse(node))


def _either(node: ast.BoolOp, flags: Mapping[str, Any]) -> Any:
    """`and`, `or`: the first value that decides."""
    found = None
    for one in node.values:
        found = _value(one, flags)
        if bool(found) is isinstance(node.op, ast.Or):
            return found
    return found


def _called(node: ast.Call, flags: Mapping[str, Any]) -> Any:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in _TRUE_ON_A_CARD and not node.args:
        return True
    if name == "getattr" and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
        flag = str(node.args[1].value)
        return flags[flag] if flag in flags or len(node.args) == 2 else _value(node.args[2], flags)
    if isinstance(node.func, ast.Name) and name in _CONVERTS and len(node.args) == 1 and not node.keywords:
        return _CONVERTS[name](_value(node.args[0], flags))
    raise LookupError(ast.unparse(node))


def assignments(tree: ast.AST, path: str) -> Iterator[tuple[str, Assignment]]:
    """Values that a module gives to attributes of its arguments: variables whose names end in `args`.

    Where only a part of a value is set, the value is not known. A conversion of the same attribute
    (`args.targets = args.targets.split(",")`) is not included, nor is a key that a function takes from the Trainer
    because it has done itself what the key asks for.
    """
    done = {id(node) for one in ast.walk(tree) if isinstance(one, _FUNCTIONS) for node in _done_by_hand(one)}
    for key, one in _below(tree, path, ()):
        if id(one.value) not in done:
            yield key, one


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Key -> the method of a model that does the same. om-ai-lab/VLM-R1, R1-V and open-r1-multimodal switch a model's
# checkpointing on, and the argument off so that the Trainer doesn't do it again.
_BY_HAND = {"gradient_checkpointing": "gradient_checkpointing_enable"}


def _done_by_hand(function: ast.AST) -> Iterator[ast.expr]:
    """Values of assignments that switch a key off, in a function that calls the method of `_BY_HAND`."""
    nodes = list(ast.walk(function))
    called = {one.func.attr for one in nodes if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)}
    for one in nodes:
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant) and one.value.value is False:
            names = (target.attr for target in one.targets if isinstance(target, ast.Attribute))
            if any(_BY_HAND.get(name) in called for name in names):
                yield one.value


def _below(node: ast.AST, path: str, tests: tuple[ast.expr, ...]) -> Iterator[tuple[str, Assignment]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Assign) and len(child.targets) == 1:
            yield from _assigned(child.targets[0], child.value, path, tests)
        elif isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            decides = (child.test,) if isinstance(child, (ast.If, ast.While)) else ()
            own = (ast.Constant(True),) if isinstance(child, (ast.For, ast.ExceptHandler, ast.match_case)) else ()
            yield from _below(child, path, (*tests, *decides, *own))


def _assigned(
    target: ast.expr, value: ast.expr, path: str, tests: tuple[ast.expr, ...]
) -> Iterator[tuple[str, Assignment]]:
    is_part = isinstance(target, ast.Subscript)
    target = target.value if isinstance(target, ast.Subscript) else target
    if not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Name):
        return
    if not target.value.id.lower().endswith(("args", "arguments")):
        return
    is_itself = any(_names(node, target.attr) for node in ast.walk(value))
    if is_itself and not any(isinstance(node, ast.BinOp) for node in ast.walk(value)):
        return
    where_unset = any(_names(node, target.attr) for test in tests for node in ast.walk(test))
    where_unset = where_unset and not is_part
    yield target.attr, Assignment(value, f"{path}:{target.lineno}", where_unset, bool(tests) or is_part, is_part)


def _names(node: ast.AST, attribute: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == attribute
