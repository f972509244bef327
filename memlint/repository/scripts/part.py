"""A script inside of another file, and what its pieces are made with."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.repository.scripts.slurm import Job
from memlint.source.document import Document, Path
from memlint.source.shell.text import Piece, Text, Where, literal

MOST_PARTS = 64  # of one file


class Part(NamedTuple):
    """A script inside a file. `job`: the resources that the file requests for it; None if it requests no GPUs."""

    text: Text
    job: Job | None = None


def exported(variables: Mapping[str, Any]) -> Text:
    given = {
        name: one for name, one in variables.items() if isinstance(one, (str, int, float)) and "${{" not in str(one)
    }
    return literal("".join(f"export {name}={shlex.quote(str(one))}\n" for name, one in given.items()))


def block(document: Document, path: Path, value: str) -> Text:
    """The lines of a block scalar, each where the file has it."""
    place = document.places.get(path) if path in document.places else None
    if place is None:
        return literal(value)
    found: list[Piece] = []
    position = place.value.start
    for line in value.splitlines(keepends=True):
        body = line.strip()
        at = document.text.find(body, position, place.value.end) if body else -1
        indent = line[: len(line) - len(line.lstrip())]
        if at < 0:
            found += literal(line)
            continue
        found += [
            Piece(indent),
            Piece(body, Where(document.path, at, at + len(body))),
            Piece(line[len(indent) + len(body) :]),
        ]
        position = at + len(body)
    return tuple(piece for piece in found if piece.text)


def named_at(document: Document, path: Path, name: Any) -> dict[str, Any]:
    """The card that a job names at `path` of its file, as fields of a `Job`."""
    if not isinstance(name, str) or path not in document.places:
        return {}
    return {"card": name, "card_at": document.places[path].value.start}
