"""Framework versions that a script or a notebook installs itself: `!pip install trl==0.9.6`, before it trains."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memlint.repository.pins import FRAMEWORKS, Pin, Version, requirements_in
from memlint.run import Origin

_NOTEBOOK = ".ipynb"
_SHELL = (".sh", ".bash", ".slurm", ".sbatch")
# A command and its words, to the end of the line. A notebook's lines are JSON strings: `"!pip install -q trl\n",`.
_IN_SHELL = re.compile(r"^[^#\n]*?\bpip3? +install\b((?:[^\\\n]|\\.|\\\n)*)", re.MULTILINE)
_IN_NOTEBOOK = re.compile(r"[!%] ?(?:uv )?pip3? install\b((?:[^\"\\]|\\[^n])*)")
_UPGRADES = ("-U", "--upgrade")


def own_installs(path: str, text: str) -> dict[str, Pin]:
    """The versions that the file at `path` installs, by framework: the last command that names one counts, and one that
    upgrades it without a version takes the pin back."""
    if "pip" not in text or not path.endswith((_NOTEBOOK, *_SHELL)):
        return {}
    found: dict[str, Pin] = {}
    for command in (_IN_NOTEBOOK if path.endswith(_NOTEBOOK) else _IN_SHELL).finditer(text):
        origin = Origin("setting", path, text.count("\n", 0, command.start()) + 1, 1, (), "installed here")
        words = [word.strip("\"'\\;&") for word in command[1].replace("\\\n", " ").partition(" #")[0].split()]
        upgrades = any(word in _UPGRADES for word in words)
        for name, version in _installed(words):
            if version is not None:
                found[name] = Pin(version, origin)
            elif upgrades:
                found.pop(name, None)
    return found


def _installed(words: list[str]) -> Iterator[tuple[str, Version | None]]:
    """The frameworks among the words of a command; None is the newest version, or the one that is there."""
    for word in words:
        if word.lower() in FRAMEWORKS:
            yield word.lower(), None
        yield from ((name, version) for name, version, _ in requirements_in(word))
