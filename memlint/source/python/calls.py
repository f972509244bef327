"""Calls: functions and classes of the repository are followed; calls of libraries have handlers or are unknown."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from memlint.source.python import builtin_functions
from memlint.source.python.classes import external_bases, field_types, instance
from memlint.source.python.executed import EXECUTES, follow_executed
from memlint.source.python.members import OBJECT, PARAMETERS, above, attribute, has_decorator, merge
from memlint.source.python.methods import method
from memlint.source.python.parameters import bind, lacks_arguments
from memlint.source.python.reader import Call, Frame, Reader
from memlint.source.python.values import (
    Class,
    Either,
    External,
    FunctionNode,
    Instance,
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
)

_DEPENDS = "depends on a condition that memlint does not know"
SUPER = "super()"  # in a method's scope: what it gives


def call(reader: Reader, node: ast.Call, frame: Frame) -> Value:
    """The value of a call."""
    owner: Value | None = None
    if isinstance(node.func, ast.Attribute):
        owner = reader.evaluate(reader, node.func.value, frame)
        target = attribute(owner, node.func.attr)
    else:
        target = reader.evaluate(reader, node.func, frame)
    given = arguments(reader, node, frame)
    if isinstance(target, External) and target.name == "super" and not given.positional:
        return frame.scope.find(SUPER) or Undetermined("`super()` outside of a method", given.source)
    if isinstance(target, External) and target.name == EXECUTES:
        follow_executed(reader, given, frame)
        return Known(None)
    if isinstance(node.func, ast.Attribute) and owner is not None:
        found = method(reader, owner, node.func.attr, given)
        if found is not None:
            return found
        if any(isinstance(one, Undetermined) for one in alternatives(target)):
            reader.observe(Made(f"unknown().{node.func.attr}", given.positional, given.named, given.source))
    return apply(reader, target, given, owner)


def arguments(reader: Reader, node: ast.Call, frame: Frame) -> Call:
    """The values of a call's arguments."""
    positional: list[Value] = []
    is_open = False
    for part in node.args:
        if not isinstance(part, ast.Starred):
            positional.append(reader.evaluate(reader, part, frame))
            continue
        inner = reader.evaluate(reader, part.value, frame)
        positional += inner.values if isinstance(inner, Items) else []
        is_open = is_open or not isinstance(inner, Items) or inner.is_open
    named = Table({})
    for keyword in node.keywords:
        value = reader.evaluate(reader, keyword.value, frame)
        if keyword.arg is None:
            merge(named, value)
        else:
            named.values[keyword.arg] = value
    names = {key: value for key, value in named.values.items() if isinstance(key, str)}
    source = ValueSource(frame.module.path, frame.module.span(node), "call")
    return Call("", tuple(positional), names, source, is_open or named.is_open)


def apply(reader: Reader, target: Value, given: Call, owner: Value | None = None) -> Value:
    """The result of calling `target`. `owner`: the object of which it is a method."""
    reader.budget.spend()
    if isinstance(target, PythonFunction):
        if _raises(target, given):
            return Undetermined("a call without all of its arguments, which ends the program", given.source)
        copied = reader.libraries.get(f"copy of {getattr(target.node, 'name', '')}")
        return (copied(reader, given) if copied else None) or follow(reader, target, given)
    if isinstance(target, Class):
        return _construct(reader, target, given)
    if isinstance(target, Either):
        return either([apply(reader, one, given, owner) for one in target.values], target.reason)
    if isinstance(target, External):
        return _of_library(reader, target.name, given, owner)
    if isinstance(target, Instance):
        return _call_instance(reader, target, given)
    if isinstance(target, Made):
        return _of_library(reader, f"{target.name}()", given, target)
    _follow_callbacks(reader, given)
    reader.observe(Made("unknown()", given.positional, given.named, given.source))
    return (
        target
        if isinstance(target, Undetermined)
        else Undetermined("a call that memlint does not follow", given.source)
    )


def _raises(function: PythonFunction, given: Call) -> bool:
    """Whether a function is called with fewer arguments than it takes. A decorator may give others."""
    if isinstance(function.node, ast.Lambda) or function.node.decorator_list:
        return False
    owner = () if function.owner is None else (function.owner,)
    return lacks_arguments(function, given._replace(positional=(*owner, *given.positional)))


def _call_instance(reader: Reader, target: Instance, given: Call) -> Value:
    found = attribute(target, "__call__")
    return (
        follow(reader, found, given)
        if isinstance(found, PythonFunction)
        else Undetermined("a call of an object", given.source)
    )


def _of_library(reader: Reader, name: str, given: Call, owner: Value | None) -> Value:
    given = given._replace(name=name, owner=owner)
    known = builtin_functions.FUNCTIONS.get(name) or reader.library(name)
    found = known(reader, given) if known else None
    if found is not None:
        return found
    _follow_callbacks(reader, given)
    made = Made(name, given.positional, given.named, given.source, _base(name, owner), given.is_open)
    reader.made(made)
    reader.observe(made)
    return made


def _base(name: str, owner: Value | None) -> Value | None:
    """The object that a call of a library is made from: one that a library made, branches that made it in several ways,
    and for parameters a part of a model."""
    if isinstance(owner, External) and owner.of is not None and name.endswith(PARAMETERS):
        return owner
    return owner if isinstance(owner, (Made, Either)) else None


def _follow_callbacks(reader: Reader, given: Call) -> None:
    """Follows functions that are passed as arguments, because they may be called: `dataset.map(tokenize)`. One that
    passes itself on is only looked at: `inspect.signature(train)` in `train`."""
    for value in (*given.positional, *given.named.values()):
        if isinstance(value, PythonFunction) and id(value.node) not in reader.budget.running:
            with reader.doubt("only in a function that a library may call"):
                follow(reader, value, Call("", (), {}, given.source, is_open=True))


def follow(reader: Reader, function: PythonFunction, given: Call) -> Value:
    """The value that a function of the repository returns for these arguments."""
    node = function.node
    if not reader.budget.may_enter(id(node), reader.in_doubt):
        return Undetermined("calls that are nested too deep", given.source)
    reader.followed.add(id(node))
    frame = Frame(function.module, Scope(function.scope))
    owner = () if function.owner is None or has_decorator(node, "staticmethod") else (function.owner,)
    parameters = bind(reader, function, given._replace(positional=(*owner, *given.positional)), frame)
    if function.holder is not None and isinstance(function.owner, Instance):
        frame.scope.names[SUPER] = above(function.holder, function.owner)
    reader.budget.running.append(id(node))
    reader.parameters.append(parameters)
    try:
        if isinstance(node, ast.Lambda):
            return reader.evaluate(reader, node.body, frame)
        ends = reader.execute(reader, node.body, frame)
    finally:
        reader.budget.running.pop()
        reader.parameters.pop()
    if ends != "return" or not frame.returned:
        frame.returned.append(Known(None))
    frame.end(_DEPENDS)
    found = either(frame.returned, _DEPENDS)
    if isinstance(found, Undetermined) or (isinstance(found, Items) and found.is_open and not found.values):
        return _names_of_modules(node, given) or found
    return found


MAX_FUNCTIONS = 256  # whose answer is kept: loops call the same ones again
LINEAR_NAMES = "names of linear modules"


def _names_of_modules(node: ast.FunctionDef | ast.AsyncFunctionDef, given: Call) -> Value | None:
    """The result of `find_all_linear_names(model)` of QLoRA and its many copies: the last parts of the names of all
    modules of one class, `nn.Linear` or a quantised one. `without`: words in the names of modules that it leaves
    out."""
    if not _walks_modules(node):
        return None
    constants = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
    words: list[Value] = [Known(word) for word in constants if isinstance(word, str) and " " not in word]
    return Made(LINEAR_NAMES, (), {"without": Items(words)}, given.source)


@lru_cache(MAX_FUNCTIONS)
def _walks_modules(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    calls = [one.func for one in ast.walk(node) if isinstance(one, ast.Call)]
    names = {func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "") for func in calls}
    return {"named_modules", "isinstance", "split"} <= names


def complete(reader: Reader, made: Instance, given: Call) -> None:
    """Follows the methods that a dataclass or pydantic model runs after its fields are set (`__post_init__`, ...)."""
    for name in ("__post_init__", "model_post_init"):
        later = attribute(made, name)
        if isinstance(later, PythonFunction):
            follow(reader, later, Call("", (), {}, given.source))


def _construct(reader: Reader, target: Class, given: Call) -> Value:
    """An object of a class of the repository; for a subclass of a library's class, the library's result."""
    for base in external_bases(target):
        known_class = reader.library(f"class {base.name}")
        found = known_class(reader, given._replace(name=base.name)) if known_class else None
        if found is not None:
            return found
    if _is_dictionary(target):
        return builtin_functions.FUNCTIONS["dict"](reader, given) or Undetermined("a dictionary", given.source)
    made = instance(reader, target, given)
    initialise = attribute(made, "__init__")
    if isinstance(initialise, PythonFunction):
        follow(reader, initialise, given)
    complete(reader, made, given)
    bases = external_bases(target)
    if bases and isinstance(initialise, PythonFunction):  # what `super().__init__(**kwargs)` hands on
        for name, value in given.named.items():
            made.attributes.setdefault(name, value)
    for base in bases:
        known: dict[str, Any] = {**made.attributes, **given.named}
        seen = Made(base.name, given.positional, known, given.source)
        seen.attributes[OBJECT] = made
        handed_on = _handed_on(target, given.named)
        if handed_on is not None:
            seen.attributes[HANDED_ON] = Items([Known(name) for name in handed_on])
        reader.observe(seen)
    return made


def _handed_on(target: Class, given: Iterable[str]) -> tuple[str, ...] | None:
    """Of the names that a class is given, those that its library's class gets: no `__init__` on the way has them, and
    each gives the rest to the next. None where there is no `__init__` on the way."""
    left, is_seen = tuple(given), False
    for one in _lineage(target):
        own = _own_arguments(one)
        if own is not None:
            hands_on = "__init__" not in one.methods or _hands_rest_on(one.methods["__init__"])
            left, is_seen = tuple(name for name in left if hands_on and name not in own), True
    return left if is_seen else None


def _lineage(target: Class) -> Iterator[Class]:
    """A class of the repository and those that it derives from."""
    yield target
    for base in target.bases:
        if isinstance(base, Class):
            yield from _lineage(base)


def _own_arguments(target: Class) -> frozenset[str] | None:
    """The names that a class's own `__init__` takes, also the one that `@dataclass` writes; None without either."""
    initialise = target.methods.get("__init__")
    if initialise is not None:
        own = initialise.args
        named = (one.arg for one in (*own.posonlyargs, *own.args, *own.kwonlyargs))
        return frozenset((*named, *(_popped(initialise, own.kwarg.arg) if own.kwarg else ())))
    return frozenset(field_types(target)) if target.is_dataclass else None


def _popped(function: FunctionNode, rest: str) -> Iterator[str]:
    """The names that a function takes out of its `**kwargs`: `kwargs.pop("tokenizer")`."""
    for call in (one for one in ast.walk(function) if isinstance(one, ast.Call) and one.args):
        if isinstance(call.args[0], ast.Constant) and ast.unparse(call.func) == f"{rest}.pop":
            yield str(call.args[0].value)


def _hands_rest_on(initialise: FunctionNode) -> bool:
    """Whether a class's own `__init__` gives a call the arguments for which it has no name: not all do that take
    `**kwargs`."""
    rest = initialise.args.kwarg
    spread = (
        keyword.value
        for call in ast.walk(initialise)
        if isinstance(call, ast.Call)
        for keyword in call.keywords
        if keyword.arg is None
    )
    names = {node.id for value in spread for node in ast.walk(value) if isinstance(node, ast.Name)}
    return rest is not None and rest.arg in names


# What classes define whose objects are dictionaries with their keys as attributes.
_OF_DICTIONARIES = frozenset({f"__{verb}{of}__" for verb in ("get", "set", "del") for of in ("attr", "item", "state")})


def _is_dictionary(target: Class) -> bool:
    """`class AttrDict(dict)`: its methods only give the keys as attributes, and its `__init__`, where it has one, hands
    everything on to dict."""
    if not any(base.name in ("dict", "OrderedDict", "collections.OrderedDict") for base in external_bases(target)):
        return False
    inner = any(isinstance(base, Class) for base in target.bases)
    written = {*target.methods} - _OF_DICTIONARIES - {"__repr__", "__str__", "__dir__", "__init__"}
    return not inner and not written and ("__init__" not in target.methods or _hands_on(target.methods["__init__"]))


def _hands_on(node: FunctionNode) -> bool:
    """Whether an `__init__` is `super().__init__(*args, **kwargs)` and `self.__dict__ = self`."""
    if isinstance(node, ast.Lambda):
        return False
    body = [one for one in node.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
    said = [ast.unparse(one) for one in body]
    rest = [one for one in said if one != "self.__dict__ = self"]
    taken = ", ".join(f"{star}{one.arg}" for star, one in (("*", node.args.vararg), ("**", node.args.kwarg)) if one)
    return len(rest) == 1 and rest[0].startswith("super(") and rest[0].endswith(f").__init__({taken})")


HANDED_ON = "arguments that the class's own __init__ has no name for"  # attribute of a library's object
