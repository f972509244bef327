"""A short memory of answers, found by the identity of what was asked.

A planner asks for hundreds of estimates that differ in one field; records that did not change are the same objects.
Identities are hashed for nothing, where comparing a layer's tensors would cost more than the answer.
"""

from __future__ import annotations

from typing import Any


class Recent:
    """The last `size` answers."""

    __slots__ = ("_known", "_size")

    def __init__(self, size: int) -> None:
        self._known: dict[tuple[int, ...], tuple[tuple[Any, ...], Any]] = {}  # what was asked lives as long
        self._size = size

    def get(self, *key: Any) -> Any:
        """The answer, or None."""
        found = self._known.get(tuple(map(id, key)))
        return None if found is None else found[1]

    def put(self, value: Any, *key: Any) -> Any:
        """Remembers `value` and gives it back."""
        if len(self._known) >= self._size:
            del self._known[next(iter(self._known))]
        self._known[tuple(map(id, key))] = key, value
        return value
