"""Methods of scalars, lists and dictionaries, and of objects of the repository's classes that behave like them."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Callable

from memlint.source.python import operations
from memlint.source.python.classes import external_bases, instance
from memlint.source.python.members import OBJECT, PARAMETERS, class_member, elements, merge
from memlint.source.python.reader import Call, Reader
from memlint.source.python.values import (
    Class,
    Either,
    Instance,
    Items,
    Known,
    Made,
    Table,
    Undetermined,
    Value,
    either,
)


def method(reader: Reader, owner: Value, name: str, given: Call) -> Value | None:
    """The value of `owner.name(...)` if `owner` is a scalar, a list or a dictionary; None for any other owner."""
    if isinstance(owner, Known) and isinstance(owner.value, str):
        if name in ("resolve", "absolute", "expanduser", "as_posix", "__str__"):  # a path
            return owner
        if name == "joinpath":
            return _joined(owner, given.positional)
        if name in ("exists", "is_file"):
            return is_there(reader, owner, given)
        if name in ("read_text", "open", "read_bytes"):
            return Made("open", (owner,), source=given.source)
        return operations.text_method(owner.value, name, list(given.positional), dict(given.named))
    if isinstance(owner, Table):
        function = _TABLE.get(name)
        return function(reader, owner, given) if function and name not in owner.values else None
    if isinstance(owner, Items):
        function_of_list = _LIST.get(name)
        return function_of_list(reader, owner, given) if function_of_list else None
    if isinstance(owner, Either) and name in _LIST and all(isinstance(one, Items) for one in owner.values):
        return either([_LIST[name](reader, one, given) for one in owner.values], owner.reason)  # type: ignore[arg-type]
    if isinstance(owner, Class) and name == "from_pretrained" and name not in owner.methods and external_bases(owner):
        return _loaded(reader, owner, given)
    inherited = reader.libraries.get(f"inherited {name}") if isinstance(owner, (Instance, Class)) else None
    if inherited is not None and _is_inherited(owner, name):
        return inherited(reader, given._replace(owner=owner))
    if isinstance(owner, Class) and name in _VALIDATES and name not in owner.methods:
        return _validated(reader, owner, given)
    if isinstance(owner, Instance) and _is_inherited(owner, name):
        if name in _ITSELF:
            return owner
        if name in PARAMETERS:
            return Made(name, (), {}, given.source, module_of(owner))
    if isinstance(owner, Instance) and name not in owner.of.methods:
        if name in _DUMPS:
            return Table(dict(owner.attributes), owner.source)
        if name in _COPIES:
            return _copy_with(reader, owner, given)
    return None


def _is_inherited(owner: Value, name: str) -> bool:
    """Whether a class of a library, from which one of the repository derives, has a method that it leaves as it is."""
    of = owner.of if isinstance(owner, Instance) else owner
    return isinstance(of, Class) and class_member(of, name) is None and bool(external_bases(of))


def _joined(path: Value, parts: tuple[Value, ...]) -> Value:
    """`path.joinpath("configs", name)`."""
    for part in parts:
        path = operations.binary(ast.Div(), path, part)
    return path


_ITSELF = frozenset(("to", "cuda", "cpu", "train", "eval", "half", "bfloat16", "float"))  # of torch.nn.Module


def module_of(owner: Instance) -> Made:
    """The model that a module of the repository holds (`self.llm = AutoModel.from_pretrained(...)`), else itself."""
    found = held_model(owner)
    if found is None:
        found = Made(owner.of.name, (), {}, owner.source)
        found.attributes[OBJECT] = owner
    return found


def held_model(owner: Instance) -> Made | None:
    """The model of a library that a module of the repository loads and keeps."""
    loaded = (one for one in owner.attributes.values() if isinstance(one, Made) and _loads_weights(one))
    return next(loaded, None)


def _loads_weights(value: Value, depth: int = 0) -> bool:
    if not isinstance(value, Made) or depth > 4:
        return False
    inner = (value.base, *value.positional) if value.base is not None else value.positional
    if value.last == "from_pretrained":
        loaded = value.name.removesuffix(".from_pretrained")
        return not loaded.endswith(_READS_TEXT) and (depth > 0 or not loaded.endswith("Config"))
    return any(_loads_weights(one, depth + 1) for one in inner)


_READS_TEXT = ("Tokenizer", "TokenizerFast", "Processor", "FeatureExtractor")


# Attributes of an object that a class of the repository loads: the name of the class, and the names of the library's
# classes that it derives from.
OWN_CLASS, LIBRARY_CLASSES = "class of the repository", "classes of a library"


def _loaded(reader: Reader, owner: Class, given: Call) -> Value:
    """`MyModelForCausalLM.from_pretrained(...)`, of a class that derives from one of a library."""
    made = Made(f"{owner.name}.from_pretrained", given.positional, given.named, given.source, None, given.is_open)
    made.attributes[OWN_CLASS] = Known(owner.name)
    made.attributes[LIBRARY_CLASSES] = Known(" ".join(base.name for base in external_bases(owner)))
    reader.made(made)
    reader.observe(made)
    return made


_CONFIG_SUFFIXES = (".json", ".yaml", ".yml", ".toml")
# What libraries write beside the weights that they save: a run before this one may have.
_SAVED = re.compile(r"(?:adapter_config|config|trainer_state|tokenizer_config|[\w.]+\.index)\.json$")


def is_there(reader: Reader, path: Value, given: Call) -> Value:
    """Whether a file exists. Known only for configuration files, which the repository has or not."""
    if isinstance(path, Known) and isinstance(path.value, str) and path.value.endswith(_CONFIG_SUFFIXES):
        is_here = reader.find(path.value) is not None
        if is_here or not _SAVED.match(posixpath.basename(path.value)):
            return Known(is_here, given.source)
    return Undetermined("whether a file exists", given.source)


# pydantic 2.13 main.py: class methods that make an object from a mapping.
_VALIDATES = frozenset({"model_validate", "parse_obj", "model_construct"})


def _validated(reader: Reader, owner: Class, given: Call) -> Value | None:
    values = Table(dict(given.named), given.source, given.is_open)
    for value in given.positional[:1]:
        if not isinstance(value, Table):
            return value if isinstance(value, (Instance, Undetermined)) else None
        merge(values, value)
    names = {key: value for key, value in values.values.items() if isinstance(key, str)}
    return instance(reader, owner, Call("", (), names, given.source, values.is_open))


_DUMPS = frozenset({"model_dump", "dict", "to_dict", "_asdict"})
_COPIES = frozenset({"_replace", "model_copy"})  # a NamedTuple's and pydantic's


def _copy_with(reader: Reader, owner: Instance, given: Call) -> Value:
    """`config._replace(length=2048)`, `config.model_copy(update={"length": 2048})`: an object with other values."""
    changed = Table({})
    merge(changed, given.named.get("update") or Table(dict(given.named)))
    return reader.made(owner.with_values(changed.values, given.source))  # type: ignore[no-any-return]


def _get(reader: Reader, owner: Table, given: Call) -> Value:
    key = given.argument(0, "key")
    default = given.argument(1, "default") or Known(None, given.source)
    if not isinstance(key, Known):
        return Undetermined("an item under an unknown key", given.source)
    found = owner.values.get(key.value)
    if found is None and owner.is_open:
        return either([Undetermined(f"the key `{key.value}`", given.source), default], f"`{key.value}` may be given")
    return found or default


def _pop(reader: Reader, owner: Table, given: Call) -> Value:
    found = _get(reader, owner, given)
    key = given.argument(0, "key")
    if isinstance(key, Known) and not reader.in_doubt:
        owner.values.pop(key.value, None)
    return found


def _set_default(reader: Reader, owner: Table, given: Call) -> Value:
    found = _get(reader, owner, given)
    key = given.argument(0, "key")
    if isinstance(key, Known) and key.value not in owner.values:
        reader.set(owner.values, owner, key.value, found)
    return found


def _update(reader: Reader, owner: Table, given: Call) -> Value:
    other = Table(dict(given.named), is_open=given.is_open)
    for value in given.positional:
        merge(other, value)
    for key, value in other.values.items():
        reader.set(owner.values, owner, key, value)
    owner.is_open = owner.is_open or other.is_open
    return Known(None)


def _pairs(reader: Reader, owner: Table, given: Call) -> Value:
    pairs: list[Value] = [Items([Known(key), value]) for key, value in owner.values.items()]
    return Items(pairs, owner.source, owner.is_open)


def _keys(reader: Reader, owner: Table, given: Call) -> Value:
    return Items([Known(key) for key in owner.values], owner.source, owner.is_open)


def _values(reader: Reader, owner: Table, given: Call) -> Value:
    return Items(list(owner.values.values()), owner.source, owner.is_open)


def _copy(reader: Reader, owner: Table, given: Call) -> Value:
    return reader.made(Table(dict(owner.values), owner.source, owner.is_open))  # type: ignore[no-any-return]


def _append(reader: Reader, owner: Items, given: Call) -> Value:
    if reader.in_doubt:
        owner.is_open = True
    else:
        owner.values += given.positional[:1]
    return Known(None)


def _take_out(reader: Reader, owner: Items, given: Call) -> Value:
    """`remove`, `discard`: removes the items equal to the argument, if all items of the list are known."""
    out = given.argument(0, "")
    if reader.in_doubt or not isinstance(out, Known):
        owner.is_open = True
        return Known(None)
    owner.values[:] = [one for one in owner.values if not (isinstance(one, Known) and one.value == out.value)]
    return Known(None)


def _extend(reader: Reader, owner: Items, given: Call) -> Value:
    more = elements(given.positional[0]) if given.positional else None
    if more is None or reader.in_doubt:
        owner.is_open = True
    else:
        owner.values += more
    return Known(None)


def _copy_list(reader: Reader, owner: Items, given: Call) -> Value:
    return reader.made(Items(list(owner.values), owner.source, owner.is_open))  # type: ignore[no-any-return]


_TABLE: dict[str, Callable[[Reader, Table, Call], Value]] = {
    "get": _get,
    "pop": _pop,
    "setdefault": _set_default,
    "update": _update,
    "items": _pairs,
    "keys": _keys,
    "values": _values,
    "copy": _copy,
    "to_dict": _copy,
}
_LIST: dict[str, Callable[[Reader, Items, Call], Value]] = {
    "append": _append,
    "add": _append,
    "extend": _extend,
    "update": _extend,
    "remove": _take_out,
    "discard": _take_out,
    "copy": _copy_list,
}
