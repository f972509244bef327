"""Regular expressions that are compiled when they are first used: a start uses few of those it defines."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    pattern = re.compile
else:

    class pattern:
        """`pattern(text, flags)` for `re.compile(text, flags)`: the same methods, bound at their first use."""

        def __init__(self, text, flags=0):
            self._source = text, flags

        def __getattr__(self, name):
            found = getattr(_compile(*self._source), name)
            setattr(self, name, found)
            return found


_compile = re.compile


def without_compiling(module: str) -> None:
    """Imports a library whose patterns, compiled at import, are not what it is imported for."""
    re.compile = pattern
    try:
        __import__(module)
    finally:
        re.compile = _compile
