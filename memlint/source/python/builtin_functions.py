"""Python's built-in functions, applied to known values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from memlint.source.python import operations
from memlint.source.python.limits import MAX_ITEMS
from memlint.source.python.members import attribute, by_name, elements, merge, parameters_in, set_attribute
from memlint.source.python.reader import Call, Library, Reader
from memlint.source.python.values import (
    Class,
    Either,
    External,
    Instance,
    Items,
    Known,
    Made,
    Table,
    Undetermined,
    Value,
    either,
    plain,
    source_of,
)

_NOT_FOLLOWED = "computed from what memlint does not know"


def _on_scalars(function: Callable[..., Any]) -> Library:
    """A handler that applies `function` to scalars. The place of a single argument that does not change is kept."""

    def apply(reader: Reader, given: Call) -> Value:
        if any(isinstance(one, Either) for one in given.positional) and len(given.positional) == 1:
            (one,) = given.positional
            assert isinstance(one, Either)
            return either([apply(reader, given._replace(positional=(each,))) for each in one.values], one.reason)
        try:
            values = [plain(one) for one in given.positional]
            result = function(*values)
        except (ValueError, TypeError, OverflowError, ZeroDivisionError):
            unknown = next((one for one in given.positional if isinstance(one, Undetermined)), None)
            return unknown or Undetermined(_NOT_FOLLOWED, given.source)
        if not isinstance(result, (str, int, float, bool, type(None))):
            return Undetermined(_NOT_FOLLOWED, given.source)
        same = len(values) == 1 and result == values[0] and type(result) is type(values[0])
        return Known(result, source_of(given.positional[0]) if same else given.source)

    return apply


def _whole(value: Any) -> int:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError
    return int(value)


def _length(reader: Reader, given: Call) -> Value:
    (value,) = given.positional or (Undetermined("nothing"),)
    if isinstance(value, (Items, Table)) and not value.is_open:
        return Known(len(value.values), given.source)
    if isinstance(value, Known) and isinstance(value.value, str):
        return Known(len(value.value), given.source)
    return Undetermined("the length of something unknown", given.source)


def _range(reader: Reader, given: Call) -> Value:
    numbers = [one.value for one in given.positional if isinstance(one, Known) and isinstance(one.value, int)]
    if len(numbers) != len(given.positional) or not numbers or 0 in numbers[2:]:
        return Items([], given.source, is_open=True)
    found = range(*numbers[:3])
    return Items([Known(one) for one in found[:MAX_ITEMS]], given.source, is_open=len(found) > MAX_ITEMS)


def _list(reader: Reader, given: Call) -> Value:
    if not given.positional:
        return reader.made(Items([], given.source))  # type: ignore[no-any-return]
    of = given.positional[0]
    found = elements(of)
    if found is None and isinstance(of, Items):
        found = list(of.values)
        return reader.made(Items(found, given.source, is_open=True))  # type: ignore[no-any-return]
    return reader.made(Items(found or [], given.source, is_open=found is None))  # type: ignore[no-any-return]


def _dict(reader: Reader, given: Call) -> Value:
    parameters = parameters_in(given.positional[0]) if len(given.positional) == 1 else None
    if parameters is not None:
        return parameters  # `dict(model.named_parameters())`
    found = reader.made(Table({}, given.source, given.is_open))
    for value in given.positional:
        merge(found, value)
    found.values.update(given.named)
    return found  # type: ignore[no-any-return]


def _variables(reader: Reader, given: Call) -> Value:
    """`vars(args)`, `asdict(config)`: the same values by name."""
    (value,) = given.positional[:1] or (Undetermined("nothing"),)
    return by_name(value, given.source)


def _replaced(reader: Reader, given: Call) -> Value:
    """`dataclasses.replace(config, length=2048)`: an object like it, with other values."""
    of = given.argument(0)
    if not isinstance(of, Instance):
        return Undetermined("a copy of something unknown", given.source)
    return reader.made(of.with_values(given.named, given.source))  # type: ignore[no-any-return]


# Attributes that scripts query, with their value for every decoder model (transformers 5.23 modeling_utils.py).
_OF_MODELS = {"supports_gradient_checkpointing": True}


def _get_attribute(reader: Reader, given: Call) -> Value:
    owner, name = given.argument(0), given.argument(1)
    if owner is None or not isinstance(name, Known) or not isinstance(name.value, str):
        return Undetermined("an attribute of unknown name", given.source)
    default = given.argument(2)
    if name.value in _OF_MODELS and default is not None:
        return Known(_OF_MODELS[name.value], given.source)
    if isinstance(owner, External):
        return External(f"{owner.name}.{name.value}")
    found = attribute(owner, name.value)
    is_missing = isinstance(found, Undetermined) or (isinstance(found, External) and not isinstance(owner, External))
    return default if is_missing and default is not None and not _may_have(owner) else found


def _may_have(owner: Value) -> bool:
    """Whether an object may have attributes that are not known."""
    return isinstance(owner, (Undetermined, Either)) or (isinstance(owner, Table) and owner.is_open)


def _has_attribute(reader: Reader, given: Call) -> Value:
    owner, name = given.argument(0), given.argument(1)
    if isinstance(owner, (Table, Instance, Class)) and isinstance(name, Known) and not _may_have(owner):
        return Known(not isinstance(attribute(owner, str(name.value)), (Undetermined, External)), given.source)
    return Undetermined("whether something has an attribute", given.source)


def _set_attribute(reader: Reader, given: Call) -> Value:
    owner, name, value = given.argument(0), given.argument(1), given.argument(2)
    if isinstance(name, Known) and value is not None and owner is not None:
        set_attribute(reader, owner, str(name.value), value)
    elif isinstance(owner, Table):
        owner.is_open = True
    elif reader.command.is_given and isinstance(owner, (Instance, Class)):
        _forget(owner, given)
    return Known(None)


def _forget(owner: Instance | Class, given: Call) -> None:
    """Handles setting an attribute with an unknown name: every attribute that an option of the command could name
    becomes unknown."""
    holder = owner.attributes if isinstance(owner, Instance) else owner.fields
    for name in holder:
        holder[name] = Undetermined("set under a name that memlint does not know", given.source)


_TYPES = {"str": str, "int": int, "float": float, "bool": bool, "list": list, "tuple": list, "dict": dict}
_ABSTRACT = {
    **dict.fromkeys(("Mapping", "MutableMapping", "DictConfig"), dict),
    **dict.fromkeys(("Sequence", "Iterable", "ListConfig"), list),
}


def _is_instance(reader: Reader, given: Call) -> Value:
    value, kind = given.argument(0), given.argument(1)
    kinds = kind.values if isinstance(kind, Items) else [kind]
    if isinstance(value, Made) and any(isinstance(one, External) and one.name == value.name for one in kinds):
        return Known(True, given.source)  # `isinstance(model, DistributedDataParallel)`
    types = [_TYPES.get(one.name) or _ABSTRACT.get(one.last) for one in kinds if isinstance(one, External)]
    own = type(value.value) if isinstance(value, Known) else _KINDS.get(type(value))
    if isinstance(value, Made) and value.last[:1].isupper():
        own = object
    if own is None or len(types) < len(kinds) or None in types:
        return Undetermined("the type of something", given.source)
    return Known(any(issubclass(own, one) for one in types if one is not None), given.source)


_KINDS: dict[type, type] = {Items: list, Table: dict}


def _zip(reader: Reader, given: Call) -> Value:
    lists = [elements(value) for value in given.positional]
    if any(one is None for one in lists):
        return Items([], given.source, is_open=True)
    return Items([Items(list(row)) for row in zip(*(one or [] for one in lists))], given.source)


def _enumerate(reader: Reader, given: Call) -> Value:
    found = elements(given.positional[0]) if given.positional else None
    if found is None:
        return Items([], given.source, is_open=True)
    return Items([Items([Known(number), value]) for number, value in enumerate(found)], given.source)


def _all(reader: Reader, given: Call) -> Value:
    found = elements(given.positional[0]) if given.positional else None
    known = [operations.truth(value) for value in found or ()]
    if found is None or None in known:
        return Undetermined("a condition over several values", given.source)
    return Known(all(known) if given.name == "all" else any(known), given.source)


def _nothing(reader: Reader, given: Call) -> Value:
    return Known(None)


FUNCTIONS: dict[str, Library] = {
    "int": _on_scalars(_whole),
    "float": _on_scalars(float),
    "str": _on_scalars(lambda value="": str(value)),
    "bool": _on_scalars(lambda value=False: bool(value)),
    "abs": _on_scalars(abs),
    "round": _on_scalars(round),
    "max": _on_scalars(max),
    "min": _on_scalars(min),
    "sum": _on_scalars(sum),
    "math.ceil": _on_scalars(math.ceil),
    "math.floor": _on_scalars(math.floor),
    "len": _length,
    "range": _range,
    "list": _list,
    "tuple": _list,
    "set": _list,
    "sorted": _list,
    "dict": _dict,
    "vars": _variables,
    "asdict": _variables,
    "dataclasses.asdict": _variables,
    "dataclasses.replace": _replaced,
    "getattr": _get_attribute,
    "hasattr": _has_attribute,
    "setattr": _set_attribute,
    "isinstance": _is_instance,
    "zip": _zip,
    "enumerate": _enumerate,
    "all": _all,
    "any": _all,
    "print": _nothing,
}
