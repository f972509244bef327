"""A small cache keyed by the identity of its arguments, for records that are costly to hash.

The planner estimates hundreds of runs that differ in one field; the unchanged records are the same objects. Comparing
identities costs nothing, comparing all tensors of a layer would cost more than the result.
"""

from __future__ import annotations

from typing import Any


class Recent:
    """The last `size` results."""

    __slots__ = ("_known", "_size")

    def __init__(self, size: int) -> None:
        self._known: dict[
            tuple[int, ...], tuple[tuple[Any, ...], Any]
        ] = {}  # with the arguments, so that their ids are not reused
        self._size = size

    def get(self, *key: Any) -> Any:
        """The result for these very objects, or None."""
        found = self._known.get(tuple(map(id, key)))
        return None if found is None else found[1]

    def put(self, value: Any, *key: Any) -> Any:
        """Stores `value` for the objects in `key` and returns it."""
        if len(self._known) >= self._size:
            del self._known[next(iter(self._known))]
        self._known[tuple(map(id, key))] = key, value
        return value
