"""Configs that name a changed file: a change of a DeepSpeed JSON changes every run that uses it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from memlint.repository.files.discovery import SUFFIXES, FoundFile
from memlint.repository.files.git import git_or_empty, names

PATTERNS = tuple(f"*{suffix}" for suffix in SUFFIXES)


def with_dependents(found: Sequence[FoundFile]) -> list[FoundFile]:
    """`found`, and the tracked configs that mention the name of one of them."""
    known = {os.path.abspath(item.path) for item in found}
    wanted = sorted({os.path.basename(item.path) for item in found})
    if not wanted:
        return list(found)
    mentions = [part for name in wanted for part in ("-e", name)]
    listed = names(git_or_empty(".", "grep", "-l", "-z", "-I", "-F", *mentions, "--", *PATTERNS))
    more = (FoundFile(os.path.normpath(name)) for name in listed if os.path.abspath(name) not in known)
    return [*found, *more]
