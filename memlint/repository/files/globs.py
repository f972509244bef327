"""Path patterns as .gitignore writes them, matched in linear time whatever the pattern.

`*` and `?` stay inside one name, `**` spans folders, a pattern without a slash matches a name at any depth, one
with a slash is relative to its base folder, `!` negates, a final `/` matches folders only.

Why not `pathspec`: it turns a pattern into one backtracking expression. On a name of 250 letters `*a*a*a*a*b` takes
22 s there (pathspec 1.1, Python 3.11), and minutes with one star more; ignore files are untrusted input. Its import
takes 20 ms of every `memlint check .`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate

from memlint._record import NamedTuple

MAX_PATTERN = 1_000  # characters; real paths have a few hundred at most
MAX_PATTERNS = 10_000
# Folders with code of others.
THIRD_PARTY_FOLDERS = frozenset({"node_modules", "__pycache__", "site-packages", "venv", "env"})

_ESCAPED = r"\\(.)"


class Glob(NamedTuple):
    """`parts`: one expression per folder name, None for `**`. `negated`: it starts with `!`. `folders`: matches
    folders only."""

    parts: tuple[re.Pattern[str] | None, ...]
    negated: bool = False
    folders: bool = False


def compile_glob(pattern: str) -> Glob | None:
    """The pattern of a line of an ignore file; None for blank lines, comments and patterns that match no path."""
    pattern = pattern.rstrip("\r\n")
    if not pattern.endswith("\\ "):
        pattern = pattern.rstrip(" ")
    negated = pattern.startswith("!")
    body = pattern[1:] if negated else pattern
    if not body or body.startswith("#") or len(body) > MAX_PATTERN:
        return None
    folders = body.endswith("/")
    anchored = "/" in body.rstrip("/")
    names = [name for name in body.split("/") if name not in ("", ".")]
    if not names:
        return None
    if not anchored:
        names.insert(0, "**")
    return Glob(tuple(None if name == "**" else _name(name) for name in names), negated, folders)


def compile_globs(patterns: Sequence[str]) -> tuple[Glob, ...]:
    """The patterns of the lines of an ignore file, at most `MAX_PATTERNS`."""
    return tuple(glob for pattern in patterns[:MAX_PATTERNS] if (glob := compile_glob(pattern)))


def _name(pattern: str) -> re.Pattern[str]:
    # `translate` makes expressions without backtracking over several stars; it knows no backslashes.
    return re.compile(translate(re.sub(_ESCAPED, lambda escape: f"[{escape[1]}]", pattern)))


def match_decision(globs: Sequence[Glob], path: str, is_folder: bool) -> bool | None:
    """The decision of the last glob that matches `path` (relative, with `/`): False if it is negated; None if none
    matches."""
    names = path.split("/")
    for glob in reversed(globs):
        if (is_folder or not glob.folders) and _matches(glob.parts, names):
            return not glob.negated
    return None


def covers(globs: Sequence[Glob], path: str) -> bool:
    """Whether the globs match a file or one of its folders."""
    names = path.split("/")
    return any(match_decision(globs, "/".join(names[:end]), end < len(names)) for end in range(1, len(names) + 1))


def _matches(parts: Sequence[re.Pattern[str] | None], names: Sequence[str]) -> bool:
    """Whether names match parts. One retry point is enough: a later `**` matches all that an earlier one does."""
    part = name = 0
    retreat: tuple[int, int] | None = None
    while name < len(names):
        expected = parts[part] if part < len(parts) else ...
        if expected is None:
            if part == len(parts) - 1:
                return True  # `folder/**`: everything below
            part += 1
            retreat = (part, name)
        elif expected is not ... and expected.match(names[name]):
            part, name = part + 1, name + 1
        elif retreat is not None:
            part, name = retreat[0], retreat[1] + 1
            retreat = (part, name)
        else:
            return False
    return part == len(parts)
