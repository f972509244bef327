"""A short memory of answers, found by the identity of what was asked.

A planner asks for hundreds of estimates that differ in one field; records that did not change are the same objects.
Comparing identities costs nothing, where hashing an architecture would cost more than the answer.
"""

from __future__ import annotations

from typing import Any


class Recent:
    """The last `size` answers. Keys are tuples of the same length; each part is compared with `is`."""

    __slots__ = ("_entries", "_next", "_size")

    def __init__(self, size: int) -> None:
        self._entries: list[tuple[tuple[Any, ...], Any]] = []
        self._next = 0
        self._size = size

    def get(self, *key: Any) -> Any:
        """The answer, or None."""
        for known, value in self._entries:
            for mine, theirs in zip(key, known):
                if mine is not theirs:
                    break
            else:
                return value
        return None

    def put(self, value: Any, *key: Any) -> Any:
        """Remembers `value` and gives it back."""
        if len(self._entries) < self._size:
            self._entries.append((key, value))
        else:
            self._entries[self._next] = (key, value)
            self._next = (self._next + 1) % self._size
        return value
