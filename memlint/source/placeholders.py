"""Finds placeholders: values to be replaced before a framework reads the file, such as `$NAME`, `{{ name }}`, `<name>`.

A file with placeholders for numbers and switches is a template. One with placeholders only for names and paths is not:
`output_dir: ${OUT}` does not affect the other values. Nor is a file with one `${NAME}`, which OmegaConf resolves
itself.
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
    r"|%\(\w+\)s|@[A-Za-z_]\w*@|X{1,8}|x{3,8}|TODO|FIXME|CHANGE_?ME|REPLACE_?ME|YOUR_[A-Z_]+"
    r"|TBD|TO_BE_[A-Z_]+|FILL(?:_ME|_IN|_THIS)[A-Z_]*|INSERT_[A-Z_]+|(?:[A-Z]+_)*PLACEHOLDER|[A-Z]+(?:_[A-Z]+)*_HERE"
    r"|\?{3}"  # OmegaConf's word for a value that a command must give
    r"|\.{3}|/?(?:\.{3}/)+(?:\.{3})?"
    r"|(?i:path|your)_to_[a-z_]+|(?i:your)_[a-z_]+(?:_path|_dir|_config)"
    r"|(?i:your(?: (?!is\b|are\b|task\b|role\b|job\b)[a-z]+){1,4})"  # `your image size`, no system prompt
)
_NAMES = (
    r"(?i)path|dir|name|model|file|data|token|key$|project|entity|url|run|_id$|deepspeed|resume|hub|template|adapter"
    r"|report|format$|prompt|separator|delimiter|marker|stop"  # `step_separator: <extra_0>` is a token
)
_PATHS = r"(?i)path|dir|model|adapter|checkpoint|resume"
_SEVERAL_WORDS = r"[A-Za-z]{1,20}(?:[ _-][A-Za-z]{1,20}){1,5}"
_OTHER_KEY = r"\$\{\.*([A-Za-z_]\w*)\}"
# Every file with a placeholder contains one of these, so that most files need no search with patterns.
_MARKS = (
    "$",
    "{",
    "<",
    "__",
    "%(",
    "@",
    "X",
    "xxx",
    "???",
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
    "your ",
)


class Placeholder(NamedTuple):
    """A value to be filled in. `path`: its path in the document. `is_name`: whether it stands for a name or a path."""

    path: Path
    text: str
    is_name: bool


def is_placeholder(value: Any) -> bool:
    """Whether the whole `value` is a placeholder."""
    return isinstance(value, str) and len(value) < 200 and re.fullmatch(_WHOLE, value.strip()) is not None


def word_to_fill_in(key: str, value: Any) -> str:
    """The name or path to be filled in that is read as a mapping or a list: `{bias}` of `split: {bias}`, `[save_path]`
    of `output_dir: [save_path]`, the words of a command's `--ref_model reference model path`; "" for other values."""
    if isinstance(value, dict) and len(value) == 1:
        ((word, content),) = value.items()
        return f"{{{word}}}" if content is None and isinstance(word, str) and word.isidentifier() else ""
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        return ""
    words, is_name = " ".join(value), len(value) == 1 or value[-1:] == ["path"]
    if is_name and re.search(_PATHS, key) is not None and re.fullmatch(_SEVERAL_WORDS, words) is not None:
        return f"[{words}]" if len(value) == 1 else words
    return ""


def template_placeholders(document: Document) -> tuple[Placeholder, ...]:
    """The placeholders of a template; () for a file without any, or with placeholders only for names and paths."""
    if not any(mark in document.text for mark in _MARKS) or not _holds_placeholder(document.value):
        return ()
    leaves = tuple(_leaves(document.value, (), [MOST_VALUES]))
    keys = document.value.keys() if isinstance(document.value, dict) else ()
    found = tuple(
        Placeholder(path, value, re.search(_NAMES, _key(path)) is not None)
        for path, value in leaves
        if is_placeholder(value) and not _is_other_key(value, keys) and not _is_tag(value, document.text)
    )
    settings = [one.text for one in found if not one.is_name]
    is_template = len(settings) > 1 or any(not text.startswith("${") for text in settings)
    is_template = is_template or (bool(found) and len(found) == len(leaves))
    return found if is_template else ()


def _holds_placeholder(value: Any) -> bool:
    """Whether one of the values in it is a placeholder: most texts with a mark have none."""
    pending = [value]
    for one in pending:  # grows while it is read
        if isinstance(one, dict):
            pending.extend(one.values())
        elif isinstance(one, list):
            pending.extend(one)
        elif is_placeholder(one):
            return True
    return False


def _is_other_key(value: str, keys: Any) -> bool:
    """Whether `value` is a reference to another key of the file, such as OmegaConf's `${learning_rate}`."""
    match = re.fullmatch(_OTHER_KEY, value.strip())
    return match is not None and match[1] in keys


def _is_tag(value: str, text: str) -> bool:
    """Whether the text closes what `value` opens: a model writes `<tool_call>` and `</tool_call>` itself."""
    return value.startswith("<") and f"</{value.strip()[1:]}" in text


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
