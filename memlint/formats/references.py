"""Finds a file that a config names: in the working directory, the config's folder, then the folders above it.

Launchers start from anywhere, so a relative `deepspeed: examples/deepspeed/ds_z3_config.json` is usually
relative to the repository and not to the file. In 77 of 78 public LLaMA-Factory configs that name another
file, it is found in that order. A path of the author's machine is the file with the same end. No URL and nothing
outside of the root is ever opened. This module does no I/O of its own: all of it goes through `Files`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from functools import lru_cache

from memlint._record import NamedTuple
from memlint.formats.base import Issue, MissingFile
from memlint.formats.issues import ISSUES
from memlint.source.document import Document, Path
from memlint.source.layout import written_text
from memlint.source.placeholders import is_placeholder

MAX_REFERENCE = 4096  # PATH_MAX on Linux
_MOST_TRIED = 3  # paths that a message names
_LFS_POINTER = "version https://git-lfs.github.com/spec/"
_URL = r"[A-Za-z][A-Za-z0-9+.-]*://"


def _any(folder: str, names: frozenset[str]) -> frozenset[str]:
    return names


class Files(NamedTuple):
    """The file system functions of a workspace. Paths are absolute and posix; `read` may raise OSError.

    `among(folder, names)`: those of the names that the folder may hold, where one listing answers for all of them, and
    what it holds that begins as a name that ends in `*`.
    """

    is_file: Callable[[str], bool]
    exists: Callable[[str], bool]
    realpath: Callable[[str], str]
    read: Callable[[str], Document]
    among: Callable[[str, frozenset[str]], frozenset[str]] = _any


def candidates(reference: str, from_path: str, cwd: str, root: str) -> tuple[str, ...]:
    """The places to try for `reference`, nearest first and without repeats; all are absolute and below `root`."""
    places = [reference] if posixpath.isabs(reference) else []
    if not places:
        places = [posixpath.join(folder, reference) for folder in (cwd, *_folders(from_path, root))]
    normal = (posixpath.normpath(place) for place in places)
    return tuple(dict.fromkeys(place for place in normal if inside(place, root)))


def inside(path: str, root: str) -> bool:
    """Whether the normalised absolute `path` is `root` or lies below it."""
    return path == root or path.startswith(root.rstrip("/") + "/")


@lru_cache(maxsize=64)  # a config may name several files
def _folders(from_path: str, root: str) -> tuple[str, ...]:
    """The folder of `from_path` and its ancestors, up to and including `root`."""
    folders = []
    folder = posixpath.dirname(from_path)
    while inside(folder, root):
        folders.append(folder)
        above = posixpath.dirname(folder)
        if folder in (root, above):
            break
        folder = above
    return tuple(folders)


def resolve(reference: str, from_path: str, cwd: str, root: str, files: Files) -> str | MissingFile:
    """The real path of the first candidate that is a file, or why there is none. `root` is a real path."""
    refused = _refuse(reference)
    if is_placeholder(reference) or "${" in reference:
        return MissingFile("placeholder", f"`{_short(reference)}` is filled in by something else")
    if refused:
        return refused
    tried = candidates(reference, from_path, cwd, root)
    if not tried:
        found = _of_author(reference, root, files)
        return found or MissingFile("outside", f"`{_short(reference)}` lies outside of the linted tree")
    folder = ""
    for place in tried:
        real = files.realpath(place)
        if not files.exists(real):
            continue
        if files.is_file(real):
            if inside(real, root):
                return real
            return MissingFile(
                "outside",
                f"`{_short(reference)}` is a link that leads outside of the linted tree",
                _relative(tried, cwd),
            )
        folder = folder or place
    if folder:
        return MissingFile("not-a-file", f"`{_short(reference)}` is not a file", _relative(tried, cwd))
    (shown,) = _relative((reference,), cwd)
    return MissingFile(
        "missing", f"no file `{_short(shown)}`", _relative(tried, cwd), _is_certain(reference, tried, files)
    )


_MOST_STEPS = 12  # parts of an author's path that are searched


def _of_author(reference: str, root: str, files: Files) -> str:
    """The file below the root that a path of its author's machine means: the one with the same end, of a folder and a
    name at least; "" where there is none. Scripts' paths are found likewise (repository/files/rooted_files.py)."""
    parts = posixpath.normpath(reference).strip("/").split("/")[-_MOST_STEPS:] if reference.startswith("/") else []
    for start in range(len(parts) - 1):
        real = files.realpath(posixpath.join(root, *parts[start:]))
        if files.exists(real) and files.is_file(real) and inside(real, root):
            return real
    return ""


def _is_certain(reference: str, tried: tuple[str, ...], files: Files) -> bool:
    """Whether a file that is not there is missing for the run as well: the folder that the reference names is there.

    Frameworks look from the folder in which they are started, which no file says.
    """
    return "/" in reference.strip("./") and any(files.exists(posixpath.dirname(place)) for place in tried)


def _relative(places: tuple[str, ...], cwd: str) -> tuple[str, ...]:
    """Paths as messages show them: relative to the working directory where they are below it."""
    below = cwd.rstrip("/") + "/"
    return tuple(place[len(below) :] if place.startswith(below) else place for place in places)


def _refuse(reference: str) -> MissingFile | None:
    if re.match(_URL, reference):
        return MissingFile("url", f"`{_short(reference)}` is a URL: memlint opens files only")
    if reference.startswith("~"):
        return MissingFile("outside", f"`{_short(reference)}` is in a home folder, outside of the linted files")
    if not reference.strip() or "\0" in reference or len(reference) > MAX_REFERENCE:
        return MissingFile("missing", f"`{_short(reference)}` is not a file name")
    return None


def reader(cwd: str, root: str, files: Files) -> Callable[[str, str], Document | MissingFile]:
    """`Context.read` over `files`: resolves, refuses cycles over all its calls, and reads."""
    parents: dict[str, str] = {}

    def read(reference: str, from_path: str) -> Document | MissingFile:
        base = posixpath.normpath(posixpath.join(cwd, from_path))
        target = resolve(reference, base, cwd, root, files)
        if isinstance(target, MissingFile):
            return target
        source = files.realpath(base)
        if _leads_to(parents, source, target):
            return MissingFile("cyclic", f"`{_short(reference)}` leads back to a file that references it", (target,))
        parents[target] = source
        try:
            found = files.read(target)
        except OSError as error:
            return MissingFile("unreadable", f"cannot read `{_short(reference)}`: {error.strerror or error}", (target,))
        if found.text.startswith(_LFS_POINTER):
            (shown,) = _relative((target,), cwd) if posixpath.isabs(reference) else (reference,)
            return MissingFile("outside", f"`{_short(shown)}` is kept by Git LFS, and its content is not here")
        return found

    return read


def _leads_to(parents: dict[str, str], start: str, target: str) -> bool:
    """Whether `target` is `start` or one of the files whose references led to `start`."""
    seen = set()
    while start and start not in seen:
        if start == target:
            return True
        seen.add(start)
        start = parents.get(start, "")
    return False


def issue(missing: MissingFile, document: Document, pointer: Path) -> Issue:
    """The issue about a reference that could not be followed, with the paths that were tried beside the named one."""
    others = [one for one in missing.tried if f"`{one}`" not in missing.message]
    tried = others[:_MOST_TRIED]
    more = f" and {len(others) - len(tried)} more" if len(others) > len(tried) else ""
    where = "; tried " + ", ".join(tried) + more if tried else ""
    code = f"{missing.code}-reference"
    severity = ISSUES[code].severity
    if missing.code == "missing" and (not missing.is_certain or _starts_elsewhere(document)):
        severity = "warning"
    message = _as_written(missing, document, pointer) if missing.code == "placeholder" else missing.message
    return Issue(code, message + where, document.path, pointer, severity)


def _starts_elsewhere(document: Document) -> bool:
    """Whether the command of a script starts in a folder that only its author's machine has, after `cd /home/me/work`:
    that it is this repository is not known."""
    return document.start is not None and posixpath.isabs(document.start.program.folder)


def _as_written(missing: MissingFile, document: Document, pointer: Path) -> str:
    """The message with the reference as the file has it: a script writes `$CFG/ds.json`, and reads `${1}/ds.json`."""
    written = written_text(document, pointer).strip("'\"") if document.syntax == "shell" else ""
    if not written or "`" in written or written.count("\n"):
        return missing.message
    return f"`{_short(written)}`{missing.message[missing.message.rindex('`') + 1 :]}"


def _short(reference: str) -> str:
    return reference if len(reference) <= 120 else reference[:117] + "..."
