"""Text that results from shell expansion, with the place where each part of it is written.

`B=4; train --batch $B` gives the word `4` with one piece, whose place is the `4` of the assignment. A piece with an
unknown value (`$1`, `$(date)`) has a reason instead. All values here are frozen.
"""

from __future__ import annotations

from collections.abc import Iterable

from memlint._record import NamedTuple

MOST_LETTERS = 65_536  # characters of one text; a longer one (`A=$A$A` in a loop) is unknown


class Where(NamedTuple):
    """A range of characters of a file: `path`, and the offsets [start, end)."""

    path: str
    start: int
    end: int


class Piece(NamedTuple):
    """A part of a text.

    `at`: where exactly this text is written; None if it was computed. `unknown`: why the value is unknown; `text` is
    then the expression, such as `${1}`. `is_unset`: it is unknown only because the script never sets the variable, so
    that it is empty without arguments and in a plain environment. `quoted`: it is not split into words. `stands_for`:
    the variable without a value whose empty default this is, `${V:-}`.
    """

    text: str
    at: Where | None = None
    unknown: str = ""
    is_unset: bool = False
    quoted: bool = False
    stands_for: str = ""


Text = tuple[Piece, ...]


class Word(NamedTuple):
    """One word of a command. `at`: its place in the command, or in the array or variable that contains it."""

    pieces: Text
    at: Where | None = None

    @property
    def text(self) -> str:
        """The word as text, with the expressions of unknown parts."""
        return shown(self.pieces)

    @property
    def known(self) -> str | None:
        """The word; None if a part of it is unknown."""
        return known(self.pieces)

    @property
    def unknown(self) -> str:
        """Why the word is unknown; "" if it is known."""
        return why_unknown(self.pieces)

    @property
    def source(self) -> Where | None:
        """Where the whole word is written literally: in the command, or in the assignment of its only variable."""
        return self.pieces[0].at if len(self.pieces) == 1 and not self.pieces[0].unknown else None

    def after(self, start: int) -> Word:
        """The word without its first `start` characters, such as the value of `--flag=value`."""
        pieces = cut(self.pieces, start)
        return Word(pieces, pieces[0].at if len(pieces) == 1 and pieces[0].at else self.at)


def literal(text: str, at: Where | None = None, quoted: bool = False) -> Text:
    return (Piece(text, at, quoted=quoted),) if text else ()


def unknown(expression: str, reason: str, is_unset: bool = False) -> Text:
    return (Piece(expression, None, reason, is_unset),)


def shown(text: Text) -> str:
    return "".join(piece.text for piece in text)


def known(text: Text) -> str | None:
    return None if any(piece.unknown for piece in text) else shown(text)


def known_or_unset(text: Text) -> str | None:
    """The text, with variables that the script never sets as empty; None if a part is unknown for another reason."""
    if any(piece.unknown and not piece.is_unset for piece in text):
        return None
    return "".join(piece.text for piece in text if not piece.unknown)


def assumed(text: Text) -> frozenset[str]:
    """The variables in the text that are assumed to be empty, because nothing in the script sets them."""
    return frozenset(piece.stands_for or piece.text for piece in text if piece.is_unset or piece.stands_for)


def why_unknown(text: Text) -> str:
    return next((piece.unknown for piece in text if piece.unknown), "")


def joined(parts: Iterable[Text]) -> Text:
    """The concatenated parts. Pieces that are adjacent in a file become one."""
    found: list[Piece] = []
    length = 0
    for part in parts:
        for piece in part:
            length += len(piece.text)
            if length > MOST_LETTERS:
                return unknown("${...}", "the text grows too long")
            if found and (one := _merged(found[-1], piece)) is not None:
                found[-1] = one
            else:
                found.append(piece)
    filled = tuple(piece for piece in found if piece.text or piece.unknown)
    empty = (*(piece for piece in found if piece.stands_for), *(piece for piece in found if piece.quoted))
    return filled or empty[:1]  # `""` is a word


def _merged(left: Piece, right: Piece) -> Piece | None:
    """Two pieces as one, if they are adjacent in a file; else None. The halves of `4"0"` are not adjacent."""
    if left.unknown or right.unknown or left.at is None or right.at is None or left.quoted != right.quoted:
        return None
    if left.at.path != right.at.path or left.at.end != right.at.start:
        return None
    return left._replace(text=left.text + right.text, at=left.at._replace(end=right.at.end))


def part(piece: Piece, start: int, end: int) -> Piece:
    """The characters [start, end) of a known piece, with their place if the file has exactly these characters."""
    if start == 0 and end == len(piece.text):
        return piece
    return piece._replace(text=piece.text[start:end], at=place_in(piece, start, end))


def place_in(piece: Piece, start: int, end: int) -> Where | None:
    """The place of the characters [start, end) of a known piece, if the file has exactly these characters."""
    at, length = piece.at, len(piece.text)
    if at is None or (start == 0 and end == length):
        return at
    return Where(at.path, at.start + start, at.start + end) if at.end - at.start == length else None


def cut(text: Text, start: int, end: int | None = None) -> Text:
    """The characters [start, end) of a text. An unknown piece counts as its expression, and is never divided."""
    found: list[Piece] = []
    offset = 0
    for piece in text:
        length = len(piece.text)
        first, last = max(start - offset, 0), min(length, (end - offset) if end is not None else length)
        offset += length
        if last > first:
            found.append(piece if piece.unknown else part(piece, first, last))
    return tuple(found)


def quoted(text: Text) -> Text:
    return tuple(piece._replace(quoted=True) for piece in text)


def split(text: Text, separators: str = " \t\n") -> tuple[Text, ...]:
    """The fields that word splitting makes of an unquoted expansion. Quoted pieces are not split."""
    fields: list[list[Piece]] = []
    is_open = False  # whether the next piece belongs to the last field
    for piece in text:
        if piece.quoted or piece.unknown:
            if not is_open:
                fields.append([])
            fields[-1].append(piece)
            is_open = True
            continue
        start = 0
        for index, letter in enumerate(piece.text + separators[0]):
            at_end = index == len(piece.text)
            if not at_end and letter not in separators:
                continue
            if index > start:
                if not is_open:
                    fields.append([])
                fields[-1].append(part(piece, start, index))
                is_open = True
            if not at_end:
                is_open = False
            start = index + 1
    return tuple(tuple(field) for field in fields)


def trimmed(text: Text) -> Text:
    """The text without line breaks at its end, which command substitution removes."""
    pieces = list(text)
    while pieces and not pieces[-1].unknown:
        last = pieces[-1]
        kept = last.text.rstrip("\n")
        if kept:
            pieces[-1] = part(last, 0, len(kept)) if kept != last.text else last
            break
        pieces.pop()
    return tuple(pieces)
