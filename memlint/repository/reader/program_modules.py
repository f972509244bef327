"""Finds the files of a Python program: the program itself, its imports, and the scripts that it names.

They are read as text, never executed.
"""

from __future__ import annotations

import posixpath
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain

from memlint.repository.reader.script import Script

MOST_MODULES = 40  # of one program
_FROM = re.compile(rb"^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(?:\(([^)]*)\)|([^\n#]*))", re.MULTILINE)
_IMPORT = re.compile(rb"^[ \t]*import[ \t]+([\w., \t]+)", re.MULTILINE)
_NAMED_SCRIPT = re.compile(rb"""["']([\w./-]+\.py)["']|["']-m["'],\s*["']([\w.]+)["']""")
PACKAGE_FILES = ("pyproject.toml", "setup.cfg", "setup.py")
_COMMAND = re.compile(r"""(?m)(?:^|["' \t])([\w.-]+)["']?\s*=\s*["']?([\w.]+):\w+""")  # own-train = "own.cli:main"
_WORD = re.compile(r"\w+")


class Sources:
    """The repository's files, by names relative to its root. What a file imports is searched once.

    `named(word, seen_from)`: the files that a path in the file `seen_from` may mean. `read`: a file's contents by its
    name; raises OSError. `commands`: command that a package of the repository installs -> its module.
    """

    def __init__(
        self,
        named: Callable[[str, str], Collection[str]],
        read: Callable[[str], bytes],
        commands: Mapping[str, str],
    ) -> None:
        self.named = named
        self.commands = commands
        self._read = read
        self._scripts: dict[str, Script | None] = {}
        self._imports: dict[str, tuple[str, ...]] = {}

    def script(self, name: str) -> Script | None:
        """A Python file; None if it cannot be read."""
        if name not in self._scripts:
            try:
                self._scripts[name] = Script(name, self._read(name))
            except OSError:
                self._scripts[name] = None
        return self._scripts[name]

    def imports(self, script: Script) -> tuple[str, ...]:
        """The files that a script imports and names."""
        found = self._imports.get(script.path)
        if found is None:
            words = dict.fromkeys(_words(script))
            files = (self.named(word, script.path) or self.named(f"src/{word}", script.path) for word in words)
            found = self._imports[script.path] = tuple(dict.fromkeys(chain.from_iterable(files)))
        return found


def modules(programs: Iterable[str], sources: Sources) -> Iterator[Script]:
    """The programs, then the files that they import and name: nearest first, each once, up to a bound."""
    waiting = deque(dict.fromkeys(programs))
    known = set(waiting)
    while waiting and len(known) - len(waiting) < MOST_MODULES:
        script = sources.script(waiting.popleft())
        if script is None:
            continue
        yield script
        new = [name for name in sources.imports(script) if name not in known]
        known.update(new)
        waiting.extend(new)


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
