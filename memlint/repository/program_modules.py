"""Finds the files of a Python program: the program itself, its imports, and the scripts that it names.

They are read as text, never executed.
"""

from __future__ import annotations

import posixpath
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from memlint._record import NamedTuple
from memlint.repository.python_arguments import Script

MOST_MODULES = 40  # of one program
_FROM = re.compile(rb"^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(?:\(([^)]*)\)|([^\n#]*))", re.MULTILINE)
_IMPORT = re.compile(rb"^[ \t]*import[ \t]+([\w., \t]+)", re.MULTILINE)
_NAMED_SCRIPT = re.compile(rb"""["']([\w./-]+\.py)["']|["']-m["'],\s*["']([\w.]+)["']""")
PACKAGE_FILES = ("pyproject.toml", "setup.cfg", "setup.py")
_COMMAND = re.compile(r"""(?m)(?:^|["' \t])([\w.-]+)["']?\s*=\s*["']?([\w.]+):\w+""")  # own-train = "own.cli:main"
_WORD = re.compile(r"\w+")


class Sources(NamedTuple):
    """The repository's files, by names relative to its root.

    `named(word, seen_from)`: the files that a path in the file `seen_from` may mean. `script(name)`: a Python file;
    None if it cannot be read. `commands`: command that a package of the repository installs -> its module.
    """

    named: Callable[[str, str], Collection[str]]
    script: Callable[[str], Script | None]
    commands: Mapping[str, str]


def modules(programs: Iterable[str], sources: Sources) -> Iterator[Script]:
    """The programs, then the files that they import and name: nearest first, each once, up to a bound."""
    waiting = deque(dict.fromkeys(programs))
    known = set(waiting)
    while waiting and len(known) - len(waiting) < MOST_MODULES:
        script = sources.script(waiting.popleft())
        if script is None:
            continue
        yield script
        for word in _words(script):
            for name in sources.named(word, script.path) or sources.named(f"src/{word}", script.path):
                if name not in known:
                    known.add(name)
                    waiting.append(name)


def module_files(name: str) -> tuple[str, str]:
    """Where a module may lie: `own.config` in own/config.py, or in own/config/__init__.py."""
    path = name.replace(".", "/")
    return f"{path}.py", f"{path}/__init__.py"


def installed_commands(texts: Iterable[str]) -> dict[str, str]:
    """The commands that these files of packages (PACKAGE_FILES) declare, with the module that each starts."""
    return {name: module for text in texts for name, module in _COMMAND.findall(text)}


def _words(script: Script) -> Iterator[str]:
    """The paths of files that the script imports or names."""
    folder = posixpath.dirname(script.path)
    for match in _FROM.finditer(script.text):
        dots, module = match[1], match[2].decode()
        base = "/".join([folder or ".", *[".."] * (len(dots) - 1)]) + "/" if dots else ""
        names = [f"{module}.{name}".lstrip(".") for name in _imported(match[3] or match[4] or b"")]
        for one in (module, *names) if module else names:
            yield from (posixpath.normpath(base + file) for file in module_files(one))
    for match in _IMPORT.finditer(script.text):
        for name in match[1].decode().split(","):
            yield from module_files(name.split()[0]) if name.split() else ()
    for path, module in _NAMED_SCRIPT.findall(script.text):
        yield from (path.decode(),) if path else module_files(module.decode())


def _imported(names: bytes) -> Iterator[str]:
    """`load, save as write` -> load, save."""
    for part in names.decode("utf-8", "replace").split(","):
        found = _WORD.search(part)
        if found:
            yield found[0]
