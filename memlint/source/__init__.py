"""Bytes to located values: any file in, documents with spans, comments and problems out. Nothing here raises."""

from __future__ import annotations

from memlint._pattern import without_compiling

without_compiling("yaml")  # 5 ms of patterns for its own parser; libyaml's is the one in use

from memlint.source.comments import comments  # noqa: E402
from memlint.source.document import Comment, Document, Path, Place, Problem, Span, place  # noqa: E402
from memlint.source.load import load, redialect  # noqa: E402

__all__ = [
    "Comment",
    "Document",
    "Path",
    "Place",
    "Problem",
    "Span",
    "comments",
    "load",
    "place",
    "redialect",
]
