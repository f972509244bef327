"""A small cache whose keys are compared by identity.

The planner estimates hundreds of runs that differ in one field; a changed text is read by the edit that makes it, by
the laws that test it and by the analysis that judges it. Records that did not change are the same objects, and their
identity costs nothing to hash; hashing a layer's tensors or a document would cost more than computing the result.
"""

from __future__ import annotations

from typing import Any


class IdentityCache:
    """The last `size` results."""

    __slots__ = ("_known", "_size")

    def __init__(self, size: int) -> None:
        self._known: dict[tuple[int, ...], tuple[tuple[Any, ...], Any]] = {}  # keys stay alive with their result
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
