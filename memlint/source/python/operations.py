"""Operators, comparisons and methods on known values. A result that would be large, slow or an error is unknown."""

from __future__ import annotations

import ast
import operator
import posixpath
from collections.abc import Callable, Sequence
from typing import Any

from memlint.source.python.limits import MAX_ITEMS
from memlint.source.python.values import (
    Class,
    External,
    Instance,
    Items,
    Known,
    Made,
    PythonFunction,
    Table,
    Undetermined,
    Value,
    plain,
)

MAX_TEXT = 10_000
_MOST_WORK = 1_000_000  # characters that a replacement may produce
MAX_NUMBER = 2**128

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, other: one in other,
    ast.NotIn: lambda one, other: one not in other,
}
_TEXT_METHODS = frozenset(
    {
        *("format", "strip", "lstrip", "rstrip", "lower", "upper", "replace", "startswith", "endswith", "title"),
        *("removeprefix", "removesuffix", "capitalize", "isdigit", "rpartition", "partition"),
    }
)


def binary(kind: ast.operator, left: Value, right: Value) -> Value:
    """`left <op> right`."""
    if isinstance(left, Items) and isinstance(right, Items) and isinstance(kind, ast.Add):
        both = [*left.values[:MAX_ITEMS], *right.values[:MAX_ITEMS]]
        is_cut = len(left.values) > MAX_ITEMS or len(right.values) > MAX_ITEMS
        return Items(both, left.source, left.is_open or right.is_open or is_cut)
    if isinstance(left, Table) and isinstance(right, Table) and isinstance(kind, ast.BitOr):
        return Table({**left.values, **right.values}, left.source, left.is_open or right.is_open)
    if not isinstance(left, Known) or not isinstance(right, Known):
        return _with_tail(kind, left, right)
    if isinstance(kind, ast.Div) and isinstance(left.value, str) and isinstance(right.value, str):
        return Known(posixpath.join(left.value, right.value))  # pathlib's `/`
    if isinstance(kind, ast.Pow):
        return _power(left.value, right.value)
    function = _BINARY.get(type(kind))
    if function is None or _is_too_large(kind, left.value, right.value):
        return Undetermined("an operation that memlint does not follow")
    try:
        return Known(function(left.value, right.value))
    except (TypeError, ValueError, ZeroDivisionError, OverflowError, KeyError):
        return Undetermined("an operation that raises an error")


def _power(base: Any, exponent: Any) -> Value:
    is_small = isinstance(base, (int, float)) and isinstance(exponent, (int, float)) and abs(exponent) <= 64
    if not is_small or abs(base) > 1024 or (base == 0 and exponent < 0):
        return Undetermined("an operation that memlint does not follow")
    result = base**exponent
    return Undetermined("an operation that memlint does not follow") if isinstance(result, complex) else Known(result)


def _is_too_large(kind: ast.operator, left: Any, right: Any) -> bool:
    if isinstance(kind, ast.Mult) and isinstance(left, (str, bytes)) != isinstance(right, (str, bytes)):
        text, times = (left, right) if isinstance(left, (str, bytes)) else (right, left)
        return not isinstance(times, int) or len(text) * max(0, times) > MAX_TEXT
    if isinstance(kind, ast.Add) and isinstance(left, (str, bytes)) and isinstance(right, (str, bytes)):
        return len(left) + len(right) > MAX_TEXT
    if isinstance(kind, ast.Mod) and isinstance(left, (str, bytes)):
        return True  # the width in a % format could be huge
    return any(isinstance(one, int) and abs(one) > MAX_NUMBER for one in (left, right))


def _with_tail(kind: ast.operator, left: Value, right: Value) -> Value:
    """The result of an operation with an unknown operand; for a text or path, with its known end."""
    found = _first_unknown(left, right)
    if not isinstance(kind, (ast.Add, ast.Div)) or not isinstance(found, Undetermined):
        return found
    parts = (left, Known("/" if isinstance(kind, ast.Div) else ""), right)
    return found._replace(tail=text_tail(parts), parts=parts)


def text_tail(parts: Sequence[Value]) -> str:
    """The known end of a text made of `parts`: those after the last unknown one."""
    tail = ""
    for part in reversed(parts):
        if not isinstance(part, Known):
            return (part.tail if isinstance(part, Undetermined) else "") + tail
        tail = f"{part.value}{tail}"[-MAX_TEXT:]
    return tail


def _first_unknown(*values: Value) -> Value:
    found = next((value for value in values if isinstance(value, Undetermined)), None)
    return found or Undetermined("computed from what memlint does not know")


def negative(kind: ast.unaryop, value: Value) -> Value:
    """`-value`, `+value`, `~value`; `not` is the interpreter's."""
    if not isinstance(value, Known) or not isinstance(value.value, (int, float)):
        return _first_unknown(value)
    if isinstance(kind, ast.USub):
        return Known(-value.value, value.source)
    return value if isinstance(kind, ast.UAdd) else Undetermined("an operation that memlint does not follow")


def truth(value: Value) -> bool | None:
    """The truth value of `value`; None if it is unknown."""
    if isinstance(value, Known):
        return bool(value.value)
    if isinstance(value, (Items, Table)):
        return True if value.values else None if value.is_open else False
    return True if _is_object(value) else None


def _is_object(value: Value) -> bool:
    """Whether `value` is certainly an object, neither None nor a plain value: a class, or an instance of one.

    The result of a library's function, or an attribute of it, may be anything.
    """
    if isinstance(value, External):
        return "()" not in value.name
    if isinstance(value, Made):
        return value.last[:1].isupper() or value.last == "from_pretrained"
    return isinstance(value, (Items, Table, PythonFunction, Class, Instance))


def compare(kind: ast.cmpop, left: Value, right: Value) -> bool | None:
    """`left <op> right`; None if the result is unknown."""
    if isinstance(kind, (ast.Is, ast.IsNot)):
        return _is_none(kind, left, right)
    try:
        one, other = plain(left), plain(right)
    except ValueError:
        answers = (one(kind, left, right) for one in (_beside_least, _beside_dtype, _contains))
        return next((one for one in answers if one is not None), None)
    try:
        return bool(_COMPARISONS[type(kind)](one, other))
    except TypeError:
        return None


# What follows for `left <op> right` from the least that `left` may be: the comparison that decides, and its answer.
_FROM_LEAST: dict[type[ast.cmpop], tuple[Callable[[Any, Any], Any], bool]] = {
    ast.GtE: (operator.ge, True),
    ast.Gt: (operator.gt, True),
    ast.Lt: (operator.ge, False),
    ast.LtE: (operator.gt, False),
    ast.Eq: (operator.gt, False),
    ast.NotEq: (operator.gt, True),
}
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.LtE: ast.GtE,
    ast.Lt: ast.Gt,
    ast.GtE: ast.LtE,
    ast.Gt: ast.Lt,
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
}


def _beside_least(kind: ast.cmpop, left: Value, right: Value) -> bool | None:
    """The comparison of a number, or of several, of which the least is known, with what is known."""
    if isinstance(left, Known) and type(kind) in _MIRRORED:
        kind, left, right = _MIRRORED[type(kind)](), right, left
    if type(kind) not in _FROM_LEAST:
        return None
    decides, answer = _FROM_LEAST[type(kind)]
    try:
        return answer if decides(_each(left, _least), _each(right, _known)) else None
    except (TypeError, ValueError):
        return None


# Data types of torch, by the names that they have there.
_DTYPES = {f"torch.{name}": name for name in ("bfloat16", "float16", "float32", "float64", "uint8", "int8")}
_DTYPES |= {"torch.half": "float16", "torch.float": "float32", "torch.double": "float64"}


def _beside_dtype(kind: ast.cmpop, left: Value, right: Value) -> bool | None:
    """A data type of torch beside another, or beside what is none: `dtype == "auto"`."""
    if not isinstance(kind, (ast.Eq, ast.NotEq)):
        return None
    one, other = (_DTYPES.get(side.name) if isinstance(side, External) else None for side in (left, right))
    if one is None and other is None:
        return None
    if (one is None and not isinstance(left, Known)) or (other is None and not isinstance(right, Known)):
        return None
    return (one == other) == isinstance(kind, ast.Eq)


def _each(value: Value, read: Callable[[Value], Any]) -> Any:
    """`read` of a value, or of each item of a list or tuple. No deeper: a list may hold a list twice, and so on."""
    return [read(item) for item in value.values] if isinstance(value, Items) and not value.is_open else read(value)


def _known(value: Value) -> Any:
    """Raises ValueError where it is not known, or is no single value."""
    if not isinstance(value, Known):
        raise ValueError("not known")
    return value.value


def _least(value: Value) -> Any:
    """The least that a number may be. Raises ValueError where it is not known."""
    found = value.value if isinstance(value, Known) else value.least if isinstance(value, Undetermined) else None
    if not isinstance(found, (int, float)):
        raise ValueError("no number")
    return found


def _is_none(kind: ast.cmpop, left: Value, right: Value) -> bool | None:
    """`is` with None, True or False."""
    if not isinstance(right, Known) or not (isinstance(left, Known) or _is_object(left)):
        return None
    same = isinstance(left, Known) and left.value is right.value
    return same if isinstance(kind, ast.Is) else not same


def _contains(kind: ast.cmpop, left: Value, right: Value) -> bool | None:
    """`key in table` and the like; None if the result is unknown. For a table, only its keys must be known."""
    if isinstance(kind, (ast.In, ast.NotIn)) and isinstance(left, Known) and isinstance(right, Table):
        if left.value in right.values:
            return isinstance(kind, ast.In)
        return None if right.is_open else isinstance(kind, ast.NotIn)
    return None


def _joined_text(between: str, items: Items) -> Value:
    """`between.join(items)`."""
    values = [*items.values, *([Undetermined("further items of a list")] if items.is_open else [])]
    texts = [item.value for item in values if isinstance(item, Known) and isinstance(item.value, str)]
    if len(texts) == len(values):
        return Known(between.join(texts)[:MAX_TEXT])
    parts = [part for item in values for part in (Known(between), item)]
    return Undetermined("a text of unknown parts", parts=tuple(parts[1:]))


def text_method(text: str, name: str, arguments: list[Value], named: dict[str, Value]) -> Value:
    """A method of a string."""
    if name == "join" and len(arguments) == 1 and isinstance(arguments[0], Items):
        return _joined_text(text, arguments[0])
    try:
        values = [plain(item) for item in arguments]
        keywords = {key: plain(item) for key, item in named.items()}
    except ValueError:
        return Undetermined("a text of unknown parts")
    if name in ("split", "rsplit", "splitlines"):
        return _parts(getattr(text, name), values)
    if (
        name in ("replace", "format")
        and len(text) * sum(len(one) for one in values if isinstance(one, str)) > _MOST_WORK
    ):
        return Undetermined("a very long text")
    if name not in _TEXT_METHODS or (name == "format" and ":" in text):
        return Undetermined(f"`.{name}()` of a text")
    try:
        result = getattr(text, name)(*values, **keywords)
    except (TypeError, ValueError, IndexError, KeyError, AttributeError):
        return Undetermined(f"`.{name}()` of a text")
    if isinstance(result, tuple):
        return _items(result)
    return Known(result[:MAX_TEXT] if isinstance(result, str) else result)


def _parts(method: Callable[..., list[str]], values: list[Any]) -> Value:
    try:
        return _items(method(*values))
    except (TypeError, ValueError):
        return Undetermined("a text of unknown parts")


def _items(texts: list[str] | tuple[str, ...]) -> Items:
    return Items([Known(text) for text in texts])
