"""The files of one commit, read from git's object store, so that `memlint diff` needs no checkout."""

from __future__ import annotations

import os
import posixpath
import subprocess
from collections.abc import Iterable

from memlint import file_access
from memlint._record import NamedTuple
from memlint.formats.references import Files
from memlint.repository.dependents import PATTERNS
from memlint.repository.files.discovery import SUFFIXES
from memlint.repository.files.git import SAFE, git, git_or_empty, names
from memlint.repository.workspace import ModelSources, Workspace
from memlint.source.document import Document
from memlint.source.encoding import MAX_BYTES

LINK = b"120000"
MODULE = b"160000"
MAX_LINKS = 40  # as Linux (MAXSYMLINKS)


class TreeEntry(NamedTuple):
    mode: bytes
    blob: str


class Commit:
    """A tree with names below `root` (absolute, as if it were checked out there). Close it when done."""

    def __init__(self, root: str, revision: str) -> None:
        self.root = root.replace(os.sep, "/")
        self.revision = revision
        self.entries: dict[str, TreeEntry] = {}
        self.folders: set[str] = {""}
        for line in git(root, "ls-tree", "-r", "-z", "--full-tree", revision).split(b"\0"):
            if line:
                self._enter(line)
        self._reader: subprocess.Popen[bytes] | None = None

    def _enter(self, line: bytes) -> None:
        meta, _, name = line.partition(b"\t")
        mode, _, blob = meta.split(b" ")
        path = os.fsdecode(name)
        self.entries[path] = TreeEntry(mode, blob.decode("ascii"))
        folder = posixpath.dirname(path)
        while folder not in self.folders:
            self.folders.add(folder)
            folder = posixpath.dirname(folder)

    def configs(self) -> list[str]:
        """Names of the files that could be configs."""
        return [name for name, entry in self.entries.items() if name.endswith(SUFFIXES) and entry.mode != MODULE]

    def links(self) -> list[tuple[str, str]]:
        """(name, name of what it leads to) of the symbolic links."""
        names = (name for name, entry in self.entries.items() if entry.mode == LINK)
        return [(name, self._name(self.real(f"{self.root}/{name}"))) for name in names]

    def workspace(self, hub: bool = False, exact: bool = False) -> Workspace:
        files = Files(self._is_file, self._exists, self.real, _unset, self._among)
        sources = ModelSources(hub=hub, exact=exact)
        return Workspace(self.root, self.root, files, self.read, sources, tracked=self._tracked)

    def _among(self, folder: str, wanted: frozenset[str]) -> frozenset[str]:
        name = self._name(folder)
        start = f"{name}/" if name else ""
        held = (path[len(start) :].partition("/")[0] for path in self.entries if path.startswith(start))
        return file_access.matching(held, wanted)

    def _tracked(self) -> list[str]:
        return [name for name, entry in self.entries.items() if entry.mode not in (LINK, MODULE)]

    def read(self, path: str) -> bytes:
        """The contents of an absolute path. Raises FileNotFoundError."""
        entry = self.entries.get(self._name(self.real(path)))
        if entry is None or entry.mode == MODULE:
            raise FileNotFoundError(2, f"not in {self.revision[:12]}", path)
        return self._blob(entry.blob)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.communicate()
            self._reader = None

    def real(self, path: str) -> str:
        """`path` with the links of this tree followed; a link that leads outside is outside."""
        path = posixpath.normpath(path)
        for _ in range(MAX_LINKS):
            entry = self.entries.get(self._name(path))
            if entry is None or entry.mode != LINK:
                return path
            target = os.fsdecode(self._blob(entry.blob))
            path = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        return path

    def _name(self, path: str) -> str:
        """The name in the tree; for a path outside of it, a name that no tree has."""
        if path == self.root:
            return ""
        prefix = self.root.rstrip("/") + "/"
        return path[len(prefix) :] if path.startswith(prefix) else "//outside"

    def _is_file(self, path: str) -> bool:
        entry = self.entries.get(self._name(path))
        return entry is not None and entry.mode not in (LINK, MODULE)

    def _exists(self, path: str) -> bool:
        return self._is_file(path) or self._name(path) in self.folders

    def _blob(self, blob: str) -> bytes:
        """At most one byte more than memlint reads, so that the loader can refuse what is too large."""
        if self._reader is None:
            self._reader = subprocess.Popen(
                ["git", *SAFE, "cat-file", "--batch"], cwd=self.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        reader = self._reader
        assert reader.stdin is not None
        assert reader.stdout is not None
        reader.stdin.write(blob.encode("ascii") + b"\n")
        reader.stdin.flush()
        head = reader.stdout.readline().split()
        if len(head) != 3:
            raise FileNotFoundError(2, "git cannot read this object", blob)
        size = int(head[2])
        data = reader.stdout.read(min(size, MAX_BYTES + 1))
        left = size + 1 - len(data)  # the rest, and the line feed behind it
        while left > 0:
            left -= len(reader.stdout.read(min(left, 2**20))) or left
        return data


def _unset(path: str) -> Document:
    raise NotImplementedError  # a Workspace sets this field to its own cached reader


def changed(root: str, base: str, head: str | None) -> tuple[tuple[str | None, str | None], ...]:
    """(old name, new name) of every file that differs; None where a side has none. `head` None: the working tree."""
    ends = [base] if head is None else [base, head]
    parts = git(root, "diff", "--name-status", "-z", "-M", "--no-ext-diff", *ends, "--").split(b"\0")
    pairs: list[tuple[str | None, str | None]] = []
    words = iter(parts)
    for status in words:
        if not status:
            break
        old = os.fsdecode(next(words))
        if status[:1] in b"RC":
            pairs.append((old if status[:1] == b"R" else None, os.fsdecode(next(words))))
        else:
            pairs.append((None if status == b"A" else old, None if status == b"D" else old))
    if head is None:
        others = git(root, "ls-files", "--others", "--exclude-standard", "-z").split(b"\0")
        pairs += [(None, os.fsdecode(name)) for name in others if name]
    return tuple(pairs)


def mentioning(root: str, revision: str | None, words: Iterable[str]) -> list[str]:
    """Names of the configs that contain one of `words`, at a revision or (None) in the working tree."""
    asks = [part for word in sorted(set(words)) for part in ("-e", word)]
    if not asks:
        return []
    where = [revision] if revision else ["--untracked"]
    output = git_or_empty(root, "grep", "-l", "-z", "-I", "-F", "--full-name", *asks, *where, "--", *PATTERNS)
    prefix = f"{revision}:" if revision else ""
    return [name[len(prefix) :] for name in names(output)]
