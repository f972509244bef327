"""Makes documents of a script's launches, one for each command that trains.

    documents("train.sh", text, Repository(...))

follows the script (source/shell), keeps the commands that start a training program (commands.py), asks the program for
its own definitions (definitions.py) and gives each command's arguments as a document (document.py).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.trainer.python.libraries import MAY_BE_PASSED
from memlint.formats.trainer.python.runs import PythonRun
from memlint.repository.script import has_own_trainer
from memlint.repository.scripts import slurm
from memlint.repository.scripts.commands import LaunchCommand, command, options, overrides
from memlint.repository.scripts.definitions import TrainingProgram, program
from memlint.repository.scripts.document import Placed, Values, flags, keys_of, switches_of
from memlint.repository.scripts.embedded import Part, commands_in_notebook, commands_in_yaml, holds_recipes, recipes
from memlint.repository.scripts.environment import TELLING, environment, grows_segments
from memlint.repository.scripts.followed import MOST_FOLLOWED, Follow, Followed, command_line, corrected, followed
from memlint.repository.scripts.launch_file import launch_file
from memlint.repository.scripts.lost import with_lost_flags
from memlint.repository.scripts.model_changes import MAY_FREEZE, happening
from memlint.repository.scripts.refused import refused_flags
from memlint.repository.scripts.spelling import spelled
from memlint.repository.scripts.translate import (
    CONFIG_OPTIONS,
    WHOLE_PROGRAMS,
    completed,
    config_word,
    flag_names,
    format_of,
    is_verl,
    of_file,
    task_of,
    worked_out,
)
from memlint.repository.scripts.world import World, world
from memlint.source import in_dialect, load
from memlint.source.document import AcceptedArguments, Document, Machine, Problem, Start, StartedProgram, ValueSources
from memlint.source.python.reader import CommandLine
from memlint.source.python.text import SourceText, parse
from memlint.source.python.values import Known, Undetermined, Value, source_of
from memlint.source.shell.interpreter import Interpreter
from memlint.source.shell.invocation import Invocation, Surroundings
from memlint.source.shell.text import Text, known, shown
from memlint.source.shell.tree import Source

_FILE_ALONE = ("llamafactory", "axolotl")  # formats whose programs, if they get a file, read nothing else
_WITH_FILES = ("trainer", "llamafactory", "axolotl", "swift")  # formats whose values a command may take from a file
_DIALECTS = {"llamafactory": "omegaconf"}  # of their files, where it is not PyYAML's: `DIALECT` in its format.py
_TELLING = frozenset({*MAY_BE_PASSED, "model_name_or_path", "learning_rate", "num_train_epochs", "output_dir"})
_FOLLOWED = ("trainer", "", None)  # formats of programs whose code must be followed
MOST_DOCUMENTS = 32  # launches of one script
_IMPORTED = re.compile(r"^[ \t]*from[ \t]+([\w.]+)[ \t]+import", re.MULTILINE)
_ENGINE = re.compile(r"\bAccelerator\(|\bdeepspeed\.initialize\(")
MOST_LETTERS = 262_144
# A quick test: a script without any of these has no command that trains.
HINT = re.compile(
    r"torchrun|torch\.distributed|accelerate|deepspeed|llamafactory|axolotl|\btrl\s|\bswift\s|\bmegatron\s|train"
    r"|sft|dpo|grpo|finetune|fine_tune|main_ppo|batch[_-]size|learning[_-]rate|--lr\b"
)
STARTS = re.compile(
    r"python|torchrun|accelerate|deepspeed|llamafactory|axolotl|trl|swift|megatron|\buv\s+run|PYTHON"
    r"|\.(?:sh|bash)[\"']?[ \t]+(?:\\\r?\n[ \t]*)?[\"'$\w-]"  # another script, with arguments for it
)


class Repository(NamedTuple):
    """Functions that read the repository around a script. Paths are absolute.

    `root`: its folder. `read`: a file's text, None if it does not exist. `find(path, kind)`: as in
    `source.shell.invocation.Surroundings`. `load(reference, folder)`: a named file as a document, None without one.
    `programs`: a cache of programs by path, which is added to. `follow`: the runs of a program's code (followed.py).
    `parse`: parses a module's text; cached. `installed`: command that a package of the repository installs -> the
    module that it starts.
    """

    root: str
    read: Callable[[str], str | None]
    find: Callable[[str, str], str | None]
    load: Callable[[str, str], Document | None]
    programs: dict[str, TrainingProgram]
    follow: Follow = lambda path, command, written: ()
    parse: Callable[[str, str], SourceText | Problem] = parse
    installed: Mapping[str, str] = {}


def may_launch(text: str, installed: Iterable[str] = ()) -> bool:
    """Whether a script may have a command that trains and must be followed. `installed`: names of such commands."""
    if len(text) > MOST_LETTERS or HINT.search(text) is None:
        return False
    return STARTS.search(text) is not None or any(name in text for name in installed)


_SUBMITTED_IN = ("SLURM_SUBMIT_DIR", "PBS_O_WORKDIR")  # variables for the folder from which a job was submitted


def documents(
    path: str, text: str, repository: Repository, display: str = "", gpus: int | None = None
) -> tuple[Document, ...]:
    """The launches of the script at `path` (absolute), in order. `display`: the path in their documents.

    `gpus`: the number of GPUs of the machine, for scripts that count them; None if unknown.
    """
    if not may_launch(text, repository.installed) and not path.endswith(".ipynb"):
        return ()
    job = slurm.job(text)
    visible = gpus or (job.gpus if job is not None and job.gpus else None)
    folder = _start_folder(path, text, repository)
    variables = {**(job.variables if job else {}), **dict.fromkeys(_SUBMITTED_IN, folder)}
    found: list[Document] = []
    for part in _parts(path, text):
        asked = part.job or job
        on_node = visible or (part.job.gpus if part.job is not None else 0)
        telling = TELLING if asked is None else None  # a job's cards are those of all scripts that it runs
        around = Surroundings(repository.read, repository.find, variables, on_node or None, telling)
        follower = Interpreter(path, around)
        follower.follow(text, folder, source=None if part.text is None else Source(part.text))
        reader = _Reader(path, text, repository, display or path, asked, follower.asked_for_gpus)
        found += reader.all(follower.invocations)
    count = len(found)
    reread = partial(_reread, path=path, repository=repository, display=display, gpus=gpus)
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


class _Whole(NamedTuple):
    """A file that is one script."""

    text: Text | None = None
    job: slurm.Job | None = None


def _parts(path: str, text: str) -> Iterable[Part | _Whole]:
    """The scripts that a file holds: itself, or those in its recipes and steps."""
    if holds_recipes(path):
        return recipes(path, text)
    if path.endswith(".ipynb"):
        notebook = load(text.encode("utf-8", "replace"), path, syntax="json")[0]
        return [part for part in commands_in_notebook(notebook) if may_launch(shown(part.text))]
    if path.endswith((".yaml", ".yml")):
        loaded = load(text.encode("utf-8", "replace"), path)
        return [part for document in loaded for part in commands_in_yaml(document)]
    return [_Whole()]


def _reread(text: str, path: str, repository: Repository, display: str, gpus: int | None) -> tuple[Document, ...]:
    return documents(path, text, repository, display, gpus)


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


# Programs of transformers' examples (examples/pytorch, text-classification, token-classification, question-answering),
# which load a classifier. They stand in few repositories that start them.
_CLASSIFYING = re.compile(r"(?:^|/)run_(?:glue|classification|xnli|ner|qa)(?:_no_trainer)?\.py$")


def _state_after(launched: LaunchCommand, unmodelled: str) -> str:
    """`StartedProgram.model_state` of a program that was not followed."""
    is_classifying = launched.program is not None and _CLASSIFYING.search(launched.program.text) is not None
    return "headless" if is_classifying and not unmodelled else ""


def _asks_for_help(launched: LaunchCommand) -> bool:
    """Whether the command only prints help: `llamafactory-cli train -h`."""
    return [word.text for word in launched.arguments] in (["-h"], ["--help"])


def _is_script(launched: LaunchCommand) -> bool:
    """Whether the program is a Python file or a module, not a command that a framework installs (`trl sft`)."""
    return launched.is_module or (launched.program is not None and launched.program.text.endswith(".py"))


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


def _says_nothing(launched: LaunchCommand, program: TrainingProgram, run: Followed | None) -> bool:
    """Whether nobody says what a launch trains: `accelerate launch sft.py "$@"` of a script that is given no arguments,
    where a parser of dataclasses has no model by itself. Its defaults are no run that somebody starts."""
    if launched.arguments or program.parses != "dataclasses":
        return False
    if run is not None:
        return not isinstance(run.run.keys.get("model_name_or_path"), Known)
    defaults = (program.meanings.get(name, name) for name, one in program.flags.items() if one.default)
    return "model_name_or_path" not in {*defaults, *program.constants}


def _is_of_a_file(value: Value | None) -> bool:
    """Whether a value is written in a config, or has no place."""
    return value is None or source_of(value).how == "config"


def _has_arguments_of_a_file(run: PythonRun) -> bool:
    """Whether a config alone gives the arguments of a program: its batch, and no adapter that its code makes."""
    return _is_of_a_file(run.keys.get("per_device_train_batch_size")) and not _makes_adapter(run)


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
        self._runs: dict[tuple[str, str], Followed | None] = {}

    def all(self, invocations: list[Invocation]) -> list[Document]:
        found: dict[tuple[Any, ...], Document] = {}
        for one in invocations:
            for read in self.documents(one):
                document = with_lost_flags(read, one, invocations)
                start = document.start
                key = (
                    document.places[()].value.start,
                    repr(document.value),
                    start and (start.machine.gpus, start.program.entry),
                )
                found.setdefault(key, document)
                if len(found) >= MOST_DOCUMENTS:
                    return list(found.values())
        return list(found.values())

    def documents(self, invocation: Invocation) -> Iterator[Document]:
        launched = command(invocation.words, self.repository.installed)
        if launched is None or launched.program is None or _asks_for_help(launched):
            return
        entry = self._entry(launched, invocation.folder)
        asked = entry if not is_verl(launched) else None  # verl takes Hydra overrides: its code defines no flags
        definitions = self._program(asked) if asked is not None else TrainingProgram()
        if definitions.only_evaluates:
            return
        format_name = format_of(launched, definitions, entry is not None)
        text_of = partial(self._text, invocation.folder, dict(invocation.files))
        size = world(launched, invocation.variables, invocation.wrappers, self.job, text_of)
        run = None
        if entry and format_name in _FOLLOWED:
            line = command_line(launched, invocation.variables, size)
            if self._is_beyond(entry, line):
                return
            run = self._followed(entry, launched, line, invocation)
        if format_name == "trainer" and _says_nothing(launched, definitions, run):
            return
        leaves = format_name == "trainer" and _leaves_to_a_file(launched, definitions)
        if leaves and run is not None and _has_arguments_of_a_file(run.run):
            run = None
        leaves = leaves or (format_name in _FILE_ALONE and config_word(launched, str(format_name)) is not None)
        if run is None and (
            format_name is None or (leaves and self._config(launched, format_name, invocation) is None)
        ):
            return
        format_name = "trainer" if run is not None or format_name is None else format_name
        values, files = self._values(launched, definitions, format_name, invocation, run)
        read = partial(self._named, invocation.folder, dict(invocation.files))
        file = (
            launch_file(launched, Values(self.path, invocation.at), self.display, self.text, read)
            if launched.launcher == "accelerate"
            else None
        )
        start = self._start(launched, definitions, format_name, invocation, size, file, run)
        program = start.program._replace(is_foreign=entry is None and _is_script(launched))
        start = start._replace(program=program, values=start.values._replace(files=files))
        yield values.document(self.display, self.text, start)

    def _values(
        self,
        launched: LaunchCommand,
        definitions: TrainingProgram,
        format_name: str,
        invocation: Invocation,
        run: Followed | None,
    ) -> tuple[Values, Mapping[str, Document]]:
        """(the values of the program's arguments, the files of those that a config of the command gives, `_files`)."""
        given: Iterable[Placed] = completed(
            launched, definitions, format_name, flags(launched, definitions, format_name)
        )
        files: Mapping[str, Document] = {}
        if run is None:
            given, files = self._with_config(launched, definitions, format_name, invocation, list(given))
        else:
            given = corrected(list(given), definitions, run)
        values = Values(self.path, invocation.at)
        for one in (*given, *(environment(invocation.variables) if format_name == "swift" else ())):
            values.put(one)
        return values, files

    def _with_config(
        self,
        launched: LaunchCommand,
        definitions: TrainingProgram,
        format_name: str,
        invocation: Invocation,
        given: list[Placed],
    ) -> tuple[list[Placed], Mapping[str, Document]]:
        """The values in the order in which they count: what the program sets itself, the config of the command, and
        the command's own; and `_files`."""
        said = [one for one in given if one.key is not None]
        taken = list(self._of_file(launched, format_name, invocation, given))
        found = [*(one for one in given if one.key is None), *taken, *said]
        found += worked_out(definitions, found) if format_name == "trainer" else ()
        return found, self._files(launched, format_name, invocation, taken, said)

    def _of_file(
        self, launched: LaunchCommand, format_name: str, invocation: Invocation, given: list[Placed]
    ) -> Iterator[Placed]:
        word = config_word(launched, format_name) if format_name in _WITH_FILES else None
        if word is not None:
            file = self._config(launched, format_name, invocation)
            yield from of_file(word, file, {str(one.path[0]) for one in given if one.key is not None})

    def _files(
        self, launched: LaunchCommand, format_name: str, invocation: Invocation, taken: list[Placed], said: list[Placed]
    ) -> dict[str, Document]:
        """Key -> file of each of the `taken` values; under "" if the command itself gives nothing (`said`) but the
        file's name. Empty if the script writes the file itself."""
        word = config_word(launched, format_name)
        file = self._config(launched, format_name, invocation)
        if word is None or file is None or self._place(invocation.folder, word.text) in dict(invocation.files):
            return {}
        others = [one for one in said if one.path[0] not in CONFIG_OPTIONS]
        return {str(one.path[0]): file for one in taken} | ({} if others else {"": file})

    def _config(self, launched: LaunchCommand, format_name: str, invocation: Invocation) -> Document | None:
        """The file with the run's values that the command names; None if it names no readable one."""
        word = config_word(launched, format_name)
        if word is None or not word.known:
            return None
        file = self._named(invocation.folder, dict(invocation.files), word.text)
        if file is None or not isinstance(file.value, dict):
            return None
        is_other = format_name == "trainer" and len(_TELLING & set(file.value)) < 2
        return None if is_other else in_dialect(file, _DIALECTS.get(format_name, file.dialect))

    def _is_beyond(self, entry: str, line: CommandLine) -> bool:
        """Whether MOST_FOLLOWED is reached and this program was followed already, so that it is not followed again."""
        if len(self._runs) < MOST_FOLLOWED or (entry, repr(line)) in self._runs:
            return False
        return any(run is not None for (path, _), run in self._runs.items() if path == entry)

    def _followed(
        self, entry: str, launched: LaunchCommand, line: CommandLine, invocation: Invocation
    ) -> Followed | None:
        key = entry, repr(line)
        if key not in self._runs and len(self._runs) < MOST_FOLLOWED:
            self._runs[key] = followed(entry, launched, line, invocation.files, self.repository.follow)
        return self._runs.get(key)

    def _start(
        self,
        launched: LaunchCommand,
        definitions: TrainingProgram,
        format_name: str,
        invocation: Invocation,
        size: World,
        file: Document | None,
        run: Followed | None,
    ) -> Start:
        return Start(
            format_name,
            launched.launcher,
            self._started(launched, definitions, format_name, invocation, run),
            self._machine(invocation, size, file),
            ValueSources(
                located=partial(self._located, invocation.folder, dict(invocation.files)),
                in_other_file={} if run is None else dict.fromkeys(self._in_a_config(run.run, invocation), False),
            ),
            _accepted(launched, definitions, format_name, self.path if invocation.is_of_script else ""),
        )

    def _in_a_config(self, run: PythonRun, invocation: Invocation) -> Iterator[str]:
        """The arguments that the program takes from a config of the repository, which is linted by itself."""
        for key, value in run.keys.items():
            source = source_of(value)
            path = posixpath.normpath(posixpath.join(self.repository.root, source.path))
            if source.how == "config" and path not in dict(invocation.files):
                yield key

    def _started(
        self,
        launched: LaunchCommand,
        definitions: TrainingProgram,
        format_name: str,
        invocation: Invocation,
        run: Followed | None,
    ) -> StartedProgram:
        framework, task = task_of(launched, definitions) if run is None else (run.framework, run.task)
        happens = happening(definitions.changes, definitions.flags, launched.arguments)
        changed = next((one for one in happens if not one.freezes), None) if run is None else None
        unmodelled = run.run.unmodelled if run else changed.what if changed else ""
        adds = changed is not None and changed.extends
        frozen = f"{unmodelled}, {MAY_FREEZE}" if adds else next((one.what for one in happens if one.freezes), "")
        freezes = frozen if run is None and (adds or not unmodelled) else ""
        is_whole = format_name in WHOLE_PROGRAMS
        return StartedProgram(
            self._below_root(launched.program.text) if launched.program else "",
            framework,
            task=task,
            unmodelled="" if is_whole else unmodelled,
            freezes="" if is_whole else freezes,
            model_state=run.run.model_state if run else "all" if adds else _state_after(launched, unmodelled),
            loads_model=run is not None and run.run.loads_model,
            has_own_trainer=self._has_own_trainer(launched, invocation),
            writes_groups=definitions.writes_groups,
            hides_model=run is not None and isinstance(run.run.keys.get("model_name_or_path"), Undetermined),
            has_plain_arguments=run is not None and run.run.has_plain_arguments,
            newest={} if run is None else run.run.newest,
            quantized_preparation="" if run is None else run.run.quantized_preparation,
            trainer_call="" if run is None else run.run.trainer_call,
            frozen=() if run is None else run.run.frozen,
            engine="" if run is None else run.run.engine,
            keeps_logits=run is not None and run.run.keeps_logits,
            fills_length=run is not None and run.run.fills_length,
            spreads_layers=run is not None and run.run.spreads_layers,
        )

    def _machine(self, invocation: Invocation, size: World, file: Document | None) -> Machine:
        at = size.at if size.at is not None and size.at.path == self.path else invocation.at
        return Machine(
            size.gpus,
            size.per_node,
            (at.start, at.end),
            asks_for_gpus=self.asks_for_gpus,
            card=self.job.card if self.job is not None else "",
            card_at=self.job.card_at if self.job is not None else 0,
            launch_file=file,
            grows_segments=grows_segments(invocation.variables),
        )

    def _has_own_trainer(self, launched: LaunchCommand, invocation: Invocation) -> bool:
        """Whether the program only uses trainer classes of its own, and it or a module that it imports creates an
        engine for them. Without an engine, such a class is probably a plain subclass of Trainer."""
        program = launched.program.text if launched.program else ""
        read = partial(self._text, invocation.folder, dict(invocation.files))
        text = read(program) if program.endswith(".py") else None
        if not text or not has_own_trainer(text.encode("utf-8", "replace")):
            return False
        modules = [f"{name.replace('.', '/')}.py" for name in _IMPORTED.findall(text)]
        places = [folder + module for folder in {"", posixpath.dirname(program) + "/"} for module in modules]
        return any(_ENGINE.search(found) for found in (text, *map(read, places)) if found)

    def _below_root(self, path: str) -> str:
        """A path relative to the repository: removes the root of this machine from an expanded `$ROOT/src/train.py`."""
        return path.removeprefix(f"{self.repository.root}/") if self.repository.root != "/" else path

    def _named(self, folder: str, written: Mapping[str, Text], reference: str) -> Document | None:
        """The file that the command names, read."""
        found = self._located(folder, written, reference)
        return self.repository.load(found, folder) if isinstance(found, str) else found

    def _located(self, folder: str, written: Mapping[str, Text], reference: str) -> Document | str | None:
        """The file that the command names: one that the script wrote before, else the path of one of the repository,
        relative to the working folder or to the script's folder."""
        path = self._place(folder, reference)
        if path in written:
            return load(shown(written[path]).encode("utf-8", "replace"), reference)[0]
        beside = self._place(posixpath.dirname(self.path), reference)
        return self.repository.find(path, "file") or self.repository.find(beside, "file")

    def _text(self, folder: str, written: Mapping[str, Text], reference: str) -> str | None:
        """The text of the file that the command names: one that the script wrote before, else one of the repository."""
        path = self._place(folder, reference)
        if path in written:
            return known(written[path])
        found = self.repository.find(path, "file")
        return self.repository.read(found) if found is not None else None

    @staticmethod
    def _place(folder: str, reference: str) -> str:
        return posixpath.normpath(posixpath.join(folder, reference))

    def _entry(self, launched: LaunchCommand, folder: str) -> str | None:
        """The program's file, absolute; None if the repository does not have it."""
        word = launched.program
        name = known(word.pieces) if word is not None else None
        if name is None or not name or name.startswith("~"):
            return self._by_suffix(word.text) if word is not None and word.text.endswith(".py") else None
        places: tuple[str, ...] = (name,)
        if launched.is_module:
            inner = name.replace(".", "/")
            places = (f"{inner}.py", f"{inner}/__main__.py", f"src/{inner}.py")
        bases = [folder, posixpath.dirname(self.path), self.repository.root]
        if launched.is_module:  # of a project in a folder of the repository, which a script below puts on PYTHONPATH
            bases += ancestors(posixpath.dirname(self.path), self.repository.root)
        for place in places:
            for base in bases:
                found = self.repository.find(posixpath.normpath(posixpath.join(base, place)), "file")
                if found is not None and found.endswith(".py"):
                    return found
        return None

    def _by_suffix(self, text: str) -> str | None:
        tail = text.rpartition("}")[2].lstrip("/")
        return self.repository.find(posixpath.join("/", tail), "file") if tail else None

    def _program(self, path: str) -> TrainingProgram:
        if path not in self._programs:
            around = self.repository
            self._programs[path] = program(path, around.read, self._is_file, around.root, around.parse)
        return self._programs[path]

    def _is_file(self, path: str) -> bool:
        return self.repository.find(path, "file") == path


def _accepted(
    launched: LaunchCommand, definitions: TrainingProgram, format_name: str, only_in: str
) -> AcceptedArguments:
    given = definitions.flags.items()
    return AcceptedArguments(
        defined=frozenset(definitions.flags),
        is_own=definitions.parses == "argparse",
        makes_adapter=bool(definitions.parses or definitions.constants) and "ModelConfig" not in definitions.classes,
        switches=switches_of(format_name) | frozenset(name for name, one in given if one.is_switch),
        dashed=frozenset(name for name, one in given if one.is_dashed),
        refused=refused_flags(launched, definitions, only_in),
        overridden=frozenset(one.name for one in overrides(options(launched.arguments)[1])),
        names=flag_names(launched, definitions),
        spelled=spelled(launched, definitions, keys_of(format_name)),
    )


def ancestors(folder: str, root: str) -> Iterator[str]:
    """The folders above `folder`, the nearest first, as far as those below `root`."""
    while folder.startswith(f"{root.rstrip('/')}/") and folder != root:
        folder = posixpath.dirname(folder)
        yield folder
