"""Decodes bytes to text: UTF-8, or UTF-16 with a byte order mark, with every problem located."""

from __future__ import annotations

import codecs
import re

from memlint._record import NamedTuple
from memlint.source.document import Problem
from memlint.source.lines import span_at

MAX_BYTES = 5 * 1024 * 1024
DECODING = frozenset({"too-large", "encoding", "bom", "utf-16"})  # codes of the problems that `decode` finds

# Characters that YAML does not allow (PyYAML's Reader.NON_PRINTABLE). JSON does not allow them outside of strings.
# Compiling this takes 3 ms, for a file that does not parse.
_NON_PRINTABLE = "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


class Decoded(NamedTuple):
    text: str
    encoding: str = "utf-8"
    bom: bool = False
    newline: str = "\n"
    problems: tuple[Problem, ...] = ()


def decode(data: bytes) -> Decoded:
    """The text of a file without its byte order mark. Undecodable bytes become U+FFFD and a fatal problem."""
    if len(data) > MAX_BYTES:
        return Decoded("", problems=(_too_large(len(data)),))
    encoding, mark = _encoding(data)
    body = data[len(mark) :]
    problems: tuple[Problem, ...] = ()
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        text = body.decode(encoding, "replace")
        problems = (_undecodable(body, encoding, error),)
    if text.startswith("\ufeff"):
        problems += (Problem("bom", "a second byte order mark; remove it", span_at(text, 0), fatal=True),)
    return Decoded(text, encoding, bool(mark), _newline(text), problems + _foreign(encoding))


def _encoding(data: bytes) -> tuple[str, bytes]:
    if data.startswith(codecs.BOM_UTF8):
        return "utf-8", codecs.BOM_UTF8
    if data.startswith(codecs.BOM_UTF16_LE):
        return "utf-16-le", codecs.BOM_UTF16_LE
    if data.startswith(codecs.BOM_UTF16_BE):
        return "utf-16-be", codecs.BOM_UTF16_BE
    return "utf-8", b""


def _newline(text: str) -> str:
    end = re.search(r"\r\n?|\n", text) if "\r" in text else None
    return end.group() if end else "\n"


def _too_large(size: int) -> Problem:
    message = f"the file has {size:,} bytes; memlint reads configs of up to {MAX_BYTES:,}"
    return Problem("too-large", message, span_at("", 0), fatal=True)


def _undecodable(body: bytes, encoding: str, error: UnicodeDecodeError) -> Problem:
    # The text before the bad byte has as many characters as in the whole text.
    before = body[: error.start].decode(encoding, "replace")
    name = "UTF-8" if encoding == "utf-8" else "UTF-16"
    bad = " ".join(f"{byte:02x}" for byte in body[error.start : error.end][:4])
    message = f"not {name} text (byte {bad}); save the file as UTF-8"
    text = body.decode(encoding, "replace")
    return Problem("encoding", message, span_at(text, len(before)), fatal=True)


def _foreign(encoding: str) -> tuple[Problem, ...]:
    """Training frameworks open configs as UTF-8 and fail on UTF-16."""
    if encoding == "utf-8":
        return ()
    message = "the file is UTF-16, which training frameworks do not read; save it as UTF-8"
    return (Problem("utf-16", message, span_at("", 0)),)


def unprintable(text: str) -> Problem | None:
    """The first character that no YAML or JSON file may have, as a fatal problem."""
    match = re.search(_NON_PRINTABLE, text)
    if match is None:
        return None
    code = ord(match.group())
    message = f"the character U+{code:04X} is not allowed here; remove it"
    if code == 0:
        message = "a NUL byte: the file is binary, or UTF-16 without a byte order mark; save it as UTF-8"
    return Problem("control-character", message, span_at(text, match.start()), fatal=True)
