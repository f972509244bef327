"""A cache of estimates, and of the model state they rest on.

Many runs have equal values although they are different objects: after a fix that changes the learning rate, for a plan
that is read back from the file it was written to, under framework releases that make no difference. Equal values have
equal estimates. Files of one repository often train one model with different lengths and batches: their model state is
the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memlint.run import Model

_ARCHITECTURE = Model._fields.index("architecture")


class EstimateCache:
    """At most `size` results by the values that they depend on. Architectures are keys by identity: hashing is slow."""

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
        """The result for an equal model and equal `others`; else `make()`, stored where `keeps` accepts it."""
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
