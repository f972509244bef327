"""Abstract Python values: a constant with its place, a container of values, or a reason why it is unknown."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Union

from memlint._record import NamedTuple
from memlint.source.document import Span

if TYPE_CHECKING:
    from memlint.source.python.text import SourceText

MAX_ALTERNATIVES = 8
MAX_PARTS = 4_000  # of one value that is written out or compared
Scalar = Union[str, int, float, bool, None]


class ValueSource(NamedTuple):
    """Where a value is written. `how`: literal, default, option, config, environment, computed."""

    path: str = ""
    span: Span | None = None
    how: str = "computed"


NOWHERE = ValueSource()


class Known(NamedTuple):
    """A scalar."""

    value: Scalar
    source: ValueSource = NOWHERE


class Undetermined(NamedTuple):
    """A value that the script's text does not determine. `reason`: why, shown to the user. `tail`: the end of a text of
    which only the beginning is unknown ("/Qwen2.5-7B" of `f"{root}/Qwen2.5-7B"`). `least`: the number is no smaller.
    `parts`: those of a text that the script puts together, known and unknown ones."""

    reason: str
    source: ValueSource = NOWHERE
    tail: str = ""
    least: int | None = None
    parts: tuple[Value, ...] = ()


class External(NamedTuple):
    """A name from a module outside of the repository: `transformers.TrainingArguments`. `of`: the object of which it is
    a part, for what libraries make: the model, for `model.lm_head` and `model.model.layers[-4:]`."""

    name: str
    of: Made | None = None

    @property
    def last(self) -> str:
        """The last part of the name: `TrainingArguments`."""
        return self.name.rpartition(".")[2]


class Either(NamedTuple):
    """One of several values. Which one it is depends on something that the text does not determine."""

    values: tuple[Value, ...]
    reason: str


class Items:
    """A list, tuple or set. `is_open`: there may be more items than these."""

    __slots__ = ("is_open", "source", "values")

    def __init__(self, values: list[Value], source: ValueSource = NOWHERE, is_open: bool = False) -> None:
        self.values = values
        self.source = source
        self.is_open = is_open


class Table:
    """A dictionary, a namespace or a configuration object: values by name, and by attribute.

    `is_open`: other keys than these may exist, with unknown values. `of`: the class of the repository whose fields it
    has, of a configuration that OmegaConf makes of one.
    """

    __slots__ = ("is_open", "of", "source", "values")

    def __init__(
        self,
        values: dict[Any, Value],
        source: ValueSource = NOWHERE,
        is_open: bool = False,
        of: Class | None = None,
    ) -> None:
        self.values = values
        self.source = source
        self.is_open = is_open
        self.of = of


class Made:
    """The result of calling something outside of the repository: its name, its arguments, attributes set on it later.

    `base`: the object that it was made from, for a method or a wrapper: the model for `get_peft_model(model, ...)`.
    `is_open`: it may have more arguments than the known ones.
    """

    __slots__ = ("arguments", "attributes", "base", "is_open", "name", "positional", "source")

    def __init__(
        self,
        name: str,
        positional: tuple[Value, ...] = (),
        arguments: Mapping[str, Value] | None = None,
        source: ValueSource = NOWHERE,
        base: Value | None = None,
        is_open: bool = False,
    ) -> None:
        self.is_open = is_open
        self.name = name
        self.positional = positional
        self.arguments: dict[str, Value] = dict(arguments or {})
        self.attributes: dict[str, Value] = {}
        self.source = source
        self.base = base

    @property
    def last(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]


class PythonFunction:
    """A function or lambda of the repository. `owner`: the object, for a bound method; `holder`: the class that defines
    a method."""

    __slots__ = ("holder", "module", "node", "owner", "scope")

    def __init__(
        self,
        node: FunctionNode,
        module: SourceText,
        scope: Scope,
        owner: Value | None = None,
        holder: Class | None = None,
    ) -> None:
        self.holder = holder
        self.node = node
        self.module = module
        self.scope = scope
        self.owner = owner

    @property
    def calls(self) -> tuple[str, ...]:
        """What it calls, as it is written: `super().create_optimizer`."""
        return tuple(ast.unparse(one.func) for one in ast.walk(self.node) if isinstance(one, ast.Call))


class Class:
    """A class of the repository: its bases, the values of its fields, its methods. `is_configured`: gin may give what
    its callers do not."""

    __slots__ = ("bases", "fields", "is_configured", "is_dataclass", "methods", "module", "name", "scope", "types")

    def __init__(self, name: str, bases: tuple[Value, ...], module: SourceText, scope: Scope) -> None:
        self.name = name
        self.bases = bases
        self.module = module
        self.scope = scope
        self.fields: dict[str, Value] = {}
        self.types: dict[str, ast.expr] = {}  # annotations, in order
        self.methods: dict[str, FunctionNode] = {}
        self.is_dataclass = False
        self.is_configured = False


class Instance:
    """An object of a class of the repository. `behind`: the object itself, if this instance stands for its
    `super()`."""

    __slots__ = ("attributes", "behind", "of", "source")

    def __init__(self, of: Class, source: ValueSource = NOWHERE, behind: Instance | None = None) -> None:
        self.of = of
        self.behind = behind
        self.source = source
        self.attributes: dict[str, Value] = {}

    def with_values(self, changed: Mapping[str, Value], source: ValueSource) -> Instance:
        """An object like it, with other values of some attributes."""
        other = Instance(self.of, source, self.behind)
        other.attributes.update({**self.attributes, **changed})
        return other


FunctionNode = Union[ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda]
Value = Union[Known, Undetermined, External, Either, Items, Table, Made, PythonFunction, Class, Instance]


class Scope:
    """Names with their values, and the enclosing scope."""

    __slots__ = ("around", "names")

    def __init__(self, around: Scope | None = None) -> None:
        self.names: dict[str, Value] = {}
        self.around = around

    def find(self, name: str) -> Value | None:
        """The value of `name` in this or an enclosing scope; None if there is none."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.around
        return None


def is_on(value: Value | None) -> bool:
    """Whether a value is known and counts as true."""
    return isinstance(value, Known) and bool(value.value)


def source_of(value: Value) -> ValueSource:
    """The place where a value is written; `NOWHERE` if that is not a single place."""
    return getattr(value, "source", NOWHERE)


def alternatives(value: Value) -> Iterator[Value]:
    """The values that `value` may be."""
    if isinstance(value, Either):
        for one in value.values:
            yield from alternatives(one)
    else:
        yield value


def either(values: list[Value], reason: str) -> Value:
    """One of `values`, as `Either`; if all are the same, that value."""
    different: list[Value] = []
    for value in values:
        for one in alternatives(value):
            if not any(same(one, other) for other in different):
                different.append(one)
    if len(different) > MAX_ALTERNATIVES:
        return Undetermined(reason)
    return different[0] if len(different) == 1 else Either(tuple(different), reason)


def same(one: Value, other: Value) -> bool:
    """Whether two values are certainly equal: the same object, or equal scalars."""
    if one is other:
        return True
    if isinstance(one, Known) and isinstance(other, Known):
        return type(one.value) is type(other.value) and one.value == other.value
    if isinstance(one, Items) and isinstance(other, Items):
        if not (is_small(one) and is_small(other)):
            return False
        pairs = zip(one.values, other.values)
        return len(one.values) == len(other.values) and all(same(*pair) for pair in pairs)
    if isinstance(one, External) and isinstance(other, External):
        return one.name == other.name
    return False


def is_small(value: Value) -> bool:
    """Whether a value has at most MAX_PARTS parts, counting all inner ones. `x = [x, x]` a hundred times would have
    2**100."""
    left, pending = MAX_PARTS, [value]
    while pending and left > 0:
        one = pending.pop()
        left -= 1
        if isinstance(one, Items):
            pending += one.values[:left]
        elif isinstance(one, Table):
            pending += list(one.values.values())[:left]
    return left > 0


def as_of_script(table: Table) -> Table:
    """A copy of a file's values, which have no place in the script that reads them."""
    values: dict[Any, Value] = {}
    for key, one in table.values.items():
        plain_one = one._replace(source=NOWHERE) if isinstance(one, Known) else one
        values[key] = as_of_script(one) if isinstance(one, Table) else plain_one
    return Table(values, is_open=table.is_open)


def plain(value: Value) -> Any:
    """`value` as plain Python scalars, lists and dictionaries. Raises ValueError if a part of it is unknown, or if it
    has too many parts."""
    if not is_small(value):
        raise ValueError("too large")
    return _plain(value)


def _plain(value: Value) -> Any:
    if isinstance(value, Known):
        return value.value
    if isinstance(value, Items) and not value.is_open:
        return [_plain(item) for item in value.values]
    if isinstance(value, Table) and not value.is_open:
        return {key: _plain(item) for key, item in value.values.items()}
    raise ValueError("unknown")
