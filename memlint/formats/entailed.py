"""What follows from a change of a file, as the format's own functions read it: facts for the planner, so that a planned
run is the run that the written file says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from memlint.formats.fields import Fields
from memlint.run import Entailed, Origin

Read = Callable[[Fields], None]


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


def put_entailed(fields: Fields, found: Iterable[Entailed | None], source: str) -> None:
    """`source`: where the framework says so."""
    known = tuple(one for one in found if one is not None)
    if known:
        fields.put("planning.entails", known, Origin("framework", detail=source))
