"""Values of expressions."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any

from memlint.source.python import operations
from memlint.source.python.calls import apply, call
from memlint.source.python.classes import is_module, was_read
from memlint.source.python.limits import MAX_ITEMS
from memlint.source.python.members import (
    attribute,
    elements,
    has_decorator,
    item,
    merge,
    parameters_in,
    part_of,
    set_attribute,
)
from memlint.source.python.reader import UNKNOWN_ROUNDS, Call, Frame, Reader, constant
from memlint.source.python.values import (
    Either,
    External,
    Items,
    Known,
    Made,
    PythonFunction,
    Scope,
    Table,
    Undetermined,
    Value,
    ValueSource,
    alternatives,
    either,
    source_of,
)

_PROPERTIES = ("property", "cached_property")
CUT = "slice()"  # the name of the object that is observed when an unknown value is sliced: `ids[:max_length]`


def evaluate(reader: Reader, node: ast.expr, frame: Frame) -> Value:
    """The value of `node`. Raises StopReading."""
    reader.budget.spend()
    function = _BY_TYPE.get(type(node))
    if function is None:
        return Undetermined(f"`{type(node).__name__}` is not followed", _source(node, frame))
    return function(reader, node, frame)


def _source(node: ast.AST, frame: Frame, how: str = "computed") -> ValueSource:
    return ValueSource(frame.module.path, frame.module.span(node), how)


def _constant(reader: Reader, node: ast.Constant, frame: Frame) -> Value:
    if node.value is Ellipsis or isinstance(node.value, complex):
        return Undetermined("not a plain value", _source(node, frame))
    return constant(frame.module, node, node.value)


def _name(reader: Reader, node: ast.Name, frame: Frame) -> Value:
    found = frame.scope.find(node.id)
    return External(node.id) if found is None else found


def _attribute(reader: Reader, node: ast.Attribute, frame: Frame) -> Value:
    owner = evaluate(reader, node.value, frame)
    found = attribute(owner, node.attr)
    if isinstance(found, PythonFunction) and any(has_decorator(found.node, name) for name in _PROPERTIES):
        return apply(reader, found, Call("", (), {}, _source(node, frame)))
    if isinstance(found, External):
        return reader.constants.get(found.name, found)
    if isinstance(found, Undetermined) and not found.source.path:
        return found._replace(source=_source(node, frame))
    return found


def _subscript(reader: Reader, node: ast.Subscript, frame: Frame) -> Value:
    owner = evaluate(reader, node.value, frame)
    if isinstance(node.slice, ast.Slice):
        return _slice(reader, owner, node.slice, node.value, frame)
    if isinstance(node.slice, ast.Tuple) and any(isinstance(one, ast.Slice) for one in node.slice.elts):
        return _cut_tensor(reader, owner, node.slice, node.value, frame)
    key = evaluate(reader, node.slice, frame)
    found = _environment_variable(reader, owner, key) or item(owner, key)
    if isinstance(found, Undetermined) and not found.source.path:
        return found._replace(source=_source(node, frame))
    return found


def _environment_variable(reader: Reader, owner: Value, key: Value) -> Value | None:
    """`os.environ["WORLD_SIZE"]`, where the command or its launcher sets it."""
    if not isinstance(owner, External) or owner.name != "os.environ" or not isinstance(key, Known):
        return None
    return reader.command.environment.get(str(key.value))


def _slice(reader: Reader, owner: Value, node: ast.Slice, of: ast.expr, frame: Frame) -> Value:
    edges = [evaluate(reader, edge, frame) if edge else Known(None) for edge in (node.lower, node.upper, node.step)]
    numbers = [edge.value for edge in edges if isinstance(edge, Known) and isinstance(edge.value, (int, type(None)))]
    is_known = len(numbers) == 3 and numbers[2] != 0
    if is_known and isinstance(owner, Items) and not owner.is_open:
        return Items(owner.values[slice(*numbers)], owner.source)
    if is_known and isinstance(owner, Known) and isinstance(owner.value, str):
        return Known(owner.value[slice(*numbers)])
    length = _cut_to(reader, node, edges, frame)
    if length is not None:
        cut = {"length": length, "of": Known(" ".join(_words(of))), "bound": Known(_bound_name(node, frame))}
        reader.observe(Made(CUT, (), cut, _source(node, frame)))
    elif not is_known:
        return Undetermined("a part of unknown length")
    if is_known and isinstance(owner, External) and owner.of is not None and numbers[2] is None:
        first, last = ("" if one is None else one for one in numbers[:2])
        return owner._replace(name=f"{owner.name}[{first}:{last}]")
    return owner if isinstance(owner, (Undetermined, External, Made)) else Undetermined("a part of something unknown")


def _cut_to(reader: Reader, node: ast.Slice, edges: list[Value], frame: Frame) -> Value | None:
    """How many items a slice keeps at most: n of `[:n]`, `[-n:]` and `[i : i + n]`; None where it does not say."""
    lower, upper = edges[:2]
    end = _end_of_inputs(node, frame)
    if node.upper is not None and (node.lower is None or lower == Known(0)):
        return upper if end is node.upper else evaluate(reader, end, frame) if end is not None else None
    if node.upper is None and isinstance(lower, Known) and isinstance(lower.value, int) and lower.value < 0:
        return lower._replace(value=-lower.value)
    adds = node.upper if isinstance(node.upper, ast.BinOp) and isinstance(node.upper.op, ast.Add) else None
    if adds is not None and node.lower is not None and ast.unparse(adds.left) == ast.unparse(node.lower):
        return evaluate(reader, adds.right, frame)
    return None


# A sequence without its last item, or without its first: inputs and targets.
_SHIFTED = re.compile(r"\[(?:\.\.\.,|:,)?\s*:\s*-1\s*\]|\[(?:\.\.\.,|:,)?\s*1\s*:\s*\]")


def _end_of_inputs(node: ast.Slice, frame: Frame) -> ast.expr | None:
    """Where a slice ends: `n` of `[:n]`, and of `[: n + 1]` in code that takes n inputs and their n targets of it. What
    begins elsewhere, as `[at : at + n + 1]`, may hold several sequences."""
    end = node.upper
    is_longer = isinstance(end, ast.BinOp) and isinstance(end.op, ast.Add) and getattr(end.right, "value", None) == 1
    return end.left if is_longer and isinstance(end, ast.BinOp) and _SHIFTED.search(frame.module.text) else end


def _bound_name(node: ast.Slice, frame: Frame) -> str:
    """The name of a slice's length: `block_size` in `[i : i + args.block_size]`."""
    end = _end_of_inputs(node, frame)
    end = end.right if isinstance(end, ast.BinOp) else end
    return end.attr if isinstance(end, ast.Attribute) else end.id if isinstance(end, ast.Name) else ""


def _cut_tensor(reader: Reader, owner: Value, node: ast.Tuple, of: ast.expr, frame: Frame) -> Value:
    """`input_ids[:, :n]` cuts the last dimension."""
    *others, last = node.elts
    if all(isinstance(one, ast.Slice) and one.lower is one.upper is None for one in others):
        return _slice(reader, owner, last, of, frame) if isinstance(last, ast.Slice) else owner
    return Undetermined("a part of a tensor")


def _words(node: ast.expr) -> Iterator[str]:
    """The names and keys in an expression: `batch` and `input_ids` in `batch["input_ids"]`."""
    for one in ast.walk(node):
        if isinstance(one, (ast.Name, ast.Attribute)):
            yield one.id if isinstance(one, ast.Name) else one.attr
        elif isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield one.value


def _binary(reader: Reader, node: ast.BinOp, frame: Frame) -> Value:
    left, right = evaluate(reader, node.left, frame), evaluate(reader, node.right, frame)
    if isinstance(left, Either) or isinstance(right, Either):
        results = [operations.binary(node.op, one, two) for one in alternatives(left) for two in alternatives(right)]
        return either(results[:MAX_ITEMS], "computed from one of several values")
    return placed(operations.binary(node.op, left, right), _source(node, frame))


def placed(value: Value, source: ValueSource) -> Value:
    """`value`, with `source` as its place if it has none of its own."""
    if isinstance(value, (Known, Undetermined)) and value.source.span is None:
        return value._replace(source=source)
    return value


def _unary(reader: Reader, node: ast.UnaryOp, frame: Frame) -> Value:
    value = evaluate(reader, node.operand, frame)
    if isinstance(node.op, ast.Not):
        known = operations.truth(value)
        if known is None:
            return Undetermined("a condition", _source(node, frame))
        return constant(frame.module, node, not known)
    result = operations.negative(node.op, value)
    return result._replace(source=_source(node, frame)) if isinstance(result, Known) else result


def _boolean(reader: Reader, node: ast.BoolOp, frame: Frame) -> Value:
    stops_at = isinstance(node.op, ast.Or)
    found: list[Value] = []
    for part in node.values:
        value = evaluate(reader, part, frame)
        if stops_at and isinstance(value, Undetermined) and value.source.how == "typed" and part is not node.values[-1]:
            continue  # `input("Batch [1]: ") or 1`: pressing Enter gives the default
        known = operations.truth(value)
        if known is stops_at:
            found.append(value)
            break
        if known is None or part is node.values[-1]:
            found.append(value)
    return either(found, "a condition that memlint does not know") if found else Undetermined("a condition")


def _compare(reader: Reader, node: ast.Compare, frame: Frame) -> Value:
    left = evaluate(reader, node.left, frame)
    results: list[bool | None] = []
    for kind, part in zip(node.ops, node.comparators):
        right = evaluate(reader, part, frame)
        results.append(operations.compare(kind, left, right))
        left = right
    if False in results:
        return Known(False, _source(node, frame))
    return Undetermined("a comparison", _source(node, frame)) if None in results else Known(True, _source(node, frame))


def _conditional(reader: Reader, node: ast.IfExp, frame: Frame) -> Value:
    test = evaluate(reader, node.test, frame)
    known = operations.truth(test)
    if known is not None:
        return evaluate(reader, node.body if known else node.orelse, frame)
    both = [evaluate(reader, node.body, frame), evaluate(reader, node.orelse, frame)]
    return either(both, reason_of(test))


def reason_of(test: Value) -> str:
    """Why a condition is unknown."""
    reasons = [one.reason for one in alternatives(test) if isinstance(one, Undetermined)]
    return f"depends on {reasons[0]}" if reasons else "depends on a condition that memlint does not know"


def _text(reader: Reader, node: ast.JoinedStr, frame: Frame) -> Value:
    parts = [evaluate(reader, part, frame) for part in node.values]
    known = [str(part.value) for part in parts if isinstance(part, Known)]
    if len(known) == len(parts):
        return Known("".join(known)[: operations.MAX_TEXT], _source(node, frame))
    unknown = Undetermined("a text with unknown parts", _source(node, frame), operations.text_tail(parts))
    return unknown._replace(parts=tuple(parts))


def _formatted(reader: Reader, node: ast.FormattedValue, frame: Frame) -> Value:
    value = evaluate(reader, node.value, frame)
    return value if node.format_spec is None and node.conversion == -1 else Undetermined("a formatted value")


def _items(reader: Reader, node: ast.List | ast.Tuple | ast.Set, frame: Frame) -> Value:
    values: list[Value] = []
    is_open = False
    for element in node.elts[:MAX_ITEMS]:
        if not isinstance(element, ast.Starred):
            values.append(evaluate(reader, element, frame))
            continue
        inner = evaluate(reader, element.value, frame)
        values += inner.values[:MAX_ITEMS] if isinstance(inner, Items) else []
        is_open = is_open or not isinstance(inner, Items) or inner.is_open or len(inner.values) > MAX_ITEMS
    is_open = is_open or len(node.elts) > MAX_ITEMS
    return reader.made(Items(values, _source(node, frame, "literal"), is_open))  # type: ignore[no-any-return]


def _table(reader: Reader, node: ast.Dict, frame: Frame) -> Value:
    found = reader.made(Table({}, _source(node, frame, "literal")))
    for key, value in zip(node.keys, node.values):
        inner = evaluate(reader, value, frame)
        if key is None:
            merge(found, inner)
            continue
        name = evaluate(reader, key, frame)
        if isinstance(name, Known):
            found.values[name.value] = inner
        else:
            found.is_open = True
    return found  # type: ignore[no-any-return]


def _function(reader: Reader, node: ast.Lambda, frame: Frame) -> Value:
    return PythonFunction(node, frame.module, frame.scope)


def _walrus(reader: Reader, node: ast.NamedExpr, frame: Frame) -> Value:
    value = evaluate(reader, node.value, frame)
    frame.scope.names[node.target.id] = value
    return value


def _awaited(reader: Reader, node: ast.Await, frame: Frame) -> Value:
    return evaluate(reader, node.value, frame)


def _comprehension(reader: Reader, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, frame: Frame) -> Value:
    rounds = _rounds(reader, node.generators, frame)
    if rounds is None:
        iterated = evaluate(reader, node.generators[0].iter, frame)
        _follow_once(reader, node, frame)
        parameters = parameters_in(iterated)
        return Items([parameters] if parameters is not None else [], _source(node, frame), is_open=True)
    return Items(_each(reader, node.elt, rounds), _source(node, frame))


def _each(reader: Reader, element: ast.expr, rounds: list[Frame]) -> list[Value]:
    """The elements of a comprehension. Layers of a model are alike: from the third on, each is the second."""
    values: list[Value] = []
    for inner in rounds:
        is_alike = len(values) > 1 and is_module(values[0]) and is_module(values[-1])
        values.append(values[-1] if is_alike else evaluate(reader, element, inner))
    return values


def _table_comprehension(reader: Reader, node: ast.DictComp, frame: Frame) -> Value:
    rounds = _rounds(reader, node.generators, frame)
    found: dict[Any, Value] = {}
    if rounds is None:
        parameters = parameters_in(evaluate(reader, node.generators[0].iter, frame))
        _follow_once(reader, node, frame)
        return parameters or Table(found, _source(node, frame), is_open=True)
    for inner in rounds:
        key = evaluate(reader, node.key, inner)
        if isinstance(key, Known):
            found[key.value] = evaluate(reader, node.value, inner)
    return Table(found, _source(node, frame))


def _follow_once(
    reader: Reader, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, frame: Frame
) -> None:
    """Follows the element of a comprehension whose rounds are unknown, for what it calls."""
    inner = Frame(frame.module, Scope(frame.scope))
    with reader.doubt(UNKNOWN_ROUNDS):
        for one in node.generators:
            assign(reader, one.target, part_of(evaluate(reader, one.iter, inner)), inner)
        evaluate(reader, node.value if isinstance(node, ast.DictComp) else node.elt, inner)


def _rounds(reader: Reader, generators: list[ast.comprehension], frame: Frame) -> list[Frame] | None:
    """A frame for each iteration of a comprehension with one `for`; None if its elements are unknown."""
    (first, *others) = generators
    values = elements(evaluate(reader, first.iter, frame))
    if others or values is None:
        return None
    rounds = []
    for value in values:
        inner = Frame(frame.module, Scope(frame.scope))
        assign(reader, first.target, value, inner)
        tests = [operations.truth(evaluate(reader, test, inner)) for test in first.ifs]
        if False not in tests:  # unknown counts as true: such tests mostly drop what a library would not accept
            rounds.append(inner)
    return rounds


def assign(reader: Reader, target: ast.expr, value: Value, frame: Frame) -> None:
    """`target = value`."""
    if isinstance(target, ast.Name):
        frame.scope.names[target.id] = value
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(reader, target, value, frame)
    elif isinstance(target, ast.Attribute):
        owner = evaluate(reader, target.value, frame)
        is_inside = isinstance(target.value, ast.Name) and target.value.id == "self"
        if is_inside or not was_read(owner, target.attr):
            set_attribute(reader, owner, target.attr, value)
    elif isinstance(target, ast.Subscript):
        _set_item(reader, target, value, frame)
    elif isinstance(target, ast.Starred):
        assign(reader, target.value, Items([], is_open=True), frame)


def _set_item(reader: Reader, target: ast.Subscript, value: Value, frame: Frame) -> None:
    owner = evaluate(reader, target.value, frame)
    key = Undetermined("a slice") if isinstance(target.slice, ast.Slice) else evaluate(reader, target.slice, frame)
    if isinstance(owner, Table) and isinstance(key, Known):
        reader.set(owner.values, owner, key.value, value)
    elif isinstance(owner, Table) and isinstance(key, Either) and all(isinstance(one, Known) for one in key.values):
        for one in alternatives(key):
            old = owner.values.get(one.value) or Undetermined(key.reason)  # type: ignore[union-attr]
            owner.values[one.value] = either([old, value], key.reason)  # type: ignore[union-attr]
    elif isinstance(owner, (Table, Items)):
        owner.is_open = True


def _unpack(reader: Reader, target: ast.Tuple | ast.List, value: Value, frame: Frame) -> None:
    parts: list[Value]
    if isinstance(value, Items) and not value.is_open and len(value.values) == len(target.elts):
        parts = list(value.values)
    elif isinstance(value, Either):
        places = range(len(target.elts))
        parts = [either([item(one, Known(place)) for one in value.values], value.reason) for place in places]
    else:
        parts = [Undetermined(_of_unknown_parts(value), source_of(value)) for _ in target.elts]
    for element, part in zip(target.elts, parts):
        assign(reader, element, part, frame)


def _of_unknown_parts(value: Value) -> str:
    """The reason why parts of a value are unknown."""
    if isinstance(value, Undetermined):
        return value.reason
    return f"what `{value.last}` returns is not known" if isinstance(value, Made) else "a part of something unknown"


def _call(reader: Reader, node: ast.Call, frame: Frame) -> Value:
    return call(reader, node, frame)


_BY_TYPE: dict[type[ast.expr], Callable[[Reader, Any, Frame], Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.Compare: _compare,
    ast.IfExp: _conditional,
    ast.JoinedStr: _text,
    ast.FormattedValue: _formatted,
    ast.List: _items,
    ast.Tuple: _items,
    ast.Set: _items,
    ast.Dict: _table,
    ast.Lambda: _function,
    ast.NamedExpr: _walrus,
    ast.Await: _awaited,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _table_comprehension,
    ast.Call: _call,
}
