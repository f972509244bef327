"""Stores the reports of very many files in little memory: pickled and compressed in blocks, unpacked block by block.

A report (findings, phases of estimates, the texts of excerpts) takes about 16 KiB as objects and less than 1 KiB
packed, so that 100,000 files take no longer per file than 2,000 do.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar, overload

Item = TypeVar("Item")

BLOCK = 64


class PackedSequence(Sequence[Item], Generic[Item]):
    """A sequence for iteration from the front. Each pass unpacks again and yields equal, not identical, items."""

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._blocks: list[bytes | list[Item]] = []
        self._last: list[Item] = []
        for item in items:
            self.append(item)

    def append(self, item: Item) -> None:
        self._last.append(item)
        if len(self._last) == BLOCK:
            self._blocks.append(_packed(self._last))
            self._last = []

    def __len__(self) -> int:
        return len(self._blocks) * BLOCK + len(self._last)

    def __iter__(self) -> Iterator[Item]:
        for block in self._blocks:
            yield from _unpacked(block) if isinstance(block, bytes) else block
        yield from self._last

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return list(self)[index]
        number, place = divmod(range(len(self))[index], BLOCK)
        if number == len(self._blocks):
            return self._last[place]
        block = self._blocks[number]
        found: list[Item] = _unpacked(block) if isinstance(block, bytes) else block
        return found[place]


def _packed(items: list[Item]) -> bytes | list[Item]:
    try:
        return zlib.compress(pickle.dumps(items, pickle.HIGHEST_PROTOCOL), 1)
    except (pickle.PicklingError, TypeError, AttributeError):  # a plug-in's findings may hold anything
        return items


def _unpacked(block: bytes) -> list[Item]:
    found: list[Item] = pickle.loads(zlib.decompress(block))
    return found
