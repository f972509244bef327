"""A unified patch that `git apply` takes: bytes as they are, line ends kept, the missing last line break said."""

from __future__ import annotations

from difflib import unified_diff

_NO_NEWLINE = b"\n\\ No newline at end of file\n"


def patch(path: str, old: bytes, new: bytes) -> bytes:
    """The patch that makes `old` into `new`; empty where they are equal."""
    if old == new:
        return b""
    lines = unified_diff(_lines(old), _lines(new), f"a/{path}", f"b/{path}")
    return b"".join(_ended(line.encode("latin-1") if number > 1 else _name(line)) for number, line in enumerate(lines))


def _name(line: str) -> bytes:
    """A line that names the file: in the bytes that the name has on the disk, which may be no text."""
    return line.encode("utf-8", "surrogateescape")


def _lines(data: bytes) -> list[str]:
    """Lines that end in a line feed and nothing else; Latin-1 takes every byte for one character."""
    lines = data.decode("latin-1").split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _ended(line: bytes) -> bytes:
    return line if line.endswith(b"\n") else line + _NO_NEWLINE
