"""Configuration files with a schema of the repository's own: which script reads one, and what it makes of it.

A file belongs to a script that loads it by itself, or that takes a configuration file on its command line and makes
a run of values that stand in this one.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from itertools import islice

from memlint.repository.python.documents import PythonRepository, documents, may_train
from memlint.source.document import Document

SUFFIXES = (".yaml", ".yml", ".json")
MAX_SCRIPTS = 24  # of a repository, that are followed for its configuration files
MIN_KEYS = 2  # values of a run that must stand in the file
# A cheap look at the file: words that training configurations have, whatever their schema.
_TRAINS = re.compile(r"batch_size|learning_rate|\blr\b|epochs|max_steps|lora|model")
# A cheap look at a script or what it imports: it loads such files.
_LOADS = re.compile(r"yaml\.|OmegaConf|json\.load|toml|hydra|config", re.IGNORECASE)


class ConfigIndex:
    """The scripts of a repository that may read configuration files, found when first asked for."""

    def __init__(self, repository: PythonRepository, python: Callable[[], Iterable[str]]) -> None:
        self._repository = repository
        self._python = python
        self._scripts: list[tuple[str, str]] | None = None

    def documents(self, path: str) -> tuple[Document, ...]:
        """The runs that a script makes of the configuration file at `path` (below the root); none where none does."""
        text = self._repository.read(path)
        if text is None or not _TRAINS.search(text):
            return ()
        display = self._repository.display(path)
        for script, code in self._nearest(path):
            found = documents(script, code, self._repository, path)
            own = tuple(one for one in found if one.path == display and _values_here(one) >= MIN_KEYS)
            if own:
                return tuple(one._replace(index=index, documents=len(found)) for index, one in _places(found, own))
        return ()

    def _nearest(self, path: str) -> list[tuple[str, str]]:
        """Scripts, first those that name the file, then by how many folders they share with it."""
        name = posixpath.basename(path)
        folders = path.split("/")[:-1]

        def distance(script: tuple[str, str]) -> tuple[bool, int, str]:
            return name not in script[1], -_shared(folders, script[0].split("/")), script[0]

        return sorted(self._all(), key=distance)

    def _all(self) -> list[tuple[str, str]]:
        if self._scripts is None:
            self._scripts = list(islice(self._found(), MAX_SCRIPTS))
        return self._scripts

    def _found(self) -> Iterable[tuple[str, str]]:
        for path in self._python():
            text = self._repository.read(path)
            if text is not None and _LOADS.search(text) and may_train(path, text, self._repository.read):
                yield path, text


def _shared(one: list[str], other: list[str]) -> int:
    return next((index for index, pair in enumerate(zip(one, other)) if pair[0] != pair[1]), min(len(one), len(other)))


def _values_here(document: Document) -> int:
    """How many values of the run stand in the document's own file."""
    whole = document.places[()].value
    spans = (document.places[(key,)].value for key in document.value)
    return sum((span.start, span.end) != (whole.start, whole.end) for span in spans)


def _places(found: tuple[Document, ...], own: tuple[Document, ...]) -> Iterable[tuple[int, Document]]:
    """Each document with its number among all runs of the script, by which it is found again after a change."""
    return ((found.index(one), one) for one in own)
