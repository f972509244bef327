"""Configuration files that a script loads: their values with the places where they stand."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any

from memlint.source.document import Document, Path
from memlint.source.load import in_dialect
from memlint.source.python import modules
from memlint.source.python.calls import apply
from memlint.source.python.classes import instance
from memlint.source.python.members import merge
from memlint.source.python.reader import Call, Library, Reader
from memlint.source.python.values import (
    Class,
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
    source_of,
)

MAX_VALUES = 4_000
_INTERPOLATION = re.compile(r"^\$\{([A-Za-z_][\w.]*)\}$")
_READS_TEXT = frozenset({"open", "read", "read_text", "io.open"})


def load(reader: Reader, given: Call) -> Value:
    """`yaml.safe_load(stream)`, `json.load(stream)`, `OmegaConf.load(path)` and their relatives."""
    (stream,) = given.positional[:1] or (Undetermined("nothing"),)
    path = _path(stream)
    if path is None:
        return Table({}, given.source, is_open=True)
    document = reader.find(path)
    if document is None:
        return Undetermined(f"`{path}`, which is not there or cannot be read", given.source)
    if "OmegaConf" in given.name:
        document = in_dialect(document, "omegaconf")
    return reader.made(value_of_document(document))  # type: ignore[no-any-return]


def _path(stream: Value) -> str | None:
    """The path behind an opened file or the text that was read from it."""
    for _ in range(4):
        if isinstance(stream, Known):
            return stream.value if isinstance(stream.value, str) else None
        if not isinstance(stream, Made) or stream.last not in _READS_TEXT:
            return None
        stream = stream.positional[0] if stream.last in ("open",) and stream.positional else stream.base or stream
    return None


def value_of_document(document: Document) -> Value:
    """The values of a configuration file."""
    count = [MAX_VALUES]
    root = _of(document, document.value, (), count)
    if isinstance(root, Table):
        _interpolate(root, root)
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
    """A value of Python's own scalars, lists and dictionaries, all of it from one place."""
    if isinstance(value, dict):
        return Table({key: value_of_plain(inner, source) for key, inner in value.items()}, source)
    if isinstance(value, list):
        return Items([value_of_plain(inner, source) for inner in value], source)
    return Known(value, source)


def _interpolate(root: Table, table: Table) -> None:
    """`${a.b}` as OmegaConf reads it."""
    for key, value in table.values.items():
        if isinstance(value, Table):
            _interpolate(root, value)
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


def _structured(reader: Reader, given: Call) -> Value:
    (value,) = given.positional[:1] or (Table({}),)
    if isinstance(value, Class):
        made = instance(reader, value, Call("", (), {}, given.source))
        return Table(dict(made.attributes), made.source)
    return value


def _merge(reader: Reader, given: Call) -> Value:
    found = reader.made(Table({}, given.source))
    for value in given.positional:
        _merge_deep(found, value)
    return found  # type: ignore[no-any-return]


def _merge_deep(into: Table, other: Value) -> None:
    if not isinstance(other, Table):
        merge(into, other)
        return
    into.is_open = into.is_open or other.is_open
    for key, value in other.values.items():
        old = into.values.get(key)
        if isinstance(old, Table) and isinstance(value, Table):
            both = Table(dict(old.values), old.source, old.is_open)
            _merge_deep(both, value)
            into.values[key] = both
        else:
            into.values[key] = value


def _command_line(reader: Reader, given: Call) -> Value:
    """`OmegaConf.from_cli()`."""
    found = Table({}, given.source)
    for path, value in reader.command.overrides.items():
        _override(found, path, value)
    return reader.made(found)  # type: ignore[no-any-return]


def hydra_main(reader: Reader, given: Call) -> Value | None:
    """`@hydra.main(config_path, config_name)`: the function with the composed configuration as its first argument."""
    folder, name = given.argument(0, "config_path"), given.argument(1, "config_name")
    if not isinstance(given.owner, PythonFunction) or not isinstance(name, Known):
        return None
    base = folder.value if isinstance(folder, Known) and isinstance(folder.value, str) else ""
    word = str(name.value).removesuffix(".yaml")
    if reader.config:
        base, word = posixpath.split(reader.config.removesuffix(".yaml").removesuffix(".yml"))
    base, word = _said(reader, base, "config_path", "cp"), _said(reader, word, "config_name", "cn")
    found = _composed(reader, base, word.removesuffix(".yaml"))
    config = found if found is not None else Table({}, given.source, is_open=True)
    for path, value in reader.command.overrides.items():
        _override(config, path, _chosen(reader, base, path, value) or value)
    _interpolate(config, config)
    return PythonFunction(given.owner.node, given.owner.module, given.owner.scope, config)


def _said(reader: Reader, otherwise: str, *names: str) -> str:
    """The word that the command line has for one of Hydra's own options."""
    (word,) = (reader.words(*names) or (None,))[:1]
    return str(word.value) if isinstance(word, Known) else otherwise


def _chosen(reader: Reader, folder: str, name: str, choice: Value) -> Table | None:
    """The file of a config group that `group=choice` names (hydra 1.3 docs, config groups); None where it is none."""
    is_name = isinstance(choice, Known) and isinstance(choice.value, str) and "." not in name
    return _composed(reader, folder, f"{name}/{choice.value}") if is_name and isinstance(choice, Known) else None


def _override(config: Table, path: str, value: Value) -> None:
    """`a.b=value` of the command line."""
    *above, last = path.split(".")
    owner = config
    for step in above:
        inner = owner.values.setdefault(step, Table({}, source_of(value)))
        if not isinstance(inner, Table):
            return
        owner = inner
    owner.values[last] = value


def _composed(reader: Reader, folder: str, name: str, depth: int = 0) -> Table | None:
    """A Hydra configuration with its defaults list: config groups, and the file's own values at `_self_`. Its
    interpolations stay as they are written: overrides come first."""
    document = reader.find(posixpath.join(folder, f"{name}.yaml"))
    read = in_dialect(document, "omegaconf") if document is not None else None
    own = _of(read, read.value, (), [MAX_VALUES]) if read is not None else None
    if not isinstance(own, Table) or depth > 8:
        return None
    defaults = own.values.pop("defaults", None)
    merged = Table({}, own.source)
    is_self_placed = False
    for entry in defaults.values if isinstance(defaults, Items) else ():
        if isinstance(entry, Known) and entry.value == "_self_":
            _merge_deep(merged, own)
            is_self_placed = True
        else:
            _merge_default(reader, merged, folder, entry, depth)
    if not is_self_placed:
        _merge_deep(merged, own)
    return merged


def _merge_default(reader: Reader, merged: Table, folder: str, entry: Value, depth: int) -> None:
    """One entry of a defaults list: `name`, `group: name`, `override /group: name`, `optional group: name`."""
    if isinstance(entry, Known):
        found = _composed(reader, folder, str(entry.value).lstrip("/"), depth + 1)
        if found is not None:
            _merge_deep(merged, found)
        return
    for key, value in entry.values.items() if isinstance(entry, Table) else ():
        group = str(key).split()[-1].lstrip("/")
        if isinstance(value, Known) and isinstance(value.value, str):
            found = _composed(reader, folder, posixpath.join(group, value.value), depth + 1)
            package = group.partition("@")[2] or group.partition("@")[0]
            inner = found
            for name in reversed(package.split("/")):
                inner = Table({name: inner}) if inner is not None else None
            if inner is not None:
                _merge_deep(merged, inner)


def _instantiate(reader: Reader, given: Call) -> Value | None:
    """`hydra.utils.instantiate(config, **arguments)`: what `_target_` names, made of the other keys."""
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
    """What a dotted name stands for: a class of the repository, else one outside of it."""
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
    **dict.fromkeys((f"omegaconf.OmegaConf.{name}" for name in ("create", "to_container", "to_object")), _create),
    "omegaconf.OmegaConf.structured": _structured,
    **dict.fromkeys(("omegaconf.OmegaConf.merge", "omegaconf.OmegaConf.unsafe_merge"), _merge),
    **dict.fromkeys(("omegaconf.OmegaConf.from_cli", "omegaconf.OmegaConf.from_dotlist"), _command_line),
    **dict.fromkeys((".EasyDict", ".DotDict", ".Box", ".AttrDict", ".DictConfig", ".Munch"), _create),
    "@hydra.main": hydra_main,
}
