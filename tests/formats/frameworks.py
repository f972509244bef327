"""What the tests of the framework formats share: documents and contexts without a file system."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from memlint.architectures.model import Architecture, Resolution
from memlint.findings import Edit
from memlint.formats.base import Context, MissingFile, Parsed
from memlint.run import Run
from memlint.source import load
from memlint.source.document import Document

LLAMA = Architecture("llama", "LlamaForCausalLM", 4096, 32000, (), (), ())

# Any JSON value, with the words that frameworks react to.
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["auto", "cpu", "5e8"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def document(value: Any, path: str = "train.json") -> Document:
    """`value` as a file: JSON text, or YAML where it is text already."""
    text = value if isinstance(value, str) else json.dumps(value)
    return load(text.encode(), path)[0]


def context(files: dict[str, Any] | None = None, known: bool = True, **fields: Any) -> Context:
    """A context whose files are `files`; every model is LLAMA unless `known` is false."""
    named = {name: document(value, name) for name, value in (files or {}).items()}

    def read(reference: str, from_path: str) -> Document | MissingFile:
        return named.get(reference) or MissingFile("missing", f"no file `{reference}`")

    def find_model(name: str, from_path: str) -> Resolution:
        return Resolution(name, "catalog", LLAMA) if known else Resolution(name, "unknown", None, reason="not known")

    return Context(read=read, find_model=find_model, **fields)


def run_of(parsed: Parsed) -> Run:
    (run,) = parsed.runs
    return run


def codes(parsed: Parsed, severity: str = "") -> list[str]:
    return sorted(issue.code for issue in parsed.issues if severity in ("", issue.severity))


def applied(value: Any, edits: tuple[Edit, ...] | None, path: str) -> Any:
    """`value` after the edits of `path` (set and add only)."""
    copy = json.loads(json.dumps(value))
    for edit in edits or ():
        if edit.path == path:
            node = copy
            for step in edit.pointer[:-1]:
                node = node[step]
            node[edit.pointer[-1]] = edit.value
    return copy
