"""What follows from a change of a file, as the format's own functions read it: facts for the planner, so that a planned
run is the run that the written file says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from memlint.formats.fields import Fields
from memlint.run import Entailed, Origin

Read = Callable[[Fields], None]


class EntailedByFile:
    """What follows from changes of one file. It is found when a plan first asks: most checks search no plan.

    Equal to another one, or to a tuple, that holds the same; pickled as a tuple.
    """

    __slots__ = ("_find", "_found")

    def __init__(self, find: Callable[[], Iterable[Entailed | None]]) -> None:
        self._find = find
        self._found: tuple[Entailed, ...] | None = None

    def __iter__(self) -> Iterator[Entailed]:
        if self._found is None:
            self._found = tuple(one for one in self._find() if one is not None)
        return iter(self._found)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, (tuple, EntailedByFile)) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)


def entailed(fields: Fields, given: Mapping[str, Any], read: Read) -> Entailed | None:
    """What `read` puts beside `given` once the fields have these values; None where that is nothing new."""
    tried = Fields()
    tried.values = {**fields.values, **given}
    read(tried)
    before = fields.values
    changes = tuple(
        (name, value) for name, value in tried.values.items() if name not in given and before.get(name, ...) != value
    )
    return Entailed(tuple(given.items()), changes) if changes else None


def put_entailed(fields: Fields, find: Callable[[Fields], Iterable[Entailed | None]], source: str) -> None:
    """Adds what `find` finds with the fields as they are now, when it is asked for. `source`: where the framework says
    so."""
    earlier, now = fields.get("planning.entails", ()), Fields()
    now.values = dict(fields.values)
    found = EntailedByFile(lambda: (*earlier, *find(now)))
    fields.put("planning.entails", found, Origin("framework", detail=source))
