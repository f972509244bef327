"""The setting `keys`: for a config with keys of its own, which of them becomes which training argument."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.run import Origin
from memlint.source.document import Path


class DeclaredArgument(NamedTuple):
    """Where an argument's value comes from.

    `key`: the file's key, as dotted names ("training.batch_size") or a JSON pointer ("/training/batch_size"); "" if no
    key of the file sets the argument. `value`: the argument if the key is absent; None: it is then not passed.
    `unknown`: why the value is unknown. `written_at`: the place in the settings, "memlint.yaml:12".
    """

    key: str = ""
    value: Any = None
    unknown: str = ""
    written_at: str = ""


def declared_argument(entry: Any, at: Origin) -> DeclaredArgument:
    """The argument of an entry of the settings: a key, or a mapping that says more."""
    declared = {"key": entry} if isinstance(entry, str) else entry
    value = declared.get("value", declared.get("default"))
    return DeclaredArgument(declared.get("key", ""), value, declared.get("unknown", ""), f"{at.path}:{at.line}")


class DeclaredKeys(NamedTuple):
    """One entry of `keys`. `arguments_class`: SFTConfig, TrainingArguments, ..., or "loop".

    `unmodelled`: a change that the script makes to its model and that no argument shows. `origin`: the entry's place.
    """

    arguments_class: str
    arguments: Mapping[str, DeclaredArgument]
    unmodelled: str
    origin: Origin


def path_of(key: str, value: Any) -> Path:
    """The path that `key` means in a file's `value`. Names may contain dots: the longest existing name is taken.

    The missing part of a key that the file does not have is split at each dot.
    """
    if key.startswith("/"):
        names = [part.replace("~1", "/").replace("~0", "~") for part in key[1:].split("/")]
        return _by_kind(names, value)
    names = key.split(".")
    found: list[str] = []
    current = value
    while names:
        ends = range(len(names), 0, -1)
        end = next((end for end in ends if isinstance(current, dict) and ".".join(names[:end]) in current), 1)
        found.append(".".join(names[:end]))
        current, names = _below(current, found[-1]), names[end:]
    return _by_kind(found, value)


def _by_kind(names: list[str], value: Any) -> Path:
    """The names as a path, with digits as an index where `value` has a list."""
    path: list[str | int] = []
    for name in names:
        path.append(int(name) if isinstance(value, list) and name.isdecimal() else name)
        value = _below(value, name)
    return tuple(path)


def _below(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return value.get(name)
    if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
        return value[int(name)]
    return None


def key_of(path: Path) -> str:
    """A path as `keys:` writes it: dotted names, a JSON pointer where a name has a dot or a slash in it."""
    names = [str(part) for part in path]
    if all(name and "." not in name and not name.startswith("/") for name in names):
        return ".".join(names)
    return "".join(f"/{name.replace('~', '~0').replace('/', '~1')}" for name in names)
