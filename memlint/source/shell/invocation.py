"""What following a script gives, and what it needs from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memlint._record import NamedTuple
from memlint.source.shell.text import Text, Where, Word


class Invocation(NamedTuple):
    """A program that the script starts.

    `words`: the program first, wrappers such as `srun` left out; those are in `wrappers`, outermost first.
    `variables`: exported ones and those set for this command alone. `folder`: the working folder, absolute.
    `at`: the command in the file that was read, or the command there that led to it (`bash other.sh`).
    `files`: what the script wrote before, by absolute path. `conditions`: lines of conditions that nobody can decide
    and that were taken one way here. `is_outside`: in a container or on another machine.
    `calls`: whether another script, or a function, holds the command.
    """

    words: tuple[Word, ...]
    at: Where
    variables: Mapping[str, Text]
    folder: str
    wrappers: tuple[tuple[Word, ...], ...] = ()
    files: Mapping[str, Text] = {}
    conditions: tuple[int, ...] = ()
    is_outside: bool = False
    is_looped: bool = False


def _nothing(path: str) -> str | None:
    return None


def _nowhere(path: str, kind: str) -> str | None:
    return None


class Surroundings(NamedTuple):
    """What a script can see.

    `read(path)`: the text of a file of the repository by absolute path, None where it has none.
    `find(path, kind)`: the file or folder (`kind`: "file", "folder" or "any") of the repository that an absolute path
    stands for, also where it is a path of the author's machine that ends as one of the repository does; else None.
    `variables`: those that whoever starts the script sets, as Slurm does.
    `gpus`: how many GPUs `nvidia-smi` lists; None where nobody said.
    """

    read: Callable[[str], str | None] = _nothing
    find: Callable[[str, str], str | None] = _nowhere
    variables: Mapping[str, str] = {}
    gpus: int | None = None
