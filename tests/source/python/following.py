"""Follows small scripts for tests: what they hand to libraries, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.source import load
from memlint.source.document import Document
from memlint.source.python.follow import follow_script
from memlint.source.python.reader import ScriptFiles
from memlint.source.python.text import SourceText, parse
from memlint.source.python.values import Either, Items, Known, Made, Table, Undetermined, Value


def followed(code: str, files: Mapping[str, str] = {}, path: str = "train.py") -> list[Made]:
    """What libraries make in the script `code` beside `files` of its repository."""

    def module(name: str) -> SourceText | None:
        found = parse(name, files[name]) if name in files and name.endswith(".py") else None
        return found if isinstance(found, SourceText) else None

    def document(name: str) -> Document | None:
        return load(files[name].encode(), name)[0] if name in files and not name.endswith(".py") else None

    script = parse(path, code)
    assert isinstance(script, SourceText), script
    seen: list[Made] = []
    follow_script(script, ScriptFiles(module, document), seen.append, {}, {})
    return seen


def shown(value: Value) -> Any:
    """A value for a comparison: unknown ones as "?", alternatives as a set of them."""
    if isinstance(value, Known):
        return value.value
    if isinstance(value, Items):
        return [shown(item) for item in value.values]
    if isinstance(value, Table):
        return {key: shown(item) for key, item in value.values.items()}
    if isinstance(value, Undetermined):
        return "?"
    return {shown(one) for one in value.values} if isinstance(value, Either) else type(value).__name__


def handed(code: str, files: Mapping[str, str] = {}, path: str = "train.py") -> Any:
    """What the script hands to `use(...)`: its first argument; a list where it is called several times."""
    found = [shown(made.positional[0]) for made in followed(code, files, path) if made.name == "use"]
    return found[0] if len(found) == 1 else found
