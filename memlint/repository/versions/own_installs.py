"""Framework versions that a script or a notebook installs itself: `!pip install trl==0.9.6`, before it trains."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from memlint.repository.versions.pins import FRAMEWORKS, Pin, Version, requirements_in
from memlint.repository.versions.pip_commands import Line, Word, pip_installs
from memlint.run import Origin
from memlint.source.suffixes import SHELL

_NOTEBOOK = ".ipynb"
_IN_CELL = r"^\s*[!%]\s*(?:uv |python3? -m )?\s*pip3?\s+install\b(.*)"
_JSON_STRING = r'^\s*(?:"source":\s*)?\[?\s*("(?:[^"\\]|\\.)*")\s*\]?,?\s*$'
_UPGRADES = ("-U", "--upgrade")


@lru_cache(maxsize=16)  # a file is analysed again for each of its fixes
def own_installs(path: str, text: str) -> Mapping[str, Pin]:
    """The versions that the file at `path` installs, by framework: the last command that names one counts, and one that
    upgrades it without a version takes the pin back."""
    if not path.endswith((_NOTEBOOK, *SHELL)):
        return {}
    if path.endswith(_NOTEBOOK):
        commands = pip_installs(_of_cells(text), _IN_CELL)
    else:
        commands = pip_installs(enumerate(text.splitlines(), 1))
    found: dict[str, Pin] = {}
    for words in commands:
        upgrades = any(word in _UPGRADES for _, word in words)
        for name, version, line in _installed(words):
            if version is not None:
                found[name] = Pin(version, Origin("setting", path, line, 1, (), "installed here"))
            elif upgrades:
                found.pop(name, None)
    return found


def _of_cells(text: str) -> Iterator[Line]:
    """The lines of a notebook's cells, each with its line in the file: a JSON string of its own, as Jupyter writes
    them, or a part of a cell's only string."""
    if text.count("\n") < 2:
        cells = re.findall(r'"(?:[^"\\]|\\.)*"', text)
        yield from ((1, line) for one in cells for line in _unescaped(one))
        return
    for number, raw in enumerate(text.splitlines(), 1):
        match = re.match(_JSON_STRING, raw)
        yield from ((number, line) for line in (_unescaped(match[1]) if match else ()))


def _unescaped(string: str) -> list[str]:
    try:
        return str(json.loads(string)).splitlines()
    except ValueError:  # not JSON: a notebook that cannot be read says so elsewhere
        return []


def _installed(words: Iterable[Word]) -> Iterator[tuple[str, Version | None, int]]:
    """(framework, version, line) of each among the words of a command; None is the newest version, or the one that is
    there."""
    for line, word in words:
        if word.lower() in FRAMEWORKS:
            yield word.lower(), None, line
        yield from ((name, version, line) for name, version, _ in requirements_in(word))
