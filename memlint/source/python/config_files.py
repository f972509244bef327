"""Configuration files that a script loads: their values with the places where they stand."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any, TypeGuard

from memlint.source.document import Document, Path
from memlint.source.load import in_dialect
from memlint.source.load import load as load_text
from memlint.source.python import modules
from memlint.source.python.calls import apply, complete
from memlint.source.python.classes import field_types, instance
from memlint.source.python.members import merge
from memlint.source.python.reader import Call, Frame, Library, Reader, plain_word
from memlint.source.python.values import (
    Class,
    External,
    Instance,
    Items,
    Known,
    Made,
    Scope,
    Table,
    Undetermined,
    Value,
    ValueSource,
    source_of,
)

MAX_VALUES = 4_000
_INTERPOLATION = re.compile(r"^\$\{([A-Za-z_][\w.]*)\}$")
_READS_TEXT = frozenset({"open", "read", "read_text", "io.open"})


def load(reader: Reader, given: Call) -> Value:
    """`yaml.safe_load(stream)`, `json.load(stream)`, `OmegaConf.load(path)` and their relatives."""
    (stream,) = given.positional[:1] or (Undetermined("nothing"),)
    path = _path(stream)
    if path is not None and (
        path.lstrip()[:1] in ("{", "[") or (isinstance(stream, Known) and _takes_text(given.name))
    ):
        return reader.made(_of_text(path, given.source))  # type: ignore[no-any-return]
    if path is None:
        return Table({}, given.source, is_open=True)
    document = reader.find(path)
    if document is None:
        return Undetermined(f"`{path}`, which is not there or cannot be read", given.source)
    if given.name == "json.load" and document.syntax != "json":
        return Undetermined(f"`{path}`, which is no JSON", given.source)
    if "OmegaConf" in given.name:
        document = in_dialect(document, "omegaconf")
    return reader.made(value_of_document(document))  # type: ignore[no-any-return]


def _of_text(text: str, source: ValueSource) -> Value:
    """The values of `json.loads("{...}")` for a text in the script; they have no place of their own."""
    (document,) = load_text(text.encode("utf-8", "surrogatepass"), "")[:1]
    if any(problem.fatal for problem in document.problems):
        return Undetermined("a text that cannot be read", source)
    return value_of_plain(document.value, source)


def _takes_text(name: str) -> bool:
    """Whether a text is read itself, and no file of that name: PyYAML 6.0.3 reader.py, Reader; json and tomllib
    likewise."""
    return name.endswith((".loads", "safe_load", "full_load", "yaml.load"))


def _path(stream: Value) -> str | None:
    """The path of an opened file, or of the file from which a text was read."""
    for _ in range(4):
        if isinstance(stream, Known):
            return stream.value if isinstance(stream.value, str) else None
        if not isinstance(stream, Made) or stream.last not in _READS_TEXT:
            return None
        stream = stream.positional[0] if stream.last in ("open",) and stream.positional else stream.base or stream
    return None


def plain_values(document: Document) -> Value:
    """The values of a configuration file, with unresolved interpolations."""
    return _of(document, document.value, (), [MAX_VALUES])


def value_of_document(document: Document) -> Value:
    """The values of a configuration file."""
    root = plain_values(document)
    if isinstance(root, Table):
        interpolate(root, root)
    return root


def _of(document: Document, value: Any, pointer: Path, count: list[int]) -> Value:
    count[0] -= 1
    place = document.places.get(pointer)
    source = ValueSource(document.path, place.value if place else None, "config")
    if count[0] < 0:
        return Undetermined("a value of a very large file", source)
    if isinstance(value, dict):
        return Table({key: _of(document, inner, (*pointer, key), count) for key, inner in value.items()}, source)
    if isinstance(value, list):
        return Items([_of(document, inner, (*pointer, at), count) for at, inner in enumerate(value)], source)
    return (
        Known(value, source)
        if isinstance(value, (str, int, float, bool, type(None)))
        else Undetermined("a date", source)
    )


def value_of_plain(value: Any, source: ValueSource) -> Value:
    """Wraps a plain Python value (scalars, lists, dictionaries), with `source` as the place of all of it."""
    if isinstance(value, dict):
        return Table({key: value_of_plain(inner, source) for key, inner in value.items()}, source)
    if isinstance(value, list):
        return Items([value_of_plain(inner, source) for inner in value], source)
    return Known(value, source)


def interpolate(root: Table, table: Table) -> None:
    """Resolves `${a.b}` in `table` as OmegaConf does."""
    for key, value in table.values.items():
        if isinstance(value, Table):
            interpolate(root, value)
        elif isinstance(value, Known) and isinstance(value.value, str):
            match = _INTERPOLATION.match(value.value)
            found = _at(root, match[1].split(".")) if match else None
            if found is not None:
                table.values[key] = found


def _at(root: Value, names: list[str]) -> Value | None:
    for name in names:
        found = root.values.get(name) if isinstance(root, Table) else None
        if found is None:
            return None
        root = found
    return root


def _create(reader: Reader, given: Call) -> Value:
    (value,) = given.positional[:1] or (Table({}),)
    return value


def structured(reader: Reader, given: Call) -> Value:
    """`OmegaConf.structured(Config)`: the fields of a dataclass, with the defaults of those that are one."""
    (value,) = given.positional[:1] or (Table({}),)
    if isinstance(value, Class):
        value = instance(reader, value, Call("", (), {}, given.source))
    return _fields(value) if isinstance(value, Instance) else value


def _fields(value: Instance) -> Table:
    inner = {name: _fields(one) if _is_record(one) else one for name, one in value.attributes.items()}
    return Table(dict(inner), value.source, of=value.of)


def _is_record(value: Value) -> TypeGuard[Instance]:
    return isinstance(value, Instance) and value.of.is_dataclass


def _object(reader: Reader, given: Call) -> Value:
    """`OmegaConf.to_object(config)`: objects of the classes that it was structured by (omegaconf 2.3 omegaconf.py)."""
    (value,) = given.positional[:1] or (Table({}),)
    return _as_object(reader, value, given) if isinstance(value, Table) else value


def _as_object(reader: Reader, table: Table, given: Call) -> Value:
    of = table.of
    if of is None:
        return table
    types = field_types(of)
    named: dict[str, Value] = {}
    for name, value in table.values.items():
        if isinstance(value, Table):
            kind = _record_of(reader, *types[name]) if value.of is None and name in types else None
            inner = Table(value.values, value.source, value.is_open, value.of or kind)
            value = _as_object(reader, inner, given)
        named[str(name)] = value
    made = instance(reader, of, Call("", (), named, given.source, table.is_open))
    complete(reader, made, given)
    return made


def _record_of(reader: Reader, owner: Class, annotation: ast.expr) -> Class | None:
    """The dataclass of a field's annotation, `FSDPConfig` or `Optional[FSDPConfig]`."""
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.slice, (ast.Name, ast.Attribute)):
        annotation = annotation.slice
    if not isinstance(annotation, (ast.Name, ast.Attribute)):
        return None
    found = reader.evaluate(reader, annotation, Frame(owner.module, Scope(owner.scope)))
    return found if isinstance(found, Class) and found.is_dataclass else None


def _merge(reader: Reader, given: Call) -> Value:
    found = reader.made(Table({}, given.source))
    for value in given.positional:
        merge_deep(found, value)
        found.of = found.of or (value.of if isinstance(value, Table) else None)
    interpolate(found, found)
    return found  # type: ignore[no-any-return]


def merge_deep(into: Table, other: Value) -> None:
    if not isinstance(other, Table):
        merge(into, other)
        return
    into.is_open = into.is_open or other.is_open
    for key, value in other.values.items():
        old = into.values.get(key)
        if isinstance(old, Table) and isinstance(value, Table):
            both = Table(dict(old.values), old.source, old.is_open, old.of)
            merge_deep(both, value)
            into.values[key] = both
        else:
            into.values[key] = value


def _command_line(reader: Reader, given: Call) -> Value:
    """`OmegaConf.from_cli()`, and `OmegaConf.from_dotlist(words)` of a program that takes them as `--a.b=value`."""
    found = Table({}, given.source)
    for path, value in reader.command.overrides.items():
        override(found, path, value)
    if given.name.endswith("from_dotlist"):
        for path, words in reader.command.options.items():
            override(found, path, _yaml_scalar(plain_word(words)))
    return reader.made(found)  # type: ignore[no-any-return]


def _yaml_scalar(value: Value) -> Value:
    return value._replace(value=None) if isinstance(value, Known) and value.value in ("null", "~") else value


def override(config: Table, path: str, value: Value) -> None:
    """`a.b=value` of the command line."""
    *above, last = path.split(".")
    owner = config
    for step in above:
        inner = owner.values.setdefault(step, Table({}, source_of(value)))
        if not isinstance(inner, Table):
            return
        owner = inner
    owner.values[last] = value


def _instantiate(reader: Reader, given: Call) -> Value | None:
    """`hydra.utils.instantiate(config, **arguments)`: calls what `_target_` names, with the other keys as arguments."""
    (config,) = given.positional[:1] or (given.named.get("config"),)
    if not isinstance(config, Table):
        return None
    target = config.values.get("_target_")
    if not isinstance(target, Known) or not isinstance(target.value, str):
        return None
    values = {key: _instantiated(reader, one, given) for key, one in config.values.items() if key not in _OF_HYDRA}
    named = {str(key): one for key, one in {**values, **given.named}.items() if key != "config"}
    return apply(reader, _object_at(reader, target.value), Call("", (), named, given.source, config.is_open))


_OF_HYDRA = frozenset({"_target_", "_partial_", "_convert_", "_recursive_", "_args_"})


def _instantiated(reader: Reader, value: Value, given: Call) -> Value:
    if isinstance(value, Table) and "_target_" in value.values:
        return _instantiate(reader, given._replace(positional=(value,), named={})) or value
    return value


def _object_at(reader: Reader, name: str) -> Value:
    """The object with a dotted name: a class of the repository, else something external."""
    module, _, last = name.rpartition(".")
    found = modules.imported_name(reader, module, 0, last, reader.script, reader.execute)
    return External(name) if isinstance(found, Scope) or found is None else found


def _object_named(reader: Reader, given: Call) -> Value | None:
    (name,) = given.positional[:1] or (None,)
    is_name = isinstance(name, Known) and isinstance(name.value, str)
    return _object_at(reader, str(name.value)) if is_name and isinstance(name, Known) else None


LIBRARIES: Mapping[str, Library] = {
    **dict.fromkeys(("hydra.utils.instantiate", "hydra.utils.call", "instantiate"), _instantiate),
    **dict.fromkeys((f"hydra.utils.get_{kind}" for kind in ("class", "object", "method")), _object_named),
    **dict.fromkeys(("yaml.safe_load", "yaml.load", "yaml.full_load", "safe_load", "ruamel.yaml.YAML().load"), load),
    **dict.fromkeys(("json.load", "json.loads", "toml.load", "toml.loads"), load),
    **dict.fromkeys((f"{name}.{verb}" for name in ("tomllib", "tomli", "rtoml") for verb in ("load", "loads")), load),
    **dict.fromkeys(("tomlkit.load", "tomlkit.parse", "tomlkit.loads"), load),
    **dict.fromkeys(("omegaconf.OmegaConf.load", "OmegaConf.load"), load),
    **dict.fromkeys((f"omegaconf.OmegaConf.{name}" for name in ("create", "to_container")), _create),
    "omegaconf.OmegaConf.to_object": _object,
    "omegaconf.OmegaConf.structured": structured,
    **dict.fromkeys(("omegaconf.OmegaConf.merge", "omegaconf.OmegaConf.unsafe_merge"), _merge),
    **dict.fromkeys(("omegaconf.OmegaConf.from_cli", "omegaconf.OmegaConf.from_dotlist"), _command_line),
    **dict.fromkeys((".EasyDict", ".DotDict", ".DotMap", ".Box", ".AttrDict", ".DictConfig", ".Munch"), _create),
}
