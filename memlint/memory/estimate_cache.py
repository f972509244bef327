"""Answers found again: most runs that are asked about differ from an earlier one only in where their values stand.

A fix that changes the learning rate's schedule, a plan read back from the file it was written to, the same run under
versions that do not matter to it: each is another `Run` of equal values. Equal values have equal estimates. Of a
repository's files many train one model in one way, with other lengths and batches: what they hold is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memlint.run import Model

_ARCHITECTURE = Model._fields.index("architecture")


class EstimateCache:
    """The last answers by what they rest on. Architectures are told apart by identity, as hashing one costs more."""

    __slots__ = ("_known", "_size")

    def __init__(self, size: int) -> None:
        # The model is kept with the answer, so that its architecture's identity stays its own; None where nothing is.
        self._known: dict[tuple[Any, ...], list[Any]] = {}
        self._size = size

    def __len__(self) -> int:
        return len(self._known)

    def get(
        self, model: Model, others: tuple[Any, ...], make: Callable[[], Any], keeps: Callable[[Any], bool] = bool
    ) -> Any:
        """What `make` made for an equal model and equal `others`, or makes now; kept where `keeps` says so."""
        key = (id(model.architecture), *model[:_ARCHITECTURE], *model[_ARCHITECTURE + 1 :], *others)
        try:
            kept = self._known.setdefault(key, [None, None])
        except TypeError:  # a value that cannot be compared
            return make()
        if kept[0] is None:
            try:
                found = make()
            except BaseException:
                self._known.pop(key, None)
                raise
            if len(self._known) > self._size:
                self._known.clear()
            if not keeps(found):
                self._known.pop(key, None)
                return found
            kept[:] = found, model
        return kept[0]
