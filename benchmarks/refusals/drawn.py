"""Sound configurations with up to three changes, as a seed draws them."""

from __future__ import annotations

import copy
import random
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from benchmarks.mistakes.changes import slip
from benchmarks.mistakes.fields import Field, Place

Options = Mapping[Place, tuple[Any, ...]]
MISSING = object()  # as a value: the key is taken out
UNDECIDED = "undecided"  # a judge's answer where its machine lacks what the configuration asks for
# What stands where a field of a kind is read.
_WRONG: Mapping[type, tuple[Any, ...]] = {
    int: ("many", 1.5, -1, 0),
    float: ("high", -0.5, 2.0),
    bool: ("maybe", "enable", 2),
    str: (),
}


class Original(NamedTuple):
    """`content` by keys, nested where the file is; `options` are the values that draws set there."""

    content: Mapping[str, Any]
    options: Options


def changed(
    original: Original, fields: Mapping[Place, Field], draw: random.Random, kept: Collection[Place] = ()
) -> dict[str, Any]:
    """`original` with one to three changes: an option of the table, a slip in a key, a value of another kind. Keys of
    `kept` are never misspelt."""
    value: dict[str, Any] = copy.deepcopy(dict(original.content))
    for _ in range(draw.randint(1, 3)):
        kind = draw.choices(("option", "slip", "kind"), (7, 1, 2))[0]
        if kind == "option":
            place = draw.choice(sorted(original.options))
            put(value, place, draw.choice(original.options[place]))
        elif kind == "slip":
            _misspell(value, sorted(set(fields) - set(kept)), fields, draw)
        else:
            place = draw.choice(sorted(place for place, field in fields.items() if _wrong(field)))
            put(value, place, draw.choice(_wrong(fields[place])))
    return value


def _wrong(field: Field) -> tuple[Any, ...]:
    return ("best", *field.choices) if field.choices else _WRONG.get(field.kind, ())


def put(value: dict[str, Any], place: Place, item: Any) -> None:
    for step in place[:-1]:
        inner = value.setdefault(step, {})
        if not isinstance(inner, dict):
            inner = value[step] = {}
        value = inner
    if item is MISSING:
        value.pop(place[-1], None)
    else:
        value[place[-1]] = copy.deepcopy(item)


def _misspell(value: dict[str, Any], places: list[Place], fields: Mapping[Place, Field], draw: random.Random) -> None:
    """A key that stands there, or a new one, with one slip of the fingers."""
    present = [place for place in places if _holds(value, place)]
    place = draw.choice(present if present and draw.random() < 0.7 else places)
    held = _holds(value, place)
    name = slip(place[-1], draw)
    item = _get(value, place) if held else fields[place].usual
    put(value, place, MISSING)
    put(value, (*place[:-1], name), item)


def flags(value: Mapping[str, Any]) -> list[str]:
    """The words with which a command says a configuration: a switch that is on has no value, one that is off is left
    out."""
    words: list[str] = []
    for key, item in value.items():
        if item is False:
            continue
        words.append(f"--{key}")
        if item is not True:
            words.extend(map(str, item if isinstance(item, list) else [item]))
    return words


def _holds(value: Any, place: Place) -> bool:
    for step in place:
        if not isinstance(value, dict) or step not in value:
            return False
        value = value[step]
    return True


def _get(value: Any, place: Place) -> Any:
    for step in place:
        value = value[step]
    return value
