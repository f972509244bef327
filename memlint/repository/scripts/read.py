"""Makes documents of a script's launches, one for each command that trains.

    documents("train.sh", text, Repository(...))

follows the script (source/shell), keeps the commands that start a training program (commands.py), asks the program for
its own definitions (definitions.py) and gives each command's arguments as a document (document.py).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache, partial
from itertools import pairwise
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.trainer.python.python_run import PythonRun
from memlint.repository.scripts import job_headers, slurm
from memlint.repository.scripts.arguments import arguments, config, lone_config, takes_all_from_config
from memlint.repository.scripts.command_line import command_line
from memlint.repository.scripts.commands import LaunchCommand, command, is_open, options, overrides
from memlint.repository.scripts.config_files import config_word
from memlint.repository.scripts.definitions import TrainingProgram, program
from memlint.repository.scripts.document import Values
from memlint.repository.scripts.environment import TELLING
from memlint.repository.scripts.files import NamedFiles, Repository
from memlint.repository.scripts.followed import MOST_FOLLOWED, Followed, followed
from memlint.repository.scripts.in_python.commands import commands_in_python
from memlint.repository.scripts.in_python.texts import ProgramFile
from memlint.repository.scripts.jobs import commands_in_yaml
from memlint.repository.scripts.known_programs import format_of, takes_overrides
from memlint.repository.scripts.launch import ScriptLaunch
from memlint.repository.scripts.launch_file import launch_file
from memlint.repository.scripts.lost import with_lost_flags
from memlint.repository.scripts.makefiles import holds_recipes, recipes
from memlint.repository.scripts.notebooks import commands_in_notebook
from memlint.repository.scripts.part import Part
from memlint.repository.scripts.start import start
from memlint.repository.scripts.world import World, asked_for, no_more_than_in_file, world
from memlint.repository.starters import may_start_commands
from memlint.source import load
from memlint.source.document import Document, Problem, Span
from memlint.source.python import notebook
from memlint.source.python.reader import CommandLine, ScriptFiles
from memlint.source.python.text import SourceText
from memlint.source.python.values import Known, Value, source_of
from memlint.source.shell.interpreter import Interpreter
from memlint.source.shell.invocation import Invocation, Surroundings
from memlint.source.shell.text import Text, shown
from memlint.source.shell.tree import Source

_PYTHON = (".py", ".ipynb")
_FILE_ALONE = ("llamafactory", "axolotl")  # formats whose programs, if they get a file, read nothing else
_MODEL = "model_name_or_path"
_FOLLOWED = ("trainer", "", None)  # formats of programs whose code must be followed
MOST_DOCUMENTS = 32  # launches of one script
MOST_LETTERS = 262_144
MOST_REREAD = 16  # texts of a script with edits, whose launches are kept
# A quick test: a script without any of these has no command that trains.
HINT = re.compile(
    r"torchrun|torch\.distributed|accelerate|deepspeed|llamafactory|axolotl|\btrl\s|\bswift\s|\bmegatron\s|train"
    r"|\btune\s+run|sft|dpo|grpo|finetune|fine_tune|main_ppo|batch[_-]size|learning[_-]rate|--lr\b"
)
STARTS = re.compile(
    r"python|torchrun|accelerate|deepspeed|llamafactory|axolotl|trl|swift|megatron|autotrain|\buv\s+run|PYTHON"
    r"|\b(?:tune|lightning|fabric)\s+run"
    r"|\.(?:sh|bash)[\"']?[ \t]+(?:\\\r?\n[ \t]*)?[\"'$\w-]"  # another script, with arguments for it
)


def may_launch(text: str, installed: Iterable[str] = ()) -> bool:
    """Whether a script may have a command that trains and must be followed. `installed`: names of such commands."""
    if len(text) > MOST_LETTERS or HINT.search(text) is None:
        return False
    return STARTS.search(text) is not None or any(name in text for name in installed)


_SUBMITTED_IN = ("SLURM_SUBMIT_DIR", "PBS_O_WORKDIR")  # variables for the folder from which a job was submitted


def documents(
    path: str,
    text: str,
    repository: Repository,
    display: str = "",
    gpus: int | None = None,
    follows_scripts: bool = True,
) -> tuple[Document, ...]:
    """The launches of the script at `path` (absolute), in order. `display`: the path in their documents.

    `gpus`: the number of GPUs of the machine, for scripts that count them; None if unknown. `follows_scripts`: whether
    launches of other scripts that this one runs are wanted.
    """
    if not may_launch(text, repository.installed) and not (path.endswith(_PYTHON) and HINT.search(text)):
        return ()
    found, has_others = _launches(path, text, repository, display or path, gpus, follows_scripts)
    count = len(found)
    # Whoever places an edit asks for the same texts again: the script as it is, and with an edit that is tried further.
    again = partial(_reread, path=path, repository=repository, display=display, gpus=gpus, follows_scripts=has_others)
    reread = lru_cache(MOST_REREAD)(again)
    at_gpus = partial(_at_gpus, path, text, repository, display)
    return tuple(
        document._replace(
            index=index,
            documents=count,
            start=document.start._replace(
                machine=document.start.machine._replace(at_gpus=partial(at_gpus, index)),
                values=document.start.values._replace(reread=reread),
            ),
        )
        for index, document in enumerate(found)
        if document.start is not None
    )


def _launches(
    path: str, text: str, repository: Repository, display: str, gpus: int | None, follows_scripts: bool
) -> tuple[list[Document], bool]:
    """The launches, and whether some are of other scripts that this one runs."""
    job = None if path.endswith(_PYTHON) and text[:2] != "#!" else job_headers.job(text)
    visible = gpus or (job.gpus if job is not None and job.gpus else None)
    folder = _start_folder(path, text, repository)
    variables = {**(job.variables if job else {}), **dict.fromkeys(_SUBMITTED_IN, folder)}
    found: list[Document] = []
    has_others = False
    for part in _parts(path, text, repository):
        asked = part.job or job
        on_node = visible or (part.job.gpus if part.job is not None else 0)
        telling = TELLING if asked is None else None  # a job's cards are those of all scripts that it runs
        around = Surroundings(repository.read, repository.find, variables, on_node or None, telling, follows_scripts)
        follower = Interpreter(path, around)
        follower.follow(text, folder, source=None if part.text is None else Source(part.text))
        reader = _Reader(path, text, repository, display, asked, follower.asked_for_gpus)
        found += reader.all(follower.invocations)
        has_others = has_others or reader.has_launches_of_others
    return found, has_others


class _Whole(NamedTuple):
    """A file that is one script."""

    text: Text | None = None
    job: slurm.Job | None = None


def _parts(path: str, text: str, repository: Repository) -> Iterable[Part | _Whole]:
    """The scripts that a file holds: itself, or those in its recipes and steps, or that it starts."""
    if holds_recipes(path):
        return recipes(path, text)
    if path.endswith(".ipynb"):
        file = load(text.encode("utf-8", "replace"), path, syntax="json")[0]
        cells = [part for part in commands_in_notebook(file) if may_launch(shown(part.text))]
        return [
            *cells,
            *_started_by(
                notebook.read(file._replace(path=posixpath.relpath(path, repository.root))), path, text, repository
            ),
        ]
    if path.endswith(".py"):
        return _started_by(repository.parse(path, text), path, text, repository)
    if path.endswith((".yaml", ".yml")):
        loaded = load(text.encode("utf-8", "replace"), path)
        return [part for document in loaded for part in commands_in_yaml(document)]
    return [_Whole()]


def _started_by(program: SourceText | Problem, path: str, text: str, repository: Repository) -> Iterable[Part]:
    """The scripts that the Python program at `path` starts."""
    inner = posixpath.relpath(path, repository.root)
    if isinstance(program, Problem) or not may_start_commands(inner, text):
        return ()

    def module(name: str) -> SourceText | None:
        place = posixpath.join(repository.root, name)
        found = repository.read(place)
        parsed = repository.parse(place, found) if found is not None else None
        return parsed if isinstance(parsed, SourceText) else None

    files = ScriptFiles(module, lambda name: repository.load(name, repository.root))
    return commands_in_python(program, ProgramFile(path, program.path, text), files)


def _reread(
    text: str, path: str, repository: Repository, display: str, gpus: int | None, follows_scripts: bool
) -> tuple[Document, ...]:
    return documents(path, text, repository, display, gpus, follows_scripts)


def _at_gpus(path: str, text: str, repository: Repository, display: str, index: int, gpus: int) -> Document | None:
    found = documents(path, text, repository, display, gpus)
    return found[index] if index < len(found) else None


def _start_folder(path: str, text: str, repository: Repository) -> str:
    """The likely start folder of a script: among the repository's root and the folders down to the script, the one from
    which most of the files that it names exist."""
    folder = posixpath.dirname(path)
    folders = [folder]
    while folders[-1] != repository.root and folders[-1].startswith(repository.root):
        folders.append(posixpath.dirname(folders[-1]))
    names = set(re.findall(r"(?<![\w/$}.-])(?:\./|\.\./)*[\w-]+(?:/[\w.-]+)*\.(?:py|json|ya?ml|sh)\b", text)[:200])

    def named(base: str) -> int:
        places = (posixpath.normpath(posixpath.join(base, name)) for name in names)
        return sum(repository.find(place, "file") == place for place in places)

    return max(reversed(folders), key=named)


_SHOWN_BY_HYDRA = frozenset({"job", "hydra", "all"})


def _only_prints(launched: LaunchCommand) -> bool:
    """Whether the command only prints help (`llamafactory-cli train -h`), or its configuration: with `--cfg job`, Hydra
    does so "instead of running" (1.3.2 _internal/utils.py, get_args_parser)."""
    words = [word.text for word in launched.arguments]
    shows = (one in ("--cfg", "-c") and after in _SHOWN_BY_HYDRA for one, after in pairwise(words))
    return words in (["-h"], ["--help"]) or any(shows)


def _is_told_not_to(launched: LaunchCommand) -> bool:
    """Whether a command says that its program does not train: it gives no `--do_train`, nor a file that may say it."""
    named, others = options(launched.arguments)
    words = (*others, *(word for one in named for word in one.values))
    has_file = any(word.text.endswith((".yaml", ".yml", ".json")) or word.unknown for word in others)
    given = {one.name for one in named}
    is_silent = not {"do_train", "config"} & given and not has_file
    return is_silent and bool(words) and not is_open(launched.arguments)


_TRAINS = re.compile(r"train|tune|sft|dpo|grpo|ppo|fit|learn|distil|run", re.IGNORECASE)


def _names_another_command(launched: LaunchCommand, program: TrainingProgram) -> bool:
    """Whether a command names a subcommand (`main.py eval ...`) of a program that trains in another one."""
    _, others = options(launched.arguments)
    said = next((word.text for word in others if word.text in program.subcommands), "")
    return bool(said) and not _TRAINS.search(said) and any(map(_TRAINS.search, program.subcommands))


def _leaves_to_a_file(launched: LaunchCommand, program: TrainingProgram) -> bool:
    """Whether a parser of dataclasses reads a file of arguments: `sft.py --config sft.yaml`, `run_clm.py args.json`.

    Then the file is linted as the run: judging the flags without it would use wrong defaults. With argparse, a script
    interprets `--config` with code of its own.
    """
    if program.parses == "argparse":
        return False
    named, others = options(launched.arguments)
    given = [word for one in named if one.name == "config" for word in one.values]
    return any(word.text.endswith((".yaml", ".yml", ".json")) for word in (*given, *others[:1]))


def _says_nothing(launched: LaunchCommand, program: TrainingProgram, runs: tuple[Followed, ...]) -> bool:
    """Whether nobody says what a launch trains: `accelerate launch sft.py "$@"` of a script that is given no arguments,
    where a parser of dataclasses has no model by itself. Its defaults are no run that somebody starts."""
    if launched.arguments or program.parses != "dataclasses":
        return False
    if runs:
        return not any(isinstance(one.run.keys.get("model_name_or_path"), Known) for one in runs)
    defaults = (program.meanings.get(name, name) for name, one in program.flags.items() if one.default)
    return "model_name_or_path" not in {*defaults, *program.constants}


def _overrides_a_config(launched: LaunchCommand) -> bool:
    """Whether words such as `trainer.args.bf16=true` change values of a configuration that the program composes: where
    its code could not be followed with them, what the other values are is not known, and no default of a class."""
    _, others = options(launched.arguments)
    return any("." in one.name for one in overrides(others))


def _is_of_a_file(value: Value | None) -> bool:
    """Whether a value is written in a config, or has no place."""
    return value is None or source_of(value).how == "config"


def _has_arguments_of_a_file(run: PythonRun, file: Document | None) -> bool:
    """Whether a config alone gives the arguments of a program: its batch, and nothing of the model that its code
    decides."""
    is_of_file = _is_of_a_file(run.keys.get("per_device_train_batch_size"))
    return is_of_file and not _makes_adapter(run) and not _loads_otherwise(run, file)


# How a model is loaded, by the names that a file may say it under.
_OF_LOADING = (("dtype", "torch_dtype"), ("attn_implementation", "use_flash_attention_2"))


def _loads_otherwise(run: PythonRun, file: Document | None) -> bool:
    """Whether the program's code says how the model is loaded, and its file of arguments does not:
    `from_pretrained(name, torch_dtype=torch.float16, attn_implementation="eager")`."""
    said = file.value if file is not None and isinstance(file.value, dict) else {}
    values = (run.keys.get(names[0]) for names in _OF_LOADING if not any(name in said for name in names))
    return any(
        isinstance(value, Known) and value.value not in (None, "float32") and value.source.how != "config"
        for value in values
    )


def _makes_adapter(run: PythonRun) -> bool:
    """Whether the program makes its model's adapter in its own code, whatever its file of arguments says."""
    return source_of(run.keys.get("use_peft") or Known(None)).how == "call"


class _Reader:
    """Turns the programs that a script starts into documents."""

    def __init__(
        self, path: str, text: str, repository: Repository, display: str, job: slurm.Job | None, asks_for_gpus: bool
    ) -> None:
        self.asks_for_gpus = asks_for_gpus
        self.path = path
        self.text = text
        self.repository = repository
        self.display = display
        self.job = job
        self._programs = repository.programs
        self._runs: dict[tuple[str, str], tuple[Followed, ...]] = {}
        self.has_launches_of_others = False  # of other scripts that this one runs

    def all(self, invocations: list[Invocation]) -> list[Document]:
        found: dict[tuple[Any, ...], Document] = {}
        read = ((invocation, document) for invocation in invocations for document in self.documents(invocation))
        for one, launched in read:
            document = with_lost_flags(launched, one, invocations)
            start = document.start
            key = (
                document.places[()].value.start,
                repr(document.value),
                start and (start.machine.gpus, start.program.entry),
            )
            found.setdefault(key, document)
            self.has_launches_of_others = self.has_launches_of_others or one.is_of_script
            if len(found) >= MOST_DOCUMENTS:
                break
        return list(found.values())

    def documents(self, invocation: Invocation) -> Iterator[Document]:
        """The arguments of the program that is started, for each of its runs; none if it trains nothing, or nobody says
        what."""
        launched = command(invocation.words, self.repository.installed)
        if launched is None or launched.program is None or _only_prints(launched):
            return
        files = NamedFiles(self.repository, self.path, invocation.folder, dict(invocation.files))
        size = world(launched, invocation.variables, invocation.wrappers, self.job, files.text)
        options_of_launcher = None
        if launched.launcher == "accelerate":
            placed = Values(self.path, invocation.at)
            options_of_launcher = launch_file(launched, placed, self.display, self.text, files.document)
            size = no_more_than_in_file(size, options_of_launcher)
        for launch in self._launches(launched, invocation, files, size):
            yield self._document(launch, size, options_of_launcher)

    def _document(self, launch: ScriptLaunch, size: World, options_of_launcher: Document | None) -> Document:
        values, given_by = arguments(launch)
        values.rename(self.repository.name)
        asked = asked_for(launch.invocation.wrappers, self.job)
        started = start(launch, size, asked, options_of_launcher, self.asks_for_gpus)
        alone = lone_config(launch)
        sources = started.values._replace(
            files=given_by,
            lone_config=alone if launch.run is None else None,
            config=alone.path if alone is not None and takes_all_from_config(launch) else "",
            in_program=self._in_program(launch, size),
            elsewhere=dict(self._model_elsewhere(launch)),
        )
        started = started._replace(values=sources)
        return values.document(self.display, self.text, started)

    def _launches(
        self, launched: LaunchCommand, invocation: Invocation, files: NamedFiles, size: World
    ) -> tuple[ScriptLaunch, ...]:
        """One launch for each run that the program's code makes of the command, else one of its arguments."""
        entry = files.program(launched)
        text = self.repository.read(entry) if entry is not None else None
        asked = entry if not takes_overrides(launched, text) else None
        definitions = self._program(asked) if asked is not None else TrainingProgram()
        if definitions.only_evaluates or (definitions.asks_whether_to_train and _is_told_not_to(launched)):
            return ()
        format_name = format_of(launched, definitions, entry is not None, text)
        runs: tuple[Followed, ...] = ()
        if entry and format_name in _FOLLOWED:
            line = command_line(launched, invocation.variables, size)
            if self._is_beyond(entry, line):
                return ()
            runs = self._followed(entry, launched, line, invocation)
            if not runs and _names_another_command(launched, definitions):
                return ()
        if format_name == "trainer" and (
            _says_nothing(launched, definitions, runs) or (not runs and _overrides_a_config(launched))
        ):
            return ()
        leaves = format_name == "trainer" and _leaves_to_a_file(launched, definitions)
        name = "trainer" if format_name is None else format_name
        alone = ScriptLaunch(launched, entry, definitions, name, invocation, files)
        file = config(alone) if leaves else None
        if runs and not (leaves and all(_has_arguments_of_a_file(one.run, file) for one in runs)):
            return tuple(alone._replace(format_name="trainer", run=one) for one in runs)
        if format_name is None:
            return ()
        leaves = leaves or (format_name in _FILE_ALONE and config_word(launched, format_name) is not None)
        return () if leaves and config(alone) is None else (alone,)

    def _model_elsewhere(self, launch: ScriptLaunch) -> Iterator[tuple[str, tuple[str, Span]]]:
        """The place of the model's name in the code of a program that was followed. What is said of the name is said
        there once, whatever starts the program."""
        model = launch.run.run.keys.get(_MODEL) if launch.run is not None else None
        source = source_of(model) if model is not None else None
        below = self.repository.below_root(self.path)
        if source is None or source.span is None or not source.path.endswith(".py") or not self.display.endswith(below):
            return
        yield _MODEL, (f"{self.display.removesuffix(below)}{source.path}", source.span)

    def _in_program(self, launch: ScriptLaunch, size: World) -> Callable[[], Document | None] | None:
        """What makes the document of the values in the code of a program that was followed."""
        if launch.run is None or launch.path is None:
            return None
        line = command_line(launch.command, launch.invocation.variables, size)
        written = {path: shown(text) for path, text in launch.invocation.files.items()}
        return cache(partial(self.repository.as_python, launch.path, line, written, launch.run.number))

    def _is_beyond(self, entry: str, line: CommandLine) -> bool:
        """Whether MOST_FOLLOWED is reached and this program was followed already, so that it is not followed again."""
        if len(self._runs) < MOST_FOLLOWED or (entry, repr(line)) in self._runs:
            return False
        return any(runs for (path, _), runs in self._runs.items() if path == entry)

    def _followed(
        self, entry: str, launched: LaunchCommand, line: CommandLine, invocation: Invocation
    ) -> tuple[Followed, ...]:
        key = entry, repr(line)
        if key not in self._runs and len(self._runs) < MOST_FOLLOWED:
            self._runs[key] = followed(entry, launched, line, invocation.files, self.repository.follow)
        return self._runs.get(key, ())

    def _program(self, path: str) -> TrainingProgram:
        if path not in self._programs:
            around = self.repository
            self._programs[path] = program(path, around.read, around.is_file, around.root, around.parse)
        return self._programs[path]
