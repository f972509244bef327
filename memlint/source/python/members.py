"""Attributes and items of values, and the elements that a loop over a value takes."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Sequence

from memlint.source.python.limits import MAX_ITEMS
from memlint.source.python.reader import Reader
from memlint.source.python.values import (
    NOWHERE,
    Class,
    Either,
    External,
    FunctionNode,
    Instance,
    Items,
    Known,
    Made,
    PythonFunction,
    Table,
    Undetermined,
    Value,
    ValueSource,
    either,
    source_of,
)

MISSING = "no key"  # how the reason begins of an item that a table lacks: at that line a program ends in KeyError
PARAMETERS = ("parameters", "named_parameters")  # methods of a model, and what a loop over them goes through
# The name of what is observed where parameters' `requires_grad` is set. `base`: the model, a part of it, or None where
# it is not known whose parameters they are. `certain`: whether that surely happens.
FREEZES = "freezes"
# Attribute of what a library's class makes of an object of the repository's class: that object.
OBJECT = "the object of the repository's class"
# Ends of the names of parameters. On a module, as in `model.lm_head.requires_grad = False`, the attribute is one that
# no parameter reads.
_TENSORS = ("weight", "bias")


def attribute(owner: Value, name: str) -> Value:
    """`owner.name`."""
    if name == "__name__":
        return _own_name(owner)
    if name == "__dict__":
        return by_name(owner)
    if isinstance(owner, External):
        return External(f"{owner.name}.{name}", owner.of)
    if isinstance(owner, Either):
        return either([attribute(one, name) for one in owner.values], owner.reason)
    if isinstance(owner, Table):
        return _of_table(owner, name)
    if isinstance(owner, Instance):
        return _of_instance(owner, name)
    if isinstance(owner, Class):
        return class_member(owner, name) or Undetermined(f"`{owner.name}` has no `{name}` that memlint sees")
    if isinstance(owner, Made):
        return owner.attributes.get(name) or owner.arguments.get(name) or External(f"{owner.name}().{name}", owner)
    if isinstance(owner, Known):
        return _of_scalar(owner, name)
    return Undetermined(f"`.{name}` of something unknown") if not isinstance(owner, Undetermined) else owner


def by_name(owner: Value, source: ValueSource = NOWHERE) -> Value:
    """`vars(owner)`, `owner.__dict__`: its attributes as a dictionary."""
    if isinstance(owner, Table):
        return owner
    if isinstance(owner, Instance):
        return Table(dict(owner.attributes), owner.source)
    return Table(dict(owner.arguments) if isinstance(owner, Made) else {}, source, is_open=True)


def _own_name(owner: Value) -> Value:
    """`TrainerOfMine.__name__`, under which a registry keeps a class."""
    if isinstance(owner, Class):
        return Known(owner.name)
    if isinstance(owner, PythonFunction) and not isinstance(owner.node, ast.Lambda):
        return Known(owner.node.name)
    if isinstance(owner, External) and owner.of is None:
        return Known(owner.last)
    return Undetermined("the name of something unknown") if not isinstance(owner, Undetermined) else owner


def _of_table(owner: Table, name: str) -> Value:
    if name in owner.values:
        return owner.values[name]
    return Undetermined(f"`{name}` is not given") if owner.is_open or owner.values else External(f"dict().{name}")


def _of_instance(owner: Instance, name: str) -> Value:
    if name in owner.attributes and owner.behind is None:
        return owner.attributes[name]
    found = class_member(owner.of, name)
    if isinstance(found, PythonFunction) and found.owner is None:
        return PythonFunction(found.node, found.module, found.scope, owner.behind or owner, found.holder)
    if found is None and owner.behind is not None:
        return External(f"super().{name}")
    return found or Undetermined(f"`{owner.of.name}` has no `{name}` that memlint sees")


def above(of: Class, owner: Instance) -> Instance:
    """The value of `super()` in a method of class `of` that is called on `owner`."""
    bases = Class(of.name, of.bases, of.module, of.scope)
    return Instance(bases, owner.source, owner.behind or owner)


def has_decorator(node: FunctionNode, name: str) -> bool:
    """Whether `@name` stands above a function."""
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return any(getattr(one, "id", getattr(one, "attr", "")) == name for one in decorators)


_GIN = frozenset({"gin.configurable", "gin.register", "configurable"})


def is_configured(decorators: Sequence[ast.expr]) -> bool:
    """Whether gin's decorator is among them: a file may then give what callers of the function or class do not
    (gin-config 0.5.0 config.py, configurable and register)."""
    return any(ast.unparse(one.func if isinstance(one, ast.Call) else one) in _GIN for one in decorators)


def class_member(owner: Class, name: str) -> Value | None:
    """A field or method of a class or of its bases in the repository."""
    if name in owner.fields:
        return owner.fields[name]
    if name in owner.methods:
        node = owner.methods[name]
        bound = owner if has_decorator(node, "classmethod") else None
        return PythonFunction(node, owner.module, owner.scope, bound, owner)
    for base in owner.bases:
        found = class_member(base, name) if isinstance(base, Class) else None
        if isinstance(found, PythonFunction) and found.owner is base:  # `cls` of a class method is the class itself
            return PythonFunction(found.node, found.module, found.scope, owner, found.holder)
        if found is not None:
            return found
    return None


def _of_scalar(owner: Known, name: str) -> Value:
    """Attributes of enumeration members and paths."""
    if name == "value":
        return owner
    if name == "parent" and isinstance(owner.value, str):
        return Known(posixpath.dirname(owner.value), owner.source)
    if name == "parents" and isinstance(owner.value, str):
        folders = [posixpath.dirname(owner.value)]
        while folders[-1]:
            folders.append(posixpath.dirname(folders[-1]))
        return Items([Known(folder) for folder in folders])
    if name in ("name", "stem", "suffix") and isinstance(owner.value, str):
        base = posixpath.basename(owner.value)
        stem, suffix = posixpath.splitext(base)
        return Known({"name": base, "stem": stem, "suffix": suffix}[name])
    return Undetermined(f"`.{name}` of a plain value")


def item(owner: Value, key: Value) -> Value:
    """`owner[key]`."""
    if isinstance(owner, Either):
        return either([item(one, key) for one in owner.values], owner.reason)
    if isinstance(owner, External) and owner.name == "os.environ" and isinstance(key, Known):
        return Undetermined(f"the environment variable {key.value}")
    if not isinstance(key, Known):
        return key if isinstance(key, Undetermined) else Undetermined("an item under an unknown key")
    if isinstance(owner, Table):
        return owner.values.get(key.value) or Undetermined(f"{MISSING} `{key.value}`")
    if isinstance(owner, Items) and isinstance(key.value, int):
        inside = -len(owner.values) <= key.value < len(owner.values)
        return owner.values[key.value] if inside else Undetermined("an item that is not there")
    if isinstance(owner, External) and owner.of is not None and isinstance(key.value, int):
        return owner._replace(name=f"{owner.name}[{key.value}]")
    if isinstance(owner, Known) and isinstance(owner.value, str) and isinstance(key.value, int):
        inside = -len(owner.value) <= key.value < len(owner.value)
        return Known(owner.value[key.value]) if inside else Undetermined("an item that is not there")
    return owner if isinstance(owner, Undetermined) else Undetermined("an item of something unknown")


def merge(into: Table, other: Value) -> None:
    """`into.update(other)`."""
    if isinstance(other, Table):
        into.values.update(other.values)
        into.is_open = into.is_open or other.is_open
    elif isinstance(other, Instance):
        into.values.update(other.attributes)
    elif isinstance(other, Either):
        tables = [one for one in other.values if isinstance(one, Table)]
        for key in {key for one in tables for key in one.values}:
            values = [one.values.get(key) or Undetermined(other.reason) for one in tables]
            into.values[key] = either(values, other.reason)
        into.is_open = into.is_open or len(tables) < len(other.values)
    else:
        into.is_open = True


def elements(value: Value) -> list[Value] | None:
    """The elements that a loop over `value` takes; None if they are unknown."""
    if isinstance(value, Items) and not value.is_open and len(value.values) <= MAX_ITEMS:
        return list(value.values)
    if isinstance(value, Table) and not value.is_open and len(value.values) <= MAX_ITEMS:
        return [Known(key) for key in value.values]
    return None


def part_of(iterated: Value) -> Value:
    """The loop variable in a loop over something of unknown length; over a model's parameters: one of them, with the
    model as its base; over its layers: each of them, `model.layers[:]`."""
    if isinstance(iterated, External) and iterated.of is not None:
        return iterated if iterated.name.endswith("]") else iterated._replace(name=f"{iterated.name}[:]")
    if isinstance(iterated, Made) and iterated.last in PARAMETERS:
        parameter = Made(PARAMETERS[0], base=iterated.base, source=iterated.source)
        is_named = iterated.last == "named_parameters"
        return Items([Undetermined("a parameter's name"), parameter]) if is_named else parameter
    return Undetermined("an item of something unknown")


def parameters_in(iterated: Value) -> Made | None:
    """The `model.named_parameters()` that a loop goes through, by itself or as a dictionary made of it
    (`params.items()`); None for anything else."""
    if isinstance(iterated, Made) and iterated.last in ("items", "values"):
        iterated = iterated.base or iterated
    return iterated if isinstance(iterated, Made) and iterated.last in PARAMETERS else None


def observe_freezing(reader: Reader, value: Value, base: Value | None, source: ValueSource) -> None:
    """`requires_grad` of the parameters of `base` is set to `value`."""
    certain = Known(not reader.in_doubt or reader.is_in_rounds)
    reader.observe(Made(FREEZES, (value,), {"certain": certain}, source, base))


def set_attribute(reader: Reader, owner: Value, name: str, value: Value) -> None:
    """`owner.name = value`."""
    if name == "requires_grad":
        base = (owner.base or owner) if isinstance(owner, Made) else owner if isinstance(owner, External) else None
        if not isinstance(base, External) or base is not owner or base.last.endswith(_TENSORS):
            observe_freezing(reader, value, base, source_of(owner))
    if isinstance(owner, Table):
        reader.set(owner.values, owner, name, value)
    elif isinstance(owner, (Instance, Made)):
        reader.set(owner.attributes, owner, name, value)
    elif isinstance(owner, Class):
        owner.fields[name] = value
    elif name == _ATTENTION and isinstance(owner, External) and owner.last == "config":
        _set_attention(reader, owner.of, value)


_ATTENTION = "_attn_implementation"
# transformers 4.47.1 modeling_llama.py:595 makes layers of the class that the configuration names; 4.48.0 (:286) looks
# the function up in each forward.
_LATER = "the script sets the attention after the model is made, which transformers before 4.48 ignores"


def _set_attention(reader: Reader, model: Value | None, value: Value) -> None:
    """`model.config._attn_implementation = value`."""
    if not isinstance(model, Made):
        return
    said = {**model.arguments, **model.attributes}
    before = said.get(_ATTENTION) or said.get(_ATTENTION[1:])
    same = isinstance(before, Known) and isinstance(value, Known) and before.value == value.value
    reader.set(model.attributes, model, _ATTENTION, value if same else Undetermined(_LATER, source_of(value)))
