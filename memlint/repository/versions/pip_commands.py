"""The commands `pip install` in the lines of a shell script, a Dockerfile or a notebook's cell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

Line = tuple[int, str]  # its number, its text
Word = tuple[int, str]  # the number of its line, its text

_IN_SHELL = r"\bpip3? +install\b(.*)"


def pip_installs(lines: Iterable[Line], command: str = _IN_SHELL) -> Iterator[list[Word]]:
    """The words of each command behind `pip install`, over several lines too. `command`: the pattern that finds it in a
    line; its group is what follows."""
    words: list[Word] = []
    continues = False
    for number, line in lines:
        code = "" if line.lstrip().startswith("#") else line.partition(" #")[0]
        if not continues:
            found = re.search(command, code)
            if found is None:
                continue
            words, code = [], found[1]
        words += [(number, word.strip("\"'\\;&")) for word in code.split()]
        continues = code.rstrip().endswith("\\")
        if not continues:
            yield words
    if continues:
        yield words
