"""Bytes to located values: any file in, documents with spans, comments and problems out. Nothing here raises."""

from __future__ import annotations

from memlint.source.comments import comments
from memlint.source.document import Comment, Document, Path, Place, Problem, Span, place
from memlint.source.load import in_dialect, load, load_changed

__all__ = [
    "Comment",
    "Document",
    "Path",
    "Place",
    "Problem",
    "Span",
    "comments",
    "in_dialect",
    "load",
    "load_changed",
    "place",
]
