"""The spelling of a command's flags: `--batch_size` or `--batch-size`."""

from __future__ import annotations

from collections.abc import Iterable

from memlint.source.document import Document


def flag_of(document: Document, key: str) -> str:
    """The flag for `key`, spelled as the command does."""
    place = document.places.get((key,))
    written = document.text[place.key.start : place.key.end] if place is not None and place.key is not None else ""
    return written if written.startswith("--") else f"--{key}"


def are_dashed(flags: Iterable[str]) -> bool:
    """Whether flags have hyphens between their words, and none an underscore: `--eval-steps`."""
    words = {letter for flag in flags for letter in flag.partition("=")[0].lstrip("-") if letter in "-_"}
    return words == {"-"}


def has_dashed_flags(document: Document) -> bool:
    """Whether the command of a document has hyphens in its flags: see `are_dashed`."""
    return are_dashed(flag_of(document, key) for key in document.value if _is_given(document, key))


def _is_given(document: Document, key: object) -> bool:
    place = document.places.get((str(key),))
    return place is not None and place.key is not None and document.text.startswith("--", place.key.start)
