"""Searches a folder and the folders above it, for example for a repository's root or a settings file."""

from __future__ import annotations

import os
from collections.abc import Callable

MOST = 65_536  # folders remembered


def upward(folder: str, look: Callable[[str], str | None], answers: dict[str, str]) -> str:
    """The first answer of `look` that is not None, for `folder` and then the folders above it; "" if all are None.

    `answers` caches the result for every folder on the way.
    """
    passed: list[str] = []
    while folder not in answers:
        passed.append(folder)
        found = look(folder)
        above = os.path.dirname(folder)
        if found is not None or above == folder:
            answer = found or ""
            break
        folder = above
    else:
        answer = answers[folder]
    if len(answers) + len(passed) > MOST:
        answers.clear()
    answers.update(dict.fromkeys(passed, answer))
    return answer
