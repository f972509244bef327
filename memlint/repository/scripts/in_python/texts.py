"""Values of a Python program as words and texts of a shell, each part with its place in the program's file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from memlint._record import NamedTuple
from memlint.source.python.values import (
    Either,
    External,
    Items,
    Known,
    Made,
    Table,
    Undetermined,
    Value,
    same,
)
from memlint.source.shell.text import Piece, Text, Where, literal

_AROUND = re.compile(r"[rRfFuUbB]*[\"'\\]*")  # a literal's prefix and quotes, in a notebook with JSON's backslashes
_UNKNOWN = "UNKNOWN"  # one plain word for the shell, unlike `${...}`


class ProgramFile(NamedTuple):
    """The file of a program: `path`: absolute; `inner`: below the repository's root; `text`: as it is on disk."""

    path: str
    inner: str
    text: str


def word(value: Value, file: ProgramFile) -> Text:
    """A value as one word."""
    if isinstance(value, External) and value.name == "sys.executable":
        return literal("python")
    if isinstance(value, Undetermined) and value.parts:
        return tuple(piece for part in value.parts for piece in word(part, file))
    if not isinstance(value, Known):
        return (Piece(_UNKNOWN, None, _reason(value), quoted=True),)
    text = "" if value.value is None else str(value.value)
    quoted = shlex.quote(text)
    return (Piece(quoted, _place(value, text, file) if quoted == text else None),)


def words(value: Value, file: ProgramFile) -> Text:
    """A list as words. What depends on a condition may be any words."""
    if isinstance(value, Either) and all(isinstance(one, Items) for one in value.values):
        return _agreed([one for one in value.values if isinstance(one, Items)], value.reason, file)
    if not isinstance(value, Items):
        return further(_reason(value))
    found = tuple(piece for one in value.values for piece in (*word(one, file), Piece(" ")))
    return found + (further("the program adds to the command") if value.is_open else ())


def command_text(value: Value, file: ProgramFile) -> Text:
    """A text of commands, as a shell gets it."""
    if isinstance(value, Made) and value.name == "shlex.split" and value.positional:
        return command_text(value.positional[0], file)
    if isinstance(value, Made) and value.last in ("strip", "dedent", "cleandoc") and value.positional:
        return command_text(value.positional[0], file)
    if isinstance(value, Undetermined) and value.parts:
        return tuple(piece for part in value.parts for piece in command_text(part, file))
    if not isinstance(value, Known):
        return further(_reason(value))
    text = str(value.value)
    return (Piece(text, _place(value, text, file)),)


def exported(value: Value | None, file: ProgramFile) -> Text:
    """The variables of `env={**os.environ, "NAME": "value"}`."""
    values = value.values if isinstance(value, Table) else {}
    named = ((key, one) for key, one in values.items() if isinstance(key, str) and key.isidentifier())
    return tuple(piece for key, one in named for piece in (Piece(f"export {key}="), *word(one, file), Piece("\n")))


def _agreed(lists: Sequence[Items], reason: str, file: ProgramFile) -> Text:
    """The words with which all lists begin and end, and others between them."""
    first, others = lists[0].values, [one.values for one in lists[1:]]
    fewest = min(len(one.values) for one in lists)
    head = next((at for at in range(fewest) if not all(same(first[at], one[at]) for one in others)), fewest)
    tails = range(fewest - head)
    tail = next((at for at in tails if not all(same(first[-1 - at], one[-1 - at]) for one in others)), len(tails))
    before = words(Items(first[:head]), file)
    return (*before, *further(reason), *words(Items(first[len(first) - tail :]), file))


def further(reason: str) -> Text:
    """Words that nobody knows, or none."""
    return (Piece(_UNKNOWN, None, reason), Piece(" "))


def _reason(value: Value) -> str:
    return value.reason if isinstance(value, (Undetermined, Either)) else "the program decides"


def _place(value: Known, text: str, file: ProgramFile) -> Where | None:
    """Where exactly `text` stands, if the value is written in the file as it is."""
    source = value.source
    if source.span is None or source.path != file.inner or not text:
        return None
    raw = file.text[source.span.start : source.span.end]
    at = raw.find(text)
    if at < 0 or not _AROUND.fullmatch(raw[:at]) or not _AROUND.fullmatch(raw[at + len(text) :]):
        return None
    start = source.span.start + at
    return Where(file.path, start, start + len(text))
