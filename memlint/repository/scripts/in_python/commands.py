"""The commands that a Python program starts, one script for each: `subprocess.run(["torchrun", ...])`, `os.system`,
submitit's functions, functions on Modal, job scripts that it writes, training jobs of SageMaker.

The program is followed, not executed (source/python); what it starts with values that nobody knows has unknown words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from memlint.formats.trainer.python.libraries import CONSTANTS, LIBRARIES
from memlint.repository.scripts import job_headers, slurm
from memlint.repository.scripts.in_python.machines import modal_job, submitit_job
from memlint.repository.scripts.in_python.sagemaker import ESTIMATORS, training_job
from memlint.repository.scripts.in_python.texts import ProgramFile, command_text, exported, word, words
from memlint.repository.scripts.part import MOST_PARTS, Part
from memlint.source.python.follow import follow_script
from memlint.source.python.reader import ScriptFiles
from memlint.source.python.text import SourceText
from memlint.source.python.values import Either, Items, Known, Made, Value, alternatives
from memlint.source.shell.text import Piece, Text, literal, shown

# Functions that start a program, and where the command stands among their arguments: position and name (Python 3.13
# Lib/subprocess.py, os.py, asyncio/subprocess.py; submitit 1.5.3 helpers.py, CommandFunction).
_STARTERS: Mapping[str, tuple[int, str]] = {
    "subprocess.run": (0, "args"),
    "subprocess.call": (0, "args"),
    "subprocess.check_call": (0, "args"),
    "subprocess.check_output": (0, "args"),
    "subprocess.Popen": (0, "args"),
    "os.system": (0, "command"),
    "os.popen": (0, "cmd"),
    "os.execv": (1, "argv"),
    "os.execvp": (1, "args"),
    "os.execvpe": (1, "args"),
    "asyncio.create_subprocess_shell": (0, "cmd"),
    "submitit.helpers.CommandFunction": (0, "command"),
}
_SCRIPT = re.compile(r"\s*#!\S*[/ ](?:ba|z|k|da)?sh\b")


def commands_in_python(program: SourceText, file: ProgramFile, files: ScriptFiles) -> Iterator[Part]:
    """A script for each command that the program starts, with the machines that it asks for."""
    calls: list[Made] = []
    follow_script(program, files, calls.append, LIBRARIES, CONSTANTS)
    job: slurm.Job | None = None
    found: dict[tuple[str, slurm.Job | None], Part] = {}
    for call in calls:
        asked = modal_job(call, file) or submitit_job(call, file)
        job = asked if asked is not None else job
        part = training_job(call, file) if call.last in ESTIMATORS else _started(call, file, job)
        if part is not None:
            found.setdefault((shown(part.text), part.job), part)
    yield from list(found.values())[:MOST_PARTS]


def _started(call: Made, file: ProgramFile, job: slurm.Job | None) -> Part | None:
    """What a call starts, as a script; None where it starts nothing."""
    if call.name == "asyncio.create_subprocess_exec":
        return Part((*words(Items(list(call.positional)), file), Piece("\n")), job)
    if call.last in ("write", "write_text"):
        return _written(call, file)
    if call.name not in _STARTERS:
        return None
    position, name = _STARTERS[call.name]
    given = call.positional[position] if position < len(call.positional) else call.arguments.get(name)
    if given is None:
        return None
    text = words(given, file) if _is_list(given) else command_text(given, file)
    folder = call.arguments.get("cwd")
    before = (Piece("cd "), *word(folder, file), Piece("\n")) if isinstance(folder, Known) and folder.value else ()
    return Part((*exported(call.arguments.get("env"), file), *before, *text, Piece("\n")), job)


def _is_list(value: Value) -> bool:
    return all(isinstance(one, Items) for one in alternatives(value)) and isinstance(value, (Items, Either))


def _written(call: Made, file: ProgramFile) -> Part | None:
    """A script of a shell that the program writes into a file, most often for `sbatch`."""
    text: Text = command_text(call.positional[0], file) if call.positional else literal("")
    said = shown(text)
    return Part((*text, Piece("\n")), job_headers.job(said.lstrip())) if _SCRIPT.match(said) else None
