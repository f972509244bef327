"""The Python files of a repository, indexed by what ties a script to a config: the files and folders that it names, and
the keys that it looks up. Only text is searched.

`scripts.naming("sft.yaml")` gives the scripts with words in quotes that end with that name, `scripts.near(
"configs/sft.yaml")` those that name the folder `configs`, `scripts.reading(keys, 3)` those that look up three of the
keys.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache

from memlint.repository.launch.pages import docstring
from memlint.repository.reader.program_modules import Sources, modules
from memlint.repository.reader.python_arguments import Python
from memlint.repository.reader.script import Script, quoted

MOST_KEPT = 64  # configs: the checked one, its changes by fixes, and those that it names
_OPEN = re.compile(r"[{*%]")
_FILE_IN_FOLDER = re.compile(rb"""["'][^"'\n]{1,200}["']\s*[,/]\s*["']([\w.-]+\.(?:ya?ml|json|toml))["']""")
_FOLDER_IN_FOLDER = re.compile(rb"""(?<=[\w.-])["'] / ["'](?=[\w-]+["'])""")  # `root / "games" / "configs"`
_JOIN = re.compile(rb"\bjoin(?:path)?\([^()\n]{1,200}\)")
_NEXT_FOLDER = re.compile(rb"""(?<=[\w.-])["'],\s*["'](?=[\w-]+["'])""")  # `join(root, "configs", "games")`
_MOST_OF_DOCSTRING = 16_384  # bytes of a script that may hold its docstring
_NAMES_FILE = re.compile(r"\.(?:ya?ml|json|toml)\b")
_HYDRA = b"hydra.main"
_SPLITS = frozenset(("train", "test", "eval", "dev", "validation", "data"))  # words for parts of a data set


class ScriptIndex:
    """The Python files of one repository that may read a config. What depends on the repository alone is found once.

    All paths are relative to the repository's root.
    """

    def __init__(self, python: Python, sources: Sources) -> None:
        self._python = python
        self.sources = sources
        self.program = cache(self._program)
        self.has_loader = cache(self._has_loader)
        self._by_folder = cache(self._naming_folder)
        self._words = lru_cache(MOST_KEPT)(_words_beside)

    @property
    def scripts(self) -> Sequence[Script]:
        return self._python.scripts

    def with_word(self, word: str) -> Sequence[Script]:
        """The scripts that contain `word`."""
        return self._python.scripts_with(word)

    def _program(self, path: str) -> Sequence[Script]:
        """A program with the modules that it imports."""
        return list(modules([path], self.sources))

    def naming(self, name: str) -> Sequence[tuple[Script, tuple[str, ...]]]:
        """(script, its words in quotes that end with the file name `name`)."""
        return self._by_file.get(name, ())

    @cached_property
    def _by_file(self) -> Mapping[str, list[tuple[Script, tuple[str, ...]]]]:
        found: dict[str, list[tuple[Script, tuple[str, ...]]]] = {}
        for script in self.scripts:
            for name, words in script.named_files.items():
                found.setdefault(name, []).append((script, words))
        return found

    def reading(self, keys: Collection[str], fewest: int) -> Iterator[Script]:
        """The scripts without a parser that look up at least `fewest` of the `keys`."""
        counts = Counter(number for key in keys for number in self._by_word.get(key, ()))
        for number in sorted(number for number, count in counts.items() if count >= fewest):
            script = self.scripts[number]
            if not script.parsers and len(script.keys_read(keys)) >= fewest:
                yield script

    @cached_property
    def _by_word(self) -> Mapping[str, list[int]]:
        """A word -> the numbers of the scripts that may look it up."""
        found: dict[str, list[int]] = {}
        for number, script in enumerate(self.scripts):
            for word in script.words_read:
                found.setdefault(word, []).append(number)
        return found

    @cached_property
    def docstrings(self) -> Sequence[str]:
        """The docstrings of the scripts that name a file of settings."""
        found = (docstring(script.text[:_MOST_OF_DOCSTRING].decode("utf-8", "replace")) for script in self.scripts)
        return [text for text in found if _NAMES_FILE.search(text)]

    def near(self, config: str) -> Sequence[Script]:
        """The scripts that name the config's folder."""
        folder, name = posixpath.split(config)
        return self._by_folder(folder, name if name in self._by_file else "") if folder else ()

    def _naming_folder(self, folder: str, name: str) -> Sequence[Script]:
        mentioned = folder.encode("utf-8", "replace")
        scripts = (script for script in self.scripts if mentioned in script.text or _HYDRA in script.text)
        return [script for script in scripts if _names_folder(script, folder, self._words(script, name))]

    def _has_loader(self, loads: Callable[[Script], bool]) -> bool:
        """Whether a script without a parser loads such files."""
        return any(loads(script) and not script.parsers for script in self.scripts)


def _words_beside(script: Script, name: str) -> frozenset[str]:
    """The words in quotes of a script, without the files in a folder that it names in two words, but for the file
    `name`: `join("configs", "app.yaml")` is about one file of the folder."""
    config = name.encode("utf-8", "replace")
    text = _FILE_IN_FOLDER.sub(lambda match: match[0] if match[1] == config else b"", script.text)
    text = _JOIN.sub(lambda match: _NEXT_FOLDER.sub(b"/", match[0]), _FOLDER_IN_FOLDER.sub(b"/", text))
    return frozenset(word.removeprefix("./").rstrip("/") for word in quoted(text))


def _names_folder(script: Script, folder: str, words: Collection[str]) -> bool:
    """Whether the script, whose `words` these are, names the folder of a config, or a pattern of files in it.

    A path of another file in the folder does not count, nor does a folder with a name such as "train" or "test". For
    Hydra, all folders below the named one count, relative to the script.
    """
    if folder in words and folder not in _SPLITS:
        return True
    if any(word.startswith(f"{folder}/") and _OPEN.search(word) for word in words):
        return True
    if _HYDRA not in script.text:
        return False
    beside = posixpath.dirname(script.path)
    tops = (top for word in words if word for top in (word, f"{beside}/{word}"))
    return any(_lies_below(folder, top) for top in tops)


def _lies_below(folder: str, top: str) -> bool:
    """Whether the folder is `top` or lies below it; the root, which is above all of them, says nothing."""
    whole = posixpath.normpath(f"/{top}")
    return whole.strip("/") != "" and f"/{folder}/".startswith(f"{whole}/")
