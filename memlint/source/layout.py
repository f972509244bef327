"""The place of every value of a document, as offsets that become spans on demand.

A loader writes one entry for each value, in the shape of the value itself: a dict of entries for a mapping, a
list of entries for a sequence. `Places` and `PlainScalars` look up paths in it. Most files have no finding, so most
spans are never computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memlint.source.document import Document, Path, Place, Span, place
from memlint.source.lines import Lines

# (key start, key end, value start, value end, is a plain scalar, entries below); key start is -1 without a key.
Entry = tuple[int, int, int, int, bool, Any]


def find(root: Entry, path: Path) -> Entry | None:
    """The entry at `path`, or None."""
    entry = root
    for part in path:
        below = entry[5]
        if isinstance(below, list) and not (type(part) is int and 0 <= part < len(below)):
            return None
        if below is None or (isinstance(below, dict) and part not in below):
            return None
        entry = below[part]
    return entry


def shared_steps(path: Sequence[object], other: Sequence[object]) -> int:
    """How many steps two paths have in common before they differ."""
    return next((at for at, (one, two) in enumerate(zip(path, other)) if one != two), min(len(path), len(other)))


def walk(root: Entry) -> Iterator[tuple[Path, Entry]]:
    """Every path, parents first, in the order of the text. Aliased values are visited at each of their paths."""
    pending: list[tuple[Path, Entry]] = [((), root)]
    while pending:
        path, entry = pending.pop()
        yield path, entry
        below = entry[5]
        if below:
            items = below.items() if isinstance(below, dict) else enumerate(below)
            pending += reversed([((*path, part), child) for part, child in items])


class Places(Mapping[Path, Place]):
    """The places of all values by path. Paths below an alias lead to the anchor's contents."""

    __slots__ = ("lines", "root")

    def __init__(self, root: Entry, lines: Lines) -> None:
        self.root = root
        self.lines = lines

    def with_keys(self, below: dict[Any, Entry]) -> Places:
        """The places of a mapping with other keys, at the same place."""
        return Places((*self.root[:5], below), self.lines)

    def __getitem__(self, path: Path) -> Place:
        entry = find(self.root, path)
        if entry is None:
            raise KeyError(path)
        span = self.lines.span
        key = span(entry[0], entry[1]) if entry[0] >= 0 else None
        return Place(key, span(entry[2], entry[3]))

    def __contains__(self, path: object) -> bool:
        return isinstance(path, tuple) and find(self.root, path) is not None

    def __iter__(self) -> Iterator[Path]:
        return (path for path, _ in walk(self.root))

    def __len__(self) -> int:
        return sum(1 for _ in walk(self.root))


def position(document: Document, path: Path) -> tuple[int, int]:
    """Line and column of the value at `path`, or of its nearest ancestor that has a place; (0, 0) if none has one."""
    places = document.places
    if isinstance(places, Places):
        entry = find(places.root, path)
        if entry is not None:
            return places.lines.position(entry[2])
    found = place(document, path)
    return (0, 0) if found is None else (found.value.line, found.value.column)


def key_text(document: Document, path: Path) -> str:
    """The key at `path` as it is written; "" where the text has none."""
    places = document.places
    entry = find(places.root, path) if isinstance(places, Places) else None
    return "" if entry is None or entry[0] < 0 else document.text[entry[0] : entry[1]]


def written_text(document: Document, path: Path) -> str:
    """The value at `path` as it is written, quotes and all; "" where the text has none."""
    places = document.places
    entry = find(places.root, path) if isinstance(places, Places) else None
    return "" if entry is None else document.text[entry[2] : entry[3]]


def members(document: Document, path: Path) -> dict[Path, Span]:
    """The paths of the keys in the mapping at `path`, each with the span of its key, in the order of the text."""
    places = document.places
    if isinstance(places, Places):
        entry = find(places.root, path)
        below = entry[5] if entry is not None and isinstance(entry[5], dict) else {}
        keyed = sorted(((key, child) for key, child in below.items() if child[0] >= 0), key=lambda item: item[1][0])
        return {(*path, key): places.lines.span(child[0], child[1]) for key, child in keyed}
    found = ((at, here.key) for at, here in places.items() if at[:-1] == path and here.key is not None)
    return dict(sorted(found, key=lambda item: item[1].start))


class PlainScalars(Mapping[Path, str]):
    """The raw text of plain scalars by path. `must_reload`: more than plain scalars may change with the dialect."""

    __slots__ = ("must_reload", "root", "text", "value")

    def __init__(self, root: Entry, text: str, value: Any, must_reload: bool) -> None:
        self.root = root
        self.text = text
        self.value = value
        self.must_reload = must_reload

    def __getitem__(self, path: Path) -> str:
        entry = find(self.root, path)
        if entry is None or not entry[4]:
            raise KeyError(path)
        value = self.value
        for part in path:
            value = value[part]
        return raw(entry, value, self.text)

    def __iter__(self) -> Iterator[Path]:
        return (path for path, entry in walk(self.root) if entry[4])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def raw(entry: Entry, value: object, text: str) -> str:
    """The raw text of a plain scalar. Only strings can be folded over lines, and they are their own raw text."""
    return value if isinstance(value, str) else text[entry[2] : entry[3]]
