"""Which releases of a framework take a key: tables that tools/key_releases.py writes, one beside each format."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from memlint._record import NamedTuple
from memlint.formats.base import Context, Issue
from memlint.formats.fields import Fields, Section
from memlint.run import Origin

_MOST_NAMED = 3
_ROOT = os.path.dirname(__file__)


class Refusal(NamedTuple):
    """`keys` that `release` does not take. `is_stated`: somebody says that this release runs; else every release
    refuses some keys, and this one the fewest."""

    release: str
    keys: tuple[str, ...]
    is_stated: bool


class KeyReleases:
    """The releases of one program, the oldest first, and the keys that each takes."""

    __slots__ = ("_names", "_taken")

    def __init__(self, releases: list[str], groups: dict[str, str]) -> None:
        self._names = releases
        taken: list[set[str]] = [set() for _ in releases]
        for numbers, keys in groups.items():
            for index in _numbers(numbers):
                taken[index].update(keys.split())
        self._taken = tuple(map(frozenset, taken))

    def knows(self, key: str) -> bool:
        """Whether any release takes the key."""
        return any(key in one for one in self._taken)

    def refusal(self, keys: Iterable[str], stated: tuple[int, ...], abbreviates: bool = False) -> Refusal | None:
        """What the stated release refuses of `keys`; without one, what no release takes together. None where all are
        taken. A commit between two releases may take the keys of both, and so may a release that is not in the table.
        `abbreviates`: the parser takes the beginning of a key for the key (argparse).
        """
        asked = tuple(keys)
        if stated:
            window = self._around(stated)
            taken = self._union(window)  # empty where the release does not have the program
            left = _left(asked, taken, abbreviates) if taken else ()
            return Refusal(self._names[window[-1]], left, True) if left else None
        indexes = range(len(self._names))
        found = [(_left(asked, self._union((index, index + 1)), abbreviates), index) for index in indexes]
        left, index = min(found, key=lambda one: (len(one[0]), -one[1]))
        return Refusal(self._names[index], left, False) if left else None

    def newest(self, keys: Iterable[str], before: tuple[int, ...] = ()) -> tuple[int, ...]:
        """The newest release that takes all of the keys that any release takes; () where none takes them together.
        `before`: only older ones than this."""
        asked = [key for key in keys if self.knows(key)]
        for name, taken in zip(reversed(self._names), reversed(self._taken)):
            release = tuple(map(int, name.split(".")))
            if (not before or release < before) and taken.issuperset(asked):
                return release
        return ()

    def _around(self, stated: tuple[int, ...]) -> tuple[int, ...]:
        """The release itself where the table has it, else its neighbours; nothing before the first and after the last
        (a newer one may take more)."""
        known = [tuple(map(int, name.split("."))) for name in self._names]
        exact = tuple(index for index, one in enumerate(known) if one[: len(stated)] == stated[: len(one)])
        older = [index for index, one in enumerate(known) if one < stated]
        newer = [index for index, one in enumerate(known) if one > stated]
        return exact or ((older[-1], newer[0]) if older and newer else ())

    def _union(self, indexes: Iterable[int]) -> frozenset[str]:
        return frozenset().union(*(self._taken[index] for index in indexes if index < len(self._taken)))


def put_release(fields: Fields, name: str, context: Context) -> None:
    """The framework's release, where somebody states it."""
    stated = context.versions.get(name)
    if stated:
        fields.put("stack.framework_version", tuple(stated), context.version_origins.get(name, Origin("setting")))


def refused_keys(
    section: Section,
    table: KeyReleases,
    refusal: Refusal,
    program: str,
    renamed: Callable[[str], str] = lambda key: "",
) -> Iterator[Issue]:
    """One error for what `refusal` names, at the first of the keys. Where nobody states a release, keys that no release
    knows may be a fork's: then nothing. `renamed`: what a key is called in the release, "" where it is gone."""
    if not refusal.is_stated and not all(map(table.knows, refusal.keys)):
        return
    names = ", ".join(f"`{key}`" for key in refusal.keys[:_MOST_NAMED])
    more = f" and {len(refusal.keys) - _MOST_NAMED} more" if len(refusal.keys) > _MOST_NAMED else ""
    key = refusal.keys[0]
    instead = f"; `{key}` is `{renamed(key)}` there" if renamed(key) else ""
    if refusal.is_stated:
        message = f"{program} {refusal.release} does not take {names}{more} and refuses to start{instead}"
    else:
        others = "the other keys" if len(refusal.keys) > 1 else "the others"
        message = f"no release of {program} takes {names}{more} beside {others}, and it refuses to start{instead}"
    code = "unknown-key" if refusal.is_stated else "no-release"
    yield section.issue(code, message, *_pointer(section, key), on_key=True, suggestion=renamed(key))


def _pointer(section: Section, key: str) -> tuple[str, ...]:
    """Where the key stands: as it is in a command of flags, step by step in a file of sections."""
    return (key,) if key in section.value else tuple(key.split("."))


def _left(keys: tuple[str, ...], taken: frozenset[str], abbreviates: bool) -> tuple[str, ...]:
    unknown = (key for key in keys if key not in taken)
    if not abbreviates:
        return tuple(unknown)
    return tuple(key for key in unknown if not any(name.startswith(key) for name in taken))


def _numbers(text: str) -> Iterable[int]:
    """0, 1, 2 and 5 of "0-2,5"."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


@cache
def key_releases(format_name: str, program: str) -> KeyReleases | None:
    """The table of a program of a format; None where there is none."""
    with open(os.path.join(_ROOT, format_name, "key_releases.json"), encoding="utf-8") as file:
        found = json.load(file)
    groups = found["programs"].get(program)
    return KeyReleases(found["releases"], groups) if groups is not None else None
