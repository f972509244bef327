"""A text under several patches, one after the other, told as patches of the text it began as.

A piece is a segment of the original (start, end) or new text. Each patch is placed in the text as it
stands; at the end the pieces say what became of the original.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.findings import Patch

Piece = tuple[int, int] | str
Pieces = tuple[Piece, ...]


def whole(text: str) -> Pieces:
    return ((0, len(text)),)


def splice(pieces: Pieces, patch: Patch) -> Pieces:
    """The pieces after `patch`, whose offsets count in the text that the pieces make."""
    left = tuple(_upto(pieces, patch.start))
    right = tuple(_from(pieces, patch.end))
    return (*left, *((patch.text,) if patch.text else ()), *right)


def _size(piece: Piece) -> int:
    return len(piece) if isinstance(piece, str) else piece[1] - piece[0]


def _part(piece: Piece, start: int, end: int) -> Piece:
    return piece[start:end] if isinstance(piece, str) else (piece[0] + start, piece[0] + end)


def _upto(pieces: Pieces, offset: int) -> Iterator[Piece]:
    for piece in pieces:
        if offset <= 0:
            return
        yield _part(piece, 0, min(_size(piece), offset))
        offset -= _size(piece)


def _from(pieces: Pieces, offset: int) -> Iterator[Piece]:
    for piece in pieces:
        size = _size(piece)
        if offset < size:
            yield _part(piece, max(0, offset), size)
        offset -= size


def as_patches(pieces: Pieces, path: str, length: int) -> tuple[Patch, ...]:
    """Patches of the original text (`length` characters) that make it what the pieces say."""
    found: list[Patch] = []
    position, fresh = 0, ""
    for piece in (*pieces, (length, length)):
        if isinstance(piece, str):
            fresh += piece
            continue
        start, end = piece
        if fresh or start > position:
            found.append(Patch(path, position, start, fresh))
        position, fresh = end, ""
    return tuple(found)
