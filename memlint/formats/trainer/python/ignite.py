"""Loops of pytorch-ignite: `Engine(update)` calls `update(engine, batch)` for each batch of what its `run` is given."""

from __future__ import annotations

from collections.abc import Mapping

from memlint.source.python.calls import follow
from memlint.source.python.members import part_of
from memlint.source.python.reader import UNKNOWN_ROUNDS, Call, Library, Reader
from memlint.source.python.values import Made, PythonFunction, Undetermined, Value


def _engine(reader: Reader, given: Call) -> Value:
    made = Made(given.name, given.positional, given.named, given.source)
    return reader.made(made)  # type: ignore[no-any-return]


def _run(reader: Reader, given: Call) -> Value | None:
    """Calls `self._process_function(self, self.state.batch)` (pytorch-ignite 0.5.5 engine/engine.py:1269)."""
    engine = given.owner
    if not isinstance(engine, Made):
        return None
    update = engine.positional[0] if engine.positional else engine.arguments.get("process_function")
    data = given.argument(0, "data")
    if not isinstance(update, PythonFunction) or data is None:
        return None
    with reader.doubt(UNKNOWN_ROUNDS):
        follow(reader, update, Call("", (engine, part_of(data)), {}, given.source))
    return Undetermined("the engine's state", given.source)


LIBRARIES: Mapping[str, Library] = {
    **dict.fromkeys(("ignite.engine.Engine", "ignite.engine.engine.Engine"), _engine),
    **dict.fromkeys(("ignite.engine.Engine().run", "ignite.engine.engine.Engine().run"), _run),
}
