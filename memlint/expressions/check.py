"""Checks a syntax tree (known names, known functions, matching types) and makes its form.

The checked form is made of nested lists and plain values, so that a snapshot can store it as JSON:
`[">", ["field", "sequence.length"], ["value", 4096]]`. Any syntax that is not listed here is refused,
so that an expression cannot reach an attribute, call or object of Python.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any, Protocol

from memlint._record import NamedTuple
from memlint.expressions import kinds as types
from memlint.expressions.bounded_regex import UnsafePattern, compile_pattern
from memlint.expressions.conjunction import conjunction
from memlint.expressions.functions import FUNCTIONS, Function
from memlint.expressions.kinds import BOOL, NUMERIC, Type
from memlint.expressions.parse import MAX_INTEGER, ExpressionError, span
from memlint.formats.schema.suggest import nearest

Form = list[Any]
Name = tuple[str, ...]


class VocabularyEntry(NamedTuple):
    """The meaning of a dotted name: its type, and the form that reads it."""

    type: Type
    form: Form


class Names(Protocol):
    """The names that an expression may use."""

    def lookup(self, name: Name) -> VocabularyEntry | None:
        """The entry of a dotted name, or None."""

    def suggest(self, name: Name) -> str:
        """The known name nearest to a misspelt one, or ""."""


class Checked(NamedTuple):
    """A checked expression: its form and its type."""

    form: Form
    type: Type


CONSTANTS: dict[str, Checked] = {
    "true": Checked(["value", True], types.BOOL),
    "false": Checked(["value", False], types.BOOL),
    "null": Checked(["value", None], types.NULL),
    "KiB": Checked(["value", 2**10], types.INT),
    "MiB": Checked(["value", 2**20], types.INT),
    "GiB": Checked(["value", 2**30], types.INT),
}
_ARITHMETIC = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"}
_ORDER = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_EQUALITY = {ast.Eq: "==", ast.NotEq: "!=", ast.Is: "==", ast.IsNot: "!="}
_MEMBERSHIP = {ast.In: "in", ast.NotIn: "not in"}


def check(text: str, tree: ast.expr, names: Names) -> Checked:
    """Checks `tree`, the syntax tree of `text`. Raises `ExpressionError`."""
    return _Checker(text, names).visit(tree)


class _Checker:
    """Checks nodes recursively. `local`: the variable of the loop that is being checked, with its type."""

    def __init__(self, text: str, names: Names) -> None:
        self.text = text
        self.names = names
        self.local: dict[str, Type] = {}

    def error(self, node: ast.expr, message: str) -> ExpressionError:
        return ExpressionError(message, *span(self.text, node))

    def visit(self, node: ast.expr) -> Checked:
        visit = _VISITS.get(type(node))
        if visit is None:
            raise self.error(node, f"{_REFUSED.get(type(node), 'this syntax')} is not part of the rule language")
        return visit(self, node)

    def need(self, node: ast.expr, kinds: types.Kinds, what: str) -> Checked:
        checked = self.visit(node)
        if not checked.type.kinds & kinds:
            raise self.error(node, f"{what} needs {types.text(kinds)}, this is {types.text(checked.type.kinds)}")
        return checked


def _constant(checker: _Checker, node: ast.Constant) -> Checked:
    value = node.value
    if value is None:
        return CONSTANTS["null"]
    if isinstance(value, bool):
        return CONSTANTS["true" if value else "false"]
    if isinstance(value, str):
        return Checked(["value", value], types.of("str", (value,)))
    if isinstance(value, int) and value <= MAX_INTEGER:
        return Checked(["value", value], types.INT)
    if isinstance(value, float) and math.isfinite(value):
        return Checked(["value", value], types.of("float"))
    raise checker.error(node, "only finite numbers, texts, true, false and null can be written here")


def _name(checker: _Checker, node: ast.Name) -> Checked:
    if node.id in checker.local:
        return Checked(["local", node.id], checker.local[node.id])
    return CONSTANTS.get(node.id) or _path(checker, node)


def _path(checker: _Checker, node: ast.expr) -> Checked:
    entry = _entry(checker, node)
    return Checked(entry.form, entry.type)


def _entry(checker: _Checker, node: ast.expr) -> VocabularyEntry:
    name = _dotted(checker, node)
    entry = checker.names.lookup(name)
    if entry is not None:
        return entry
    suggestion = checker.names.suggest(name)
    hint = f", did you mean `{suggestion}`?" if suggestion else ""
    raise checker.error(node, f"unknown name `{'.'.join(name)}`{hint}")


def _dotted(checker: _Checker, node: ast.expr) -> Name:
    parts: list[str] = []
    here = node
    while not isinstance(here, ast.Name):
        if isinstance(here, ast.Attribute):
            parts.append(here.attr)
            here = here.value
        elif isinstance(here, ast.Subscript) and isinstance(here.slice, ast.Constant):
            parts.append(_subscript(checker, here.slice))
            here = here.value
        else:
            raise checker.error(node, "only a dotted name such as `config.stage` can be read")
    return (here.id, *reversed(parts))


def _subscript(checker: _Checker, node: ast.Constant) -> str:
    if not isinstance(node.value, str):
        raise checker.error(node, 'a key in brackets is a text: config["a-key"]')
    return node.value


def _bool_operation(checker: _Checker, node: ast.BoolOp) -> Checked:
    word = "and" if isinstance(node.op, ast.And) else "or"
    forms = [checker.need(value, BOOL.kinds, f"`{word}`").form for value in node.values]
    return Checked(conjunction(*forms) if word == "and" else ["or", *forms], BOOL)


def _unary(checker: _Checker, node: ast.UnaryOp) -> Checked:
    if isinstance(node.op, ast.Not):
        return Checked(["not", checker.need(node.operand, BOOL.kinds, "`not`").form], BOOL)
    if isinstance(node.op, ast.USub):
        operand = checker.need(node.operand, NUMERIC, "`-`")
        if operand.form[0] == "value":
            return Checked(["value", -operand.form[1]], operand.type)
        return Checked(["negative", operand.form], Type(operand.type.kinds & NUMERIC))
    raise checker.error(node, "only `not` and `-` can stand before a value")


def _binary(checker: _Checker, node: ast.BinOp) -> Checked:
    sign = _ARITHMETIC.get(type(node.op))
    if sign is None:
        raise checker.error(node, "only + - * / // % are part of the rule language")
    left = checker.need(node.left, NUMERIC, f"`{sign}`")
    right = checker.need(node.right, NUMERIC, f"`{sign}`")
    both_int = (left.type.kinds | right.type.kinds) & NUMERIC == types.INT.kinds
    return Checked([sign, left.form, right.form], types.INT if both_int and sign != "/" else types.NUMBER)


def _compare(checker: _Checker, node: ast.Compare) -> Checked:
    operands = [node.left, *node.comparators]
    checked = [checker.visit(operand) for operand in operands]
    form: Form = []
    for index, operator in enumerate(node.ops):
        pair = _pair(checker, operator, operands[index : index + 2], checked[index : index + 2])
        form.append(pair)
    return Checked(form[0] if len(form) == 1 else conjunction(*form), BOOL)


def _pair(checker: _Checker, operator: ast.cmpop, nodes: list[ast.expr], sides: list[Checked]) -> Form:
    kind = type(operator)
    if kind in _MEMBERSHIP:
        return _membership(checker, _MEMBERSHIP[kind], nodes, sides)
    versions = [side.type.kinds == types.VERSION.kinds for side in sides]
    if any(versions):
        return _version_pair(checker, {**_ORDER, **_EQUALITY}[kind], nodes, sides, versions)
    if kind in _ORDER:
        for node, side in zip(nodes, sides):
            if not side.type.kinds & NUMERIC:
                raise checker.error(node, f"`{_ORDER[kind]}` needs numbers, this is {types.text(side.type.kinds)}")
        return [_ORDER[kind], sides[0].form, sides[1].form]
    if kind in (ast.Is, ast.IsNot) and ["value", None] not in (sides[0].form, sides[1].form):
        raise checker.error(nodes[1], "`is` compares with null only, write ==")
    _check_equality(checker, nodes, sides)
    return [_EQUALITY[kind], sides[0].form, sides[1].form]


def _check_equality(checker: _Checker, nodes: list[ast.expr], sides: list[Checked]) -> None:
    left, right = sides[0].type, sides[1].type
    if not types.comparable(left.kinds, right.kinds):
        raise checker.error(nodes[1], f"{types.text(left.kinds)} is never equal to {types.text(right.kinds)}")
    for node, one, other in ((nodes[1], right, sides[0]), (nodes[0], left, sides[1])):
        if one.kinds == types.STR.kinds and len(one.choices) == 1:
            _check_choice(checker, node, one.choices[0], other)


def _check_choice(checker: _Checker, node: ast.expr, word: str, other: Checked) -> None:
    choices = other.type.choices
    if not choices or word in choices or other.form[0] == "value":
        return
    close = nearest(word, choices)
    hint = f"did you mean {close!r}?" if close else f"it is one of {', '.join(choices)}"
    raise checker.error(node, f"{word!r} is not a value it can have, {hint}")


def _membership(checker: _Checker, word: str, nodes: list[ast.expr], sides: list[Checked]) -> Form:
    item, whole = sides
    if "list" not in whole.type.kinds:
        raise checker.error(nodes[1], f"`{word}` needs a list, this is {types.text(whole.type.kinds)}")
    if whole.type.items is not None and not types.comparable(item.type.kinds, whole.type.items):
        raise checker.error(
            nodes[0], f"{types.text(item.type.kinds)} is never in a list of {types.text(whole.type.items)}"
        )
    if isinstance(nodes[1], (ast.List, ast.Tuple)):
        for node in nodes[1].elts:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                _check_choice(checker, node, node.value, item)
    form: Form = ["in", item.form, whole.form]
    return ["not", form] if word == "not in" else form


def _version_pair(
    checker: _Checker, sign: str, nodes: list[ast.expr], sides: list[Checked], versions: list[bool]
) -> Form:
    forms = [
        side.form if version else ["version", _version_literal(checker, node)]
        for node, side, version in zip(nodes, sides, versions)
    ]
    return ["version_order", sign, *forms]


def _version_literal(checker: _Checker, node: ast.expr) -> list[int]:
    value = node.value if isinstance(node, ast.Constant) else None
    if (
        isinstance(value, str)
        and 0 < len(value) < 30
        and all(part.isdecimal() and part.isascii() for part in value.split("."))
    ):
        return [int(part) for part in value.split(".")]
    raise checker.error(node, 'a version is compared with a text such as "4.57"')


def _conditional(checker: _Checker, node: ast.IfExp) -> Checked:
    condition = checker.need(node.test, BOOL.kinds, "`if`")
    then, otherwise = checker.visit(node.body), checker.visit(node.orelse)
    return Checked(["if", condition.form, then.form, otherwise.form], types.union(then.type, otherwise.type))


def _list(checker: _Checker, node: ast.List | ast.Tuple) -> Checked:
    checked = [checker.visit(item) for item in node.elts]
    kinds = frozenset[str]().union(*(item.type.kinds for item in checked))
    return Checked(["list", *(item.form for item in checked)], types.list_of(kinds or types.ALL))


def _call(checker: _Checker, node: ast.Call) -> Checked:
    if not isinstance(node.func, ast.Name):
        raise checker.error(node.func, 'a function is called by its name: startswith(x, "a")')
    name = node.func.id
    if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
        raise checker.error(node, f"{name}() takes plain arguments only")
    if name in _SPECIAL:
        return _SPECIAL[name](checker, node)
    if name not in FUNCTIONS:
        close = nearest(name, [*FUNCTIONS, *_SPECIAL])
        hint = f", did you mean `{close}`?" if close else ""
        raise checker.error(node.func, f"unknown function `{name}`{hint}")
    return _plain_call(checker, node, name, FUNCTIONS[name])


def _plain_call(checker: _Checker, node: ast.Call, name: str, function: Function) -> Checked:
    most, least = len(function.parameters), len(function.parameters) - function.optional
    if not least <= len(node.args) <= (100 if function.variadic else most):
        raise checker.error(node, f"{name}() takes {least if least == most else f'{least} to {most}'} argument(s)")
    kinds = [function.parameters[min(index, most - 1)] for index in range(len(node.args))]
    forms = [checker.need(argument, kind, f"{name}()").form for argument, kind in zip(node.args, kinds)]
    return Checked(["call", name, *forms], function.result)


def _one_argument(checker: _Checker, node: ast.Call, count: int = 1) -> list[ast.expr]:
    if len(node.args) != count:
        name = node.func.id if isinstance(node.func, ast.Name) else "this"
        raise checker.error(node, f"{name}() takes {count} argument(s)")
    return node.args


def _presence(word: str) -> Callable[[_Checker, ast.Call], Checked]:
    """`has`, `given`, `enabled`: tests of a name that are never UNKNOWN."""

    def visit(checker: _Checker, node: ast.Call) -> Checked:
        (argument,) = _one_argument(checker, node)
        return Checked([word, _entry(checker, argument).form], BOOL)

    return visit


def _known(checker: _Checker, node: ast.Call) -> Checked:
    (argument,) = _one_argument(checker, node)
    return Checked(["known", checker.visit(argument).form], BOOL)


def _truthy(checker: _Checker, node: ast.Call) -> Checked:
    """`truthy(name)`: Python's truth value; UNKNOWN if the value is."""
    (argument,) = _one_argument(checker, node)
    return Checked(["truthy", _entry(checker, argument).form], BOOL)


def _truthy_keys(checker: _Checker, node: ast.Call) -> Checked:
    """`truthy_keys(a, b)`: the last names of those keys that are true."""
    forms = [_entry(checker, argument).form for argument in node.args]
    for argument, form in zip(node.args, forms):
        if form[0] != "raw":
            raise checker.error(argument, "truthy_keys() takes keys of a file: truthy_keys(config.bf16, config.fp16)")
    return Checked(["truthy_keys", *forms], types.list_of(types.STR.kinds))


def _default(checker: _Checker, node: ast.Call) -> Checked:
    argument, fallback = _one_argument(checker, node, 2)
    entry, value = _entry(checker, argument), checker.visit(fallback)
    kept = entry.type._replace(kinds=entry.type.kinds - types.NULL.kinds)
    if kept.choices and len(value.type.choices) == 1 and value.type.choices[0] not in kept.choices:
        kept = kept._replace(choices=(*kept.choices, *value.type.choices))
    return Checked(["default", entry.form, value.form], types.union(kept, value.type) if kept.kinds else value.type)


def _origin(checker: _Checker, node: ast.Call) -> Checked:
    (argument,) = _one_argument(checker, node)
    name = argument.value if isinstance(argument, ast.Constant) else ".".join(_dotted(checker, argument))
    entry = checker.names.lookup(tuple(str(name).split(".")))
    if entry is None or entry.form[0] != "field":
        raise checker.error(argument, 'origin() takes a field of the run: origin("batch.micro_batch_size")')
    return Checked(["origin", entry.form[1]], types.of("str", ORIGINS))


def _version(checker: _Checker, node: ast.Call) -> Checked:
    (argument,) = _one_argument(checker, node)
    name = argument.value if isinstance(argument, ast.Constant) else None
    if not isinstance(name, str) or name not in PACKAGES:
        close = nearest(str(name), PACKAGES)
        hint = f", did you mean {close!r}?" if close else f": one of {', '.join(PACKAGES)}"
        raise checker.error(argument, f"version() takes the name of a package{hint}")
    return Checked(["package_version", name], types.VERSION)


def _matches(checker: _Checker, node: ast.Call) -> Checked:
    argument, pattern = _one_argument(checker, node, 2)
    text = checker.need(argument, types.STR.kinds, "matches()")
    if not isinstance(pattern, ast.Constant) or not isinstance(pattern.value, str):
        raise checker.error(pattern, "the pattern must be written out as a text")
    try:
        compile_pattern(pattern.value)
    except UnsafePattern as error:
        raise checker.error(pattern, f"the pattern {error}") from None
    return Checked(["matches", text.form, pattern.value], BOOL)


def _quantifier(word: str) -> Callable[[_Checker, ast.Call], Checked]:
    """`any(test(x) for x in list)`, or `any(list)` of booleans."""

    def visit(checker: _Checker, node: ast.Call) -> Checked:
        (argument,) = _one_argument(checker, node)
        if not isinstance(argument, ast.GeneratorExp):
            return Checked([word, checker.need(argument, frozenset({"list"}), f"{word}()").form], BOOL)
        return Checked([word + "_of", *_loop(checker, argument)], BOOL)

    return visit


def _loop(checker: _Checker, node: ast.GeneratorExp) -> Form:
    loop = node.generators[0]
    if len(node.generators) != 1 or loop.ifs or loop.is_async or not isinstance(loop.target, ast.Name):
        raise checker.error(node, "a loop is written as any(test(x) for x in list), without `if`")
    if checker.local:
        raise checker.error(node, "a loop cannot stand inside another")
    values = checker.need(loop.iter, frozenset({"list"}), "`for`")
    name = loop.target.id
    if name in CONSTANTS or checker.names.lookup((name,)):
        raise checker.error(loop.target, f"`{name}` already stands for something else")
    checker.local = {name: Type(values.type.items or types.ALL)}
    body = checker.need(node.elt, BOOL.kinds, "the test of a loop")
    checker.local = {}
    return [name, values.form, body.form]


ORIGINS = (
    *("file", "companion", "default", "directive", "setting", "command_line", "catalog", "inferred"),
    *("framework", "unknown"),
)
PACKAGES = (
    *("transformers", "torch", "deepspeed", "peft", "trl", "accelerate"),
    *("llamafactory", "axolotl", "torchtune", "oumi", "autotrain", "unsloth", "megatron", "swift", "nemo"),
    *("verl", "openrlhf"),
)
_SPECIAL: dict[str, Callable[[_Checker, ast.Call], Checked]] = {
    "has": _presence("has"),
    "given": _presence("given"),
    "enabled": _presence("enabled"),
    "truthy": _truthy,
    "truthy_keys": _truthy_keys,
    "known": _known,
    "default": _default,
    "origin": _origin,
    "version": _version,
    "matches": _matches,
    "any": _quantifier("any"),
    "all": _quantifier("all"),
}
_VISITS: dict[type[ast.expr], Callable[[_Checker, Any], Checked]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _path,
    ast.Subscript: _path,
    ast.BoolOp: _bool_operation,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.Compare: _compare,
    ast.IfExp: _conditional,
    ast.List: _list,
    ast.Tuple: _list,
    ast.Call: _call,
}
_REFUSED: dict[type[ast.expr], str] = {
    ast.Lambda: "lambda",
    ast.Dict: "a mapping",
    ast.Set: "a set",
    ast.ListComp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.GeneratorExp: "a loop outside any() and all()",
    ast.Await: "await",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
    ast.JoinedStr: "an f-string",
    ast.NamedExpr: ":=",
    ast.Starred: "*",
    ast.Slice: "a slice",
}
