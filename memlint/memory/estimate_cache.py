"""A cache of estimates, and of model states (which do not depend on lengths and batch sizes), by the values of a run.

Most runs equal an earlier one in all values that affect memory: a fix changes the learning rate, a plan is read back
from the file it was written to, a version without effect differs. Many files of a repository train one model in the
same way and only differ in lengths and batch sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memlint.run import Model

_ARCHITECTURE = Model._fields.index("architecture")


class EstimateCache:
    """Results by the values that they depend on. It is cleared when it has more than `size` entries.

    The architecture is in the key by its identity, because hashing it would cost more than everything else.
    """

    __slots__ = ("_known", "_size")

    def __init__(self, size: int) -> None:
        # [result, model]: the model is kept so that its architecture's id is not reused; [None, None] without a result.
        self._known: dict[tuple[Any, ...], list[Any]] = {}
        self._size = size

    def __len__(self) -> int:
        return len(self._known)

    def get(
        self, model: Model, others: tuple[Any, ...], make: Callable[[], Any], should_keep: Callable[[Any], bool] = bool
    ) -> Any:
        """The result of `make()` for an equal model and equal `others`; cached if `should_keep(result)` is true."""
        key = (id(model.architecture), *model[:_ARCHITECTURE], *model[_ARCHITECTURE + 1 :], *others)
        try:
            entry = self._known.setdefault(key, [None, None])
        except TypeError:  # a value that cannot be compared
            return make()
        if entry[0] is None:
            try:
                found = make()
            except BaseException:
                self._known.pop(key, None)
                raise
            if len(self._known) > self._size:
                self._known.clear()
            if not should_keep(found):
                self._known.pop(key, None)
                return found
            entry[:] = found, model
        return entry[0]
