"""What is known of one command that trains, on the way from the shell to a document."""

from __future__ import annotations

from memlint._record import NamedTuple
from memlint.repository.scripts.commands import LaunchCommand
from memlint.repository.scripts.definitions import TrainingProgram
from memlint.repository.scripts.files import NamedFiles
from memlint.repository.scripts.followed import Followed
from memlint.source.shell.invocation import Invocation


class ScriptLaunch(NamedTuple):
    """A command that trains.

    `path`: its program's file, absolute; None if the repository does not have it. `definitions`: what the program says
    of its arguments. `format_name`: the format whose keys they are. `run`: what the program's code makes of them, if
    the code was followed to its end.
    """

    command: LaunchCommand
    path: str | None
    definitions: TrainingProgram
    format_name: str
    invocation: Invocation
    files: NamedFiles
    run: Followed | None = None
