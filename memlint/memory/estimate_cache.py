"""A cache of estimates, and of the part of an estimate that lengths and batches do not change, keyed by values.

Most runs that are estimated differ from an earlier one only in the places of their values: a fix that changes the
learning rate, a plan read back from the file it was written to, other versions that do not matter. Equal values have
equal estimates. Of a repository's files many train one model in one way, with other lengths and batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memlint.run import Model

_ARCHITECTURE = Model._fields.index("architecture")


class EstimateCache:
    """Results by the values that they depend on; emptied when there are more than `size`.

    An architecture is part of the key by its identity, as hashing one costs more than the rest.
    """

    __slots__ = ("_known", "_size")

    def __init__(self, size: int) -> None:
        # [result, model]: the model is kept so that its architecture's id is not reused; [None, None] without a result.
        self._known: dict[tuple[Any, ...], list[Any]] = {}
        self._size = size

    def __len__(self) -> int:
        return len(self._known)

    def get(
        self, model: Model, others: tuple[Any, ...], make: Callable[[], Any], keeps: Callable[[Any], bool] = bool
    ) -> Any:
        """The result of `make()` for an equal model and equal `others`; cached if `keeps(result)` is true."""
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
