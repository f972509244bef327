"""An index of the launch commands and launch files of one repository.

The commands of a page are parsed only when a config that it may name is looked up.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING

from memlint.formats.base import Launch
from memlint.repository.launch.pages import (
    MOST_BYTES,
    STARTS,
    TrackedNames,
    by_distance,
    command_texts,
    comments,
    docstring,
    is_script,
    may_launch_any,
    names_config,
    other_texts,
    says_launchers,
)
from memlint.source.document import Document

if TYPE_CHECKING:
    from memlint.repository.launch.starts import ProgramStart

MOST_STARTS = 200  # commands of one page
MOST_KEPT = 64  # configs: the checked one, and those that it names


class LaunchIndex:
    """Finds the commands and the launch files of a config.

    Names are relative to `root`. `tracked`: the names of the repository's files. `read`, `load` and `has_word` take
    absolute paths; `has_word`: see RootedFiles. `before`: the index of the same files, of which some have changed: what
    it read of a page holds where the page has not, nor a script that was followed from it.
    """

    def __init__(
        self,
        root: str,
        tracked: Iterable[str],
        read: Callable[[str], bytes],
        load: Callable[[str], Document],
        has_word: Callable[[str, tuple[str, ...], int], bool],
        before: LaunchIndex | None = None,
    ) -> None:
        self._before = before
        self._followed: dict[
            str, dict[str, str | None]
        ] = {}  # page -> the files that were read for it, with their text
        self._names = TrackedNames(root, frozenset(tracked))
        self._texts = dict(command_texts(self._names, read))
        self._open = frozenset(name for name, data in self._texts.items() if may_launch_any(name, data))
        self._by_page: dict[str, dict[str, list[Launch]]] = {}
        self._starts: dict[str, tuple[ProgramStart, ...]] = {}
        self._read = read
        self._load = load
        self._has_word = has_word
        self._others: dict[str, bytes] | None = None
        self._naming = lru_cache(MOST_KEPT)(lambda name: tuple(self.pages_with(name)))
        self._on_pages = lru_cache(MOST_KEPT)(self._launches_on_pages)
        self._files: tuple[str, ...] | None = None
        self._used: Mapping[str, int] | None = None
        self._ends: frozenset[str] | None = None  # of the tracked files: see `_ends`

    def launches(self, config: str, text: str) -> tuple[Launch, ...]:
        """The commands that launch `config`: those in its own words, then the nearest first. Of a program, those that
        name no config, if there are such: another one's run is that config's."""
        launches = (*in_own_words(config, text, self._names), *self._on_pages(config))
        return tuple(one for one in launches if not one.names_config) or launches

    def _launches_on_pages(self, config: str) -> Sequence[Launch]:
        """The commands on all pages that launch `config`, the nearest first."""
        pages = self._pages_naming(posixpath.basename(config))
        found = (launch for page in pages for launch in self._launches_in(page).get(config, ()))
        return by_distance(found, config, lambda launch: launch.path)

    def starts(self, program: str) -> tuple[ProgramStart, ...]:
        """The commands that start the Python program at the path `program`: its docstring's, then the nearest first."""
        stem = posixpath.basename(program).removesuffix(".py")
        stem = posixpath.basename(posixpath.dirname(program)) if stem == "__main__" else stem
        found = (one for page in self._pages_naming(stem) for one in self._starts_in(page) if one.program == program)
        said = self._starts_in_own(program, lambda: docstring(self._text(program) or ""))
        own = (one for one in said if one.program == program)
        return (*own, *by_distance(found, program, lambda start: start.written_at))

    def starts_with(self, config: str, text: str | None = None) -> tuple[ProgramStart, ...]:
        """The commands that name the configuration file `config` to a Python program: those in its own comments, then
        the nearest first. `text`: of the config, where it was read before."""
        pages = self._pages_naming(posixpath.basename(config))
        found = (one for page in pages for one in self._starts_in(page) if config in one.files.values())
        is_read = text is not None and config in self._names.names
        said = self._starts_in_own(config, lambda: comments((text if is_read else self._text(config)) or ""))
        own = (one for one in said if config in one.files.values())
        return (*own, *by_distance(found, config, lambda start: start.written_at))

    def _pages_naming(self, word: str) -> Iterator[str]:
        wanted = word.encode("utf-8", "replace")
        return (name for name, data in self._texts.items() if name in self._open or wanted in data)

    def _starts_in(self, page: str) -> Sequence[ProgramStart]:
        if page not in self._starts and not self._is_as_before(page, of_starts=True):
            self._read_page(page, of_starts=True)
        return self._starts[page]

    def _starts_in_own(self, name: str, said: Callable[[], str]) -> Sequence[ProgramStart]:
        """The commands in what a file has `said` of itself: a program's docstring, a config's comments."""
        if name not in self._starts:
            self._starts[name] = self._starts_said(name, said())
        return self._starts[name]

    def _starts_said(self, name: str, text: str) -> tuple[ProgramStart, ...]:
        if not re.search(STARTS, text):
            return ()
        from memlint.repository.launch.starts import starts_in_text  # where a file has a command line

        return tuple(islice(starts_in_text(name, text, self._names, self._text), MOST_STARTS))

    def pages_with(self, word: str) -> Iterator[str]:
        """The texts that show commands and contain `word`."""
        wanted = word.encode("utf-8", "replace")
        return (data.decode("utf-8", "replace") for data in self._texts.values() if wanted in data)

    def scripts_with(self, words: Iterable[str]) -> list[str]:
        """The names of the shell scripts that contain all of `words`."""
        wanted = [word.encode("utf-8", "replace") for word in words]
        return [name for name, data in self._texts.items() if is_script(name) and all(one in data for one in wanted)]

    def pages_naming(self, config: str) -> tuple[str, ...]:
        """The texts that show commands and contain the name of `config`."""
        return self._naming(posixpath.basename(config))

    def others_naming(self, config: str) -> Iterator[tuple[str, str]]:
        """(name, text) of programs in other languages, and of files with steps, that name `config`."""
        if self._others is None:
            self._others = dict(other_texts(self._names, self._read))
        found = ((name, data) for name, data in self._others.items() if names_config(data, config))
        return ((name, data.decode("utf-8", "replace")) for name, data in found if name != config)

    @cached_property
    def tracks_python(self) -> bool:
        return any(name.endswith(".py") for name in self._names.names)

    def named(self, word: str, config: str) -> tuple[str, ...]:
        """The tracked files that `word` of some page may name: from the root, or from a folder above `config`."""
        if not self._may_exist(word):
            return ()
        folders, folder = [""], posixpath.dirname(config)
        while folder:
            folders.append(folder)
            folder = posixpath.dirname(folder)
        return self._names.resolve(word, folders)

    def _may_exist(self, word: str) -> bool:
        """Whether a tracked file ends as `word` does. Most imports of a program are of packages that lie elsewhere."""
        if self._ends is None:
            self._ends = frozenset(end for name in self._names.names for end in _ends(name))
        return _is_odd(word) or _ends(word)[-1] in self._ends

    def files(self, config: str) -> Sequence[str]:
        """The launch files of accelerate, the likeliest for `config` first."""
        import memlint.repository.launch.files as launch_files  # where nothing launches a config of several GPUs

        if self._files is None:
            self._files = launch_files.launch_files(self._names, self._has_word, self._load)
        return launch_files.likeliest(self._files, config, self._uses()) if self._files else ()

    def _uses(self) -> Mapping[str, int]:
        """How many of the repository's commands name a file."""
        if self._used is None:
            by_config = (found for page in self._texts for found in self._launches_in(page).values())
            self._used = Counter(name for launch in chain.from_iterable(by_config) for name in launch.files)
        return self._used

    def _text(self, name: str) -> str | None:
        """The text of a tracked file; None if it cannot be read."""
        if name not in self._names.names:
            return None
        try:
            data = self._texts[name] if name in self._texts else self._read(posixpath.join(self._names.root, name))
        except OSError:
            return None
        return data.decode("utf-8", "replace") if len(data) <= MOST_BYTES else None

    def _launches_in(self, page: str) -> Mapping[str, Sequence[Launch]]:
        """Config -> the commands in a page that launch it."""
        if page not in self._by_page and not self._is_as_before(page, of_starts=False):
            self._read_page(page, of_starts=False)
        return self._by_page[page]

    def _is_as_before(self, page: str, of_starts: bool) -> bool:
        """Takes what the index before read of a page; whether that holds."""
        before = self._before
        if before is None or page not in (before._starts if of_starts else before._by_page):
            return False
        followed = before._followed.get(page, {})
        if before._texts.get(page) != self._texts[page] or before._names != self._names:
            return False
        if any(self._text(name) != text for name, text in followed.items()):
            return False
        if of_starts:
            self._starts[page] = before._starts[page]
        else:
            self._by_page[page] = before._by_page[page]
        self._followed[page] = followed
        return True

    def _read_page(self, page: str, of_starts: bool) -> None:
        """Reads the starts of programs in a page, or its launches of configs. To follow a script takes longest: it is
        read for both at once. In any other page each has its own beginnings of commands."""
        from memlint.repository.launch.parse import commands, launches_among  # where a page names a config
        from memlint.repository.launch.starts import COMMAND, starts_among  # where a script has a command line

        text = self._texts[page].decode("utf-8", "replace")
        start = COMMAND if of_starts and not is_script(page) else None
        followed = self._followed.setdefault(page, {})

        def read(name: str) -> str | None:
            followed[name] = self._text(name)
            return followed[name]

        found = tuple(commands(page, text, self._names, read, start))
        if of_starts or is_script(page):
            self._starts[page] = tuple(islice(starts_among(found, page, text, self._names), MOST_STARTS))
        if not of_starts or is_script(page):
            by_config: dict[str, list[Launch]] = {}
            for config, launch in launches_among(found, page, text, self._names):
                by_config.setdefault(config, []).append(launch)
            self._by_page[page] = by_config


def _ends(path: str) -> tuple[str, ...]:
    """The last part of a path, and its last two if it has two."""
    folder, _, name = path.rpartition("/")
    return (name, f"{folder.rpartition('/')[2]}/{name}") if folder else (name,)


def _is_odd(path: str) -> bool:
    """Whether the last parts of a path are not what it ends with: it begins at the disk's root, or goes upwards."""
    return path.startswith("/") or path.endswith(("/", ".")) or "./" in path or "//" in path


def in_own_words(name: str, text: str, tracked: TrackedNames) -> tuple[Launch, ...]:
    """The commands that launch a config or a program and stand in its own comments, or in the program's docstring.

    `tracked`: the files that they may name beside it.
    """
    if not says_launchers(text):
        return ()
    own_words = (comments(text), docstring(text) if name.endswith(".py") else "")
    said = [own for own in own_words if _may_launch(own, name)]
    if not said:
        return ()
    from memlint.repository.launch.parse import launches_in_text  # where a launcher is named

    known = tracked if name in tracked.names else tracked._replace(names=tracked.names | {name})
    found = (one for own in said for one in launches_in_text(name, own, known))
    return tuple(launch for launched, launch in found if launched == name)


def _may_launch(text: str, name: str) -> bool:
    """Whether a command in a text may launch the file `name`: it names a launcher, and the file or a part that is
    filled in. Most comments show how another file is launched."""
    return says_launchers(text) and (posixpath.basename(name) in text or "$" in text or "{" in text)
