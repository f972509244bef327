"""PyYAML, imported without compiling the patterns of its parser in Python.

That parser does not run where PyYAML has libyaml, but importing PyYAML compiles its patterns. One is built character by
character, 65,536 of them (yaml/reader.py, NON_PRINTABLE). Together they are 65 of the 383 M instructions of a check of
one file. While PyYAML is imported below, `re.compile` returns patterns that are compiled when they are first used.
"""

from __future__ import annotations

import re

from memlint._typing import Any

_compile = re.compile


class _LaterPattern:
    """A pattern that is compiled when its first method is asked for, as `memlint._lazy.Lazy` imports a module."""

    def __init__(self, *pattern_and_flags: Any) -> None:
        self._asked = pattern_and_flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(_compile(*self._asked), name)
        setattr(self, name, found)
        return found


re.compile = _LaterPattern  # type: ignore[assignment]
try:
    import yaml as yaml
finally:
    re.compile = _compile
