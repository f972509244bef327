"""Questions that folders are asked one above the other: a repository's root, the settings that hold."""

from __future__ import annotations

import os
from collections.abc import Callable

MOST = 65_536  # folders remembered


def upward(folder: str, look: Callable[[str], str | None], known: dict[str, str]) -> str:
    """What `look` says of `folder` or, where that is None, of the nearest folder above it; "" where none says anything.

    Answers are kept in `known` for every folder on the way: the next one beside them asks nothing again.
    """
    passed: list[str] = []
    while folder not in known:
        passed.append(folder)
        found = look(folder)
        above = os.path.dirname(folder)
        if found is not None or above == folder:
            answer = found or ""
            break
        folder = above
    else:
        answer = known[folder]
    if len(known) + len(passed) > MOST:
        known.clear()
    known.update(dict.fromkeys(passed, answer))
    return answer
