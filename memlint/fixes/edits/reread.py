"""Changed text read again, the way its document was read."""

from __future__ import annotations

from functools import lru_cache

from memlint.source import load
from memlint.source.document import Document

# The same text is asked for by the edit that made it, by the laws that judge it, and by other edits of the file.
_load = lru_cache(maxsize=4)(load)


def encode(document: Document, text: str) -> bytes:
    """`text` as bytes in the document's encoding, with its byte order mark if it had one."""
    mark = "\ufeff" if document.bom else ""
    encoding = {"utf-16": "utf-16-le"}.get(document.encoding, document.encoding)
    return (mark + text).encode(encoding, "surrogatepass")


def reread(document: Document, text: str) -> Document | None:
    """`text` in place of the document's, read the same way; None where it is no longer one document."""
    if document.start is not None:
        return _launch(document, text)
    documents = _load(encode(document, text), document.path, document.syntax, document.dialect)
    return documents[0] if len(documents) == 1 else None


def _launch(document: Document, text: str) -> Document | None:
    """The same launch of the changed script; None where the script has other launches now, or other broken places."""
    reread_script = document.start.reread if document.start is not None else None
    found = reread_script(text) if reread_script is not None else ()
    return found[document.index] if len(found) == document.documents else None
