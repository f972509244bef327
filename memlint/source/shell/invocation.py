"""The result of following a script (`Invocation`), and its inputs from outside (`Surroundings`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memlint._record import NamedTuple
from memlint.source.shell.text import Text, Where, Word


class Invocation(NamedTuple):
    """A program that the script starts.

    `words`: the command, program first, without wrappers such as `srun`. `wrappers`: those, outermost first.
    `variables`: the exported ones and those set only for this command. `folder`: the working folder (absolute);
    `elsewhere`: its name on the author's machine, where only that is known. `at`: the place of the command in the file
    that was followed, or of the command that led to it (`bash other.sh`). `files`: absolute path -> text of files that
    the script wrote before. `conditions`: lines of unknown conditions that were assumed to be true or false for this
    command. `is_outside`: it runs in a container or on another machine. `is_of_script`: it stands in another script
    that this one runs (`bash other.sh`).
    """

    words: tuple[Word, ...]
    at: Where
    variables: Mapping[str, Text]
    folder: str
    wrappers: tuple[tuple[Word, ...], ...] = ()
    files: Mapping[str, Text] = {}
    conditions: tuple[int, ...] = ()
    is_outside: bool = False
    is_of_script: bool = False
    elsewhere: str = ""


def _nothing(path: str) -> str | None:
    return None


def _nowhere(path: str, kind: str) -> str | None:
    return None


class Surroundings(NamedTuple):
    """The environment of a script.

    `read(path)`: the text of a file of the repository, by absolute path; None if there is no such file.
    `find(path, kind)`: the file or folder (`kind`: "file", "folder" or "any") of the repository that an absolute path
    means, even if it is a path of the author's machine with the same end; else None.
    `variables`: environment variables that are set at the start, as Slurm does.
    `gpus`: how many GPUs `nvidia-smi` lists; None if unknown.
    `telling`: variables that tell programs how to run; None: all may do so.
    `follows_scripts`: whether the commands of other scripts that this one runs (`bash other.sh`) are wanted.
    """

    read: Callable[[str], str | None] = _nothing
    find: Callable[[str, str], str | None] = _nowhere
    variables: Mapping[str, str] = {}
    gpus: int | None = None
    telling: frozenset[str] | None = None
    follows_scripts: bool = True
