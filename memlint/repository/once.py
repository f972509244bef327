"""A value that is computed when it is first needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """`make()`, called at the first `get()` and again after `forget()`; shared by all that hold this object."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: list[T] = []  # one at most; None may be a value

    def get(self) -> T:
        if not self._made:
            self._made.append(self._make())
        return self._made[0]

    def forget(self) -> None:
        self._made.clear()

    @property
    def is_made(self) -> bool:
        return bool(self._made)
