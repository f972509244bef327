"""Values that something else fills in before a framework reads the file: `$NAME`, `{{ name }}`, `<name>`.

A file with such values where a framework wants numbers and switches is a template. Placeholders for names and paths
alone make none: `output_dir: ${OUT}` leaves the rest of a file as it stands. Nor does one `${NAME}`, which OmegaConf
resolves by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from memlint._record import NamedTuple
from memlint.source.document import Document, Path

MOST_VALUES = 2000
_WHOLE = (
    r"\$[A-Za-z_]\w*|\$\{[^{}]+\}|\{\{[^{}]*\}\}|\{%.*%\}|\{[A-Za-z_]\w*\}|<[A-Za-z][\w ./|-]*>|__[A-Za-z]\w*__"
    r"|%\(\w+\)s|@[A-Za-z_]\w*@|X{1,8}|TODO|FIXME|CHANGE_?ME|REPLACE_?ME|YOUR_[A-Z_]+"
    r"|TBD|TO_BE_[A-Z_]+|FILL(?:_ME|_IN|_THIS)[A-Z_]*|INSERT_[A-Z_]+|(?:[A-Z]+_)*PLACEHOLDER|[A-Z]+(?:_[A-Z]+)*_HERE"
    r"|\.{3}|/?(?:\.{3}/)+(?:\.{3})?"
    r"|(?i:path|your)_to_[a-z_]+|(?i:your)_[a-z_]+(?:_path|_dir|_config)"
)
_NAMES = (
    r"(?i)path|dir|name|model|file|data|token|key$|project|entity|url|run|_id$|deepspeed|resume|hub|template|adapter"
    r"|report|format$|prompt|separator|delimiter|marker|stop"  # `step_separator: <extra_0>` is a token
)
_OTHER_KEY = r"\$\{\.*([A-Za-z_]\w*)\}"
# One of these stands in every file with a placeholder: most files need no closer look, and no pattern.
_MARKS = (
    "$",
    "{",
    "<",
    "__",
    "%(",
    "@",
    "X",
    "...",
    "TODO",
    "FIXME",
    "CHANGE",
    "REPLACE",
    "YOUR_",
    "TBD",
    "TO_BE_",
    "FILL_",
    "INSERT_",
    "PLACEHOLDER",
    "_HERE",
    "path_to_",
    "your_",
)


class Placeholder(NamedTuple):
    """`path`: of the value in its document. `is_name`: it stands for a name or a path."""

    path: Path
    text: str
    is_name: bool


def is_placeholder(value: Any) -> bool:
    """Whether `value` as a whole is one that something else fills in."""
    return isinstance(value, str) and len(value) < 200 and re.fullmatch(_WHOLE, value.strip()) is not None


def template_placeholders(document: Document) -> tuple[Placeholder, ...]:
    """The placeholders of a template; () for a file with none, or with names and paths alone beside real values."""
    if not any(mark in document.text for mark in _MARKS):
        return ()
    leaves = tuple(_leaves(document.value, (), [MOST_VALUES]))
    keys = document.value.keys() if isinstance(document.value, dict) else ()
    found = tuple(
        Placeholder(path, value, re.search(_NAMES, _key(path)) is not None)
        for path, value in leaves
        if is_placeholder(value) and not _is_other_key(value, keys)
    )
    settings = [one.text for one in found if not one.is_name]
    is_template = len(settings) > 1 or any(not text.startswith("${") for text in settings)
    is_template = is_template or (bool(found) and len(found) == len(leaves))
    return found if is_template else ()


def _is_other_key(value: str, keys: Any) -> bool:
    """OmegaConf's `${learning_rate}`, where the file has that key."""
    match = re.fullmatch(_OTHER_KEY, value.strip())
    return match is not None and match[1] in keys


def _key(path: Path) -> str:
    return next((step for step in reversed(path) if isinstance(step, str)), "")


def _leaves(value: Any, path: Path, room: list[int]) -> Iterator[tuple[Path, Any]]:
    room[0] -= 1
    if room[0] < 0:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*path, key) if isinstance(key, (str, int)) else path, room)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index), room)
    else:
        yield path, value
