"""Changed text read again, the way its document was read."""

from __future__ import annotations

from memlint.source import in_dialect, load, load_changed
from memlint.source.document import Document


def encode(document: Document, text: str) -> bytes:
    """`text` as bytes in the document's encoding, with its byte order mark if it had one."""
    mark = "\ufeff" if document.bom else ""
    encoding = {"utf-16": "utf-16-le"}.get(document.encoding, document.encoding)
    return (mark + text).encode(encoding, "surrogatepass")


def reread(document: Document, text: str) -> Document | None:
    """`text` in place of the document's, read the same way; None where it is no longer one document."""
    if document.start is not None:
        return _launch(document, text)
    data = encode(document, text)
    documents = load_changed(data, document.path)
    if documents[0].syntax != document.syntax:  # a name that tells no syntax
        documents = load(data, document.path, document.syntax)
    return in_dialect(documents[0], document.dialect) if len(documents) == 1 else None


def _launch(document: Document, text: str) -> Document | None:
    """The same launch of the changed script; None where the script has other launches now, or other broken places."""
    reread_script = document.start.values.reread if document.start is not None else None
    found = reread_script(text) if reread_script is not None else ()
    return found[document.index] if len(found) == document.documents else None
