"""Parses scripts with tree-sitter's grammar of bash, which also handles scripts with syntax errors."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from memlint.source.shell.text import Piece, Text, Where, part, place_in

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MOST_LETTERS = 262_144  # characters of one script
MOST_PARSE_STEPS = 4_000  # calls of tree-sitter's progress callback
MOST_REPAIRS = 8  # ends of lines that the grammar takes for blanks
_LONG_PIPELINE = re.compile(r"(?:[^|\n]\|[^|\n]*){2}")
# The grammar (0.25.1) ends a word at the second `$` of `$A-$B/c`: such a `$B` is read as `${B}`.
_MISREAD = re.compile(r"""(?<=[\w/.:,=@%+"'}-])\$([A-Za-z_]\w*(?!\w)|[0-9])(?=[\w/.:,=@%+"'{$-])""")

# `--data <DATA_PATH> --epochs 3` stands for a name; bash takes it for a file of input and one of output.
_PLACEHOLDER = re.compile(rb"(?<=[\s=/])<([A-Z][A-Z0-9_-]+|(?=\w*_)[A-Za-z]\w*)>(?=[\s/]|\Z)")

# The same in several words, as the value of an option: `--data <PATH TO DATA> --epochs 3`, `--data [path to data]`.
_PLACEHOLDER_OF_WORDS = re.compile(
    rb"(?<=[\w.-][ =])[<\[]([A-Za-z][\w./-]*(?: [A-Za-z][\w./-]*){1,7})[>\]](?=[\s/]|\Z)"
)
_OPTION = re.compile(rb"(?:^|\s)--?[A-Za-z][\w.-]*[ =]\Z")

# For each byte of UTF-8, whether a character begins with it.
_BEGINS = bytes(not 0x80 <= byte < 0xC0 for byte in range(256))
_EXPANSIONS = ("simple_expansion", "expansion", "command_substitution", "arithmetic_expansion")


@cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _with_plain_ends(text: str) -> str:
    """A script with Windows line ends, with the CRs replaced so that each character keeps its offset."""
    return text.replace("\\\r\n", " \\\n").replace("\r\n", "\n\n") if "\r\n" in text else text


def _without_placeholders(text: bytes) -> bytes:
    """The text with plain names for placeholders, each as long as it was."""

    def named(found: re.Match[bytes]) -> bytes:
        before = text[max(0, found.start() - 64) : found.start()]
        return b"_%b_" % found[1].replace(b" ", b"_") if _OPTION.search(before) else found[0]

    return _PLACEHOLDER.sub(rb"_\1_", _PLACEHOLDER_OF_WORDS.sub(named, text))


# A comment inside a command, of one line or of several: to bash a command without words. The grammar takes the rest of
# the line for it.
_INNER_COMMENT = re.compile(rb"(?<=\s)`(?:[ \t]*(?:#[^`\n]*)?\n)*[ \t]*(?:#[^`\n]*)?`(?=\s)")


class Source:
    """A text with commands: a file, or the argument of `eval` or `bash -c`.

    `pieces`: the text with the place of each part. `tree`: None if the text cannot be parsed within the limits.
    """

    __slots__ = ("_bytes", "_offsets", "_starts", "pieces", "text", "tree")

    def __init__(self, pieces: Text) -> None:
        self.pieces = pieces = tuple(part for piece in pieces for part in _readable(piece))
        self.text = "".join(piece.text for piece in pieces)
        self._bytes = self.text.encode("utf-8", "replace")
        self._offsets: list[int] | None = None  # of the characters that the bytes are in, one further on; see `offset`
        self._starts = [0, *accumulate(len(piece.text) for piece in pieces)]
        self.tree = self._parsed()

    @classmethod
    @lru_cache(maxsize=8)  # one script calls others again and again
    def of_file(cls, path: str, text: str) -> Source:
        return cls((Piece(_with_plain_ends(text), Where(path, 0, len(text))),))

    def _parsed(self) -> Node | None:
        if len(self.text) > MOST_LETTERS or "\0" in self.text:
            return None
        given = _without_placeholders(self._bytes) if ">" in self.text or " [" in self.text else self._bytes
        if "`" in self.text and "#" in self.text:
            given = _INNER_COMMENT.sub(lambda found: b" " * len(found[0]), given)
        found = _tree(given)
        repairs = MOST_REPAIRS if _LONG_PIPELINE.search(self.text) else 0
        while found is not None and repairs and (at := _swallowed(found, given)) is not None:
            given, repairs = b"%b;%b" % (given[:at], given[at + 1 :]), repairs - 1
            found = _tree(given)
        return found

    def offset(self, byte: int) -> int:
        """The offset of the character that contains a byte of the UTF-8 text."""
        if len(self._bytes) == len(self.text):
            return byte
        if self._offsets is None:
            begins = self._bytes.translate(_BEGINS) + b"\1"
            self._offsets = list(accumulate(begins, initial=-1))
        return self._offsets[byte + 1]

    def span(self, node: Node) -> tuple[int, int]:
        """Where a node's text is. The grammar puts the blanks between two expansions of a string into the second."""
        start, end = self.offset(node.start_byte), self.offset(node.end_byte)
        if node.type in _EXPANSIONS:
            start = end - len(self.text[start:end].lstrip())
        return start, end

    def of(self, node: Node) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def piece(self, start: int, end: int) -> Text:
        """The text [start, end) with its places."""
        found: list[Piece] = []
        index = max(0, bisect_right(self._starts, start) - 1)
        while index < len(self.pieces) and self._starts[index] < end:
            base, piece = self._starts[index], self.pieces[index]
            first, last = max(start - base, 0), min(end - base, len(piece.text))
            if last > first:
                found.append(part(piece, first, last))
            index += 1
        return tuple(found)

    def where(self, start: int, end: int) -> Where | None:
        """The place of [start, end) in a file; None if it comes from several places."""
        index = bisect_right(self._starts, start) - 1
        if start < end and index < len(self.pieces) and end <= self._starts[index + 1]:  # as nearly always
            return place_in(self.pieces[index], start - self._starts[index], end - self._starts[index])
        pieces = self.piece(start, end)
        if not pieces or pieces[0].at is None or pieces[-1].at is None or pieces[0].at.path != pieces[-1].at.path:
            return None
        return Where(pieces[0].at.path, pieces[0].at.start, pieces[-1].at.end)


def _tree(given: bytes) -> Node | None:
    """The root of a text's tree; None if that takes too long."""
    steps = 0

    def progress(offset: int, has_error: bool) -> bool:
        nonlocal steps
        steps += 1
        return steps > MOST_PARSE_STEPS

    parser: Any = _parser()
    try:
        tree = parser.parse(lambda offset, point: given[offset : offset + 4_096], progress_callback=progress)
    except ValueError:  # cancelled
        parser.reset()
        return None
    found: Node | None = tree.root_node
    return found


def _swallowed(root: Node, given: bytes) -> int | None:
    """The end of the line that the grammar (0.25.1) reads as a blank: after a pipeline of three
    commands or more it makes one command of all following lines, where the last of these is a pipeline with `2>&1`."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        for one, other in pairwise(node.children) if node.type == "command" else ():
            between = given[one.end_byte : other.start_byte]
            if b"\n" in between and b"\\" not in between:
                return one.end_byte + between.index(b"\n")
        waiting += node.children
    return None


def _readable(piece: Piece) -> Iterator[Piece]:
    """The piece, with braces around variables that the grammar would misread."""
    position = 0
    for match in _MISREAD.finditer(piece.text) if "$" in piece.text else ():
        if match.start() > position:
            yield part(piece, position, match.start())
        whole = part(piece, match.start(), match.end())
        yield whole._replace(text=f"${{{match[1]}}}")
        position = match.end()
    if position < len(piece.text) or not position:
        yield part(piece, position, len(piece.text))
