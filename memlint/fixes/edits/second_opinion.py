"""Another parser's view of a YAML file before and after fixing: ruamel.yaml's, which knows where comments belong.

Slow to import and not needed to judge a config: only what writes files asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError

KeyPath = tuple[Any, ...]
# A key's line, its comment at the end of the line, and the comment lines right above it.
Place = tuple[Any, str, tuple[str, ...]]


def disagreements(old: bytes, new: bytes) -> tuple[str, ...]:
    """What ruamel.yaml says went wrong: keys with the value they had before lost the comments that stood with them.

    Empty where all is well, and where it could not read the old file either.
    """
    before = _places(old)
    if before is None:
        return ()
    after = _places(new)
    if after is None:
        return ("ruamel.yaml can no longer read it",)
    return tuple(_moved(before, after))


def _moved(before: dict[KeyPath, Place], after: dict[KeyPath, Place]) -> Iterator[str]:
    for path, (value, beside, above) in before.items():
        if path not in after or after[path][0] != value:
            continue
        _, now_beside, now_above = after[path]
        if now_beside != beside or (above and now_above[-len(above) :] != above):
            yield f"the comment of `{'.'.join(map(str, path))}` no longer stands with it"


def _places(data: bytes) -> dict[KeyPath, Place] | None:
    try:
        text = data.decode("utf-8-sig")
        root = YAML(typ="rt").load(text)
    except (UnicodeDecodeError, YAMLError, ValueError, RecursionError, NotImplementedError):
        return None
    return dict(_keys(root, (), text.splitlines()))


def _keys(node: Any, path: KeyPath, lines: list[str]) -> Iterator[tuple[KeyPath, Place]]:
    if isinstance(node, CommentedMap):
        for key in node:
            place = node.lc.data.get(key) if node.lc.data else None
            if place is not None:  # keys that come from a merge have none
                yield (*path, key), (_plain(node[key]), _comment_beside(node, key), _above(lines, place[0]))
                yield from _keys(node[key], (*path, key), lines)
    elif isinstance(node, CommentedSeq):
        for index, item in enumerate(node):
            yield from _keys(item, (*path, index), lines)


def _plain(value: Any) -> Any:
    """What a key says, to see whether it was changed: of a mapping that it is one, for its keys speak themselves."""
    return type(value).__name__ if isinstance(value, (CommentedMap, CommentedSeq)) else repr(value)


def _comment_beside(node: CommentedMap, key: Any) -> str:
    tokens: list[Any] = list(node.ca.items.get(key) or ())
    token = tokens[2] if len(tokens) > 2 else None
    first = str(token.value).split("\n", 1)[0] if token is not None else ""
    return first.strip()


def _above(lines: list[str], line: int) -> tuple[str, ...]:
    start = line
    while start > 0 and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    return tuple(text.strip() for text in lines[start:line])
