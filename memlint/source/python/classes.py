"""Classes of the repository: their fields and methods, and objects of them."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from memlint.source.python.members import class_member, is_configured
from memlint.source.python.reader import Call, Frame, Reader
from memlint.source.python.values import (
    Class,
    External,
    Instance,
    Items,
    Known,
    Made,
    PythonFunction,
    Scope,
    Table,
    Undetermined,
    Value,
)

# Bases whose classes take their fields as arguments, as dataclasses do.
_WITH_FIELDS = frozenset({"BaseModel", "BaseSettings", "NamedTuple", "TypedDict", "Struct", "PrefixProto"})
_MAKES_FIELDS = frozenset({"dataclass", "define", "frozen", "attrs", "s", "configclass", "chz"})
_MISSING = "has no default"


def define(reader: Reader, node: ast.ClassDef, frame: Frame) -> Class:
    """The class that `node` defines. Only fields and methods of its body are read."""
    bases = tuple(reader.evaluate(reader, base, frame) for base in node.bases)
    found = Class(node.name, bases, frame.module, frame.scope)
    inner = Frame(frame.module, Scope(frame.scope))
    for statement in node.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.methods[statement.name] = statement
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            _annotated(reader, statement, statement.target.id, found, inner)
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    found.fields[target.id] = reader.evaluate(reader, statement.value, inner)
                    inner.scope.names[target.id] = found.fields[target.id]
        elif isinstance(statement, ast.ClassDef):
            found.fields[statement.name] = define(reader, statement, inner)
    found.is_dataclass = _takes_fields(reader, node, bases, frame)
    found.is_configured = is_configured(node.decorator_list)
    return found


def _annotated(reader: Reader, node: ast.AnnAssign, name: str, into: Class, inner: Frame) -> None:
    into.types[name] = node.annotation
    if node.value is None:
        return
    value = _default(reader, reader.evaluate(reader, node.value, inner))
    if value is not None:
        into.fields[name] = inner.scope.names[name] = value


def _default(reader: Reader, value: Value) -> Value | None:
    """The default of a field: `field(default=...)`, `Field(...)` or the value itself; None where it has none."""
    if not isinstance(value, Made) or value.last not in ("field", "Field", "attrib", "ib"):
        return _as_default(value)
    given = value.arguments.get("default") or (value.positional[0] if value.positional else None)
    if given is not None:
        return None if isinstance(given, Undetermined) else _as_default(given)
    factory = value.arguments.get("default_factory") or value.arguments.get("factory")
    if isinstance(factory, External) and factory.name in ("list", "dict", "set"):
        return Items([]) if factory.name != "dict" else Table({})
    if isinstance(factory, PythonFunction) and isinstance(factory.node, ast.Lambda):
        return reader.evaluate(reader, factory.node.body, Frame(factory.module, Scope(factory.scope)))
    return instance(reader, factory, Call("", (), {}, value.source)) if isinstance(factory, Class) else None


def _as_default(value: Value) -> Value:
    return value._replace(source=value.source._replace(how="default")) if isinstance(value, Known) else value


def _takes_fields(reader: Reader, node: ast.ClassDef, bases: tuple[Value, ...], frame: Frame) -> bool:
    decorators = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
    names = [one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in decorators]
    inherited = any(isinstance(base, Class) and base.is_dataclass for base in bases)
    known = any(isinstance(base, External) and base.last in _WITH_FIELDS for base in bases)
    return inherited or known or any(name in _MAKES_FIELDS for name in names)


def field_types(of: Class) -> dict[str, tuple[Class, ast.expr]]:
    """The annotated fields of a class with their bases' first, and the class that declares each."""
    found: dict[str, tuple[Class, ast.expr]] = {}
    for base in reversed(of.bases):
        found.update(field_types(base) if isinstance(base, Class) else {})
    found.update({name: (of, annotation) for name, annotation in of.types.items()})
    return found


# Fields that transformers' training arguments only read in __post_init__, to set up the engine: setting one later has
# no effect (transformers 4.57.6 and 5.23.0 training_args.py).
READ_WHEN_MADE = frozenset(("bf16", "deepspeed", "evaluation_strategy", "fp16", "fsdp", "fsdp_config", "tf32"))


def was_read(owner: Value, name: str) -> bool:
    """Whether `owner` is an object of training arguments, and `name` one of READ_WHEN_MADE."""
    if name not in READ_WHEN_MADE:
        return False
    names = [owner.name] if isinstance(owner, Made) else []
    if isinstance(owner, Instance):
        names = [base.name for base in external_bases(owner.of)]
    return any(_takes_training_arguments(one) for one in names)


def _takes_training_arguments(name: str) -> bool:
    last = name.rpartition(".")[2]
    is_of_trl = name.startswith("trl.") and last.endswith("Config") and last != "ModelConfig"
    return is_of_trl or last.endswith("TrainingArguments")


def instance(reader: Reader, of: Class, given: Call) -> Instance:
    """An object of `of`: fields from arguments, then defaults. `__init__` is not run."""
    made = Instance(of, given.source)
    reader.made(made)
    if not of.is_dataclass:
        return made
    types = field_types(of)
    arguments = {**dict(zip(types, given.positional)), **given.named}
    for name, (owner, annotation) in types.items():
        value = arguments.get(name) or class_member(of, name)
        if value is None or (name not in arguments and (given.is_open or of.is_configured)):
            value = Undetermined(f"`{name}` of `{of.name}` {_MISSING}", given.source)
        made.attributes[name] = _nested(reader, value, owner, annotation)
    for name, value in arguments.items():
        made.attributes.setdefault(name, value)
    return made


def _nested(reader: Reader, value: Value, owner: Class, annotation: ast.expr) -> Value:
    """A mapping converted to the class of the field's annotation, as pydantic and dacite do."""
    if not isinstance(value, Table) or not isinstance(annotation, (ast.Name, ast.Attribute)):
        return value
    of = reader.evaluate(reader, annotation, Frame(owner.module, Scope(owner.scope)))
    if not isinstance(of, Class) or not of.is_dataclass:
        return value
    return instance(reader, of, Call("", (), _names(value.values), value.source))


def _names(values: Mapping[object, Value]) -> dict[str, Value]:
    return {key: value for key, value in values.items() if isinstance(key, str)}


def external_bases(target: Class) -> tuple[External, ...]:
    """The classes outside of the repository that a class derives from, `object` aside."""
    found: list[External] = []
    for base in target.bases:
        found += external_bases(base) if isinstance(base, Class) else [base] if isinstance(base, External) else []
    return tuple(base for base in found if base.name != "object")


def is_module(value: Value) -> bool:
    """Whether a value is an object of a class of the repository that derives from torch.nn.Module."""
    return isinstance(value, Instance) and any(base.last == "Module" for base in external_bases(value.of))
