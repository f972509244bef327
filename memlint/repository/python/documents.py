"""Makes documents of a Python script's runs, with the keys of the Trainer's table and places in the script.

A value has the place where it is written: an argument of the call, a constant, the default of an option. If the batch
size is in a config that the script loads, the document is of that file, because edits must be made there.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from memlint._record import NamedTuple
from memlint.formats.trainer.argument_classes import own_arguments
from memlint.formats.trainer.python.python_run import PythonRun, lacks_its_stage
from memlint.formats.trainer.python.runs import runs_of
from memlint.formats.training_arguments.keys import KEYS as TRAINING_ARGUMENTS
from memlint.repository.launch.pages import is_script
from memlint.repository.python.readers import DECIDES
from memlint.repository.python.unread_lengths import without_unread_lengths
from memlint.repository.scripts.in_python.machines import modal_job
from memlint.repository.scripts.in_python.texts import ProgramFile
from memlint.source import load
from memlint.source.document import (
    AcceptedArguments,
    Document,
    Machine,
    Path,
    Problem,
    Span,
    Start,
    StartedProgram,
    ValueSources,
)
from memlint.source.layout import Entry, Places
from memlint.source.lines import Lines
from memlint.source.python import notebook
from memlint.source.python.modules import module_paths
from memlint.source.python.reader import BARE, Capability, CommandLine, ScriptFiles
from memlint.source.python.text import SourceText, parse
from memlint.source.python.values import (
    Either,
    Items,
    Known,
    Table,
    Undetermined,
    Value,
    alternatives,
    is_small,
    plain,
    source_of,
)

if TYPE_CHECKING:
    from memlint.repository.launch.starts import ProgramStart

SUFFIXES = (".py", ".ipynb")
# A quick test: a file that makes no trainer, no class of one, and no other name for one is not parsed.
_TRAINER = re.compile(
    r"\b\w*Trainer\w*\s*\(|\bTrainer\.from_argparse_args\s*\(|\bLightningCLI\s*\("
    r"|\bclass \w+\([^)\n]*Trainer|(?:[^=]=|[\"']\s*:)\s*(?:\w+\.)*\w*Trainer(?:\s*[,}\n]|\s+if\b)"
    r"|\b(?:sft|pt|rlhf)_main\s*\("
)
_TRAINER_WORDS = ("Trainer", "LightningCLI", "sft_main", "pt_main", "rlhf_main")  # what `_TRAINER` finds has one
_IS_TEST = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test|conftest)\.py$")
_LOOP = re.compile(r"\.backward\s*\(")
_DIFFUSES = re.compile(r"^\s*(?:from|import)\s+diffusers\b", re.MULTILINE)  # a language model is its text encoder then
_MODEL_LOADED = re.compile(
    r"(?:ForCausalLM|LMHeadModel|ForConditionalGeneration|Seq2SeqLM|ImageTextToText|FastLanguageModel"
    r"|For(?:Sequence|Token)Classification|ForQuestionAnswering|ForMultipleChoice|ForMaskedLM|ForPreTraining)\b"
    r"|\b[A-Z]\w*Model\.from_pretrained\b"
)
# A model of the repository's own, or one that a configuration names (`_target_`), of which the text says that it reads
# words.
_MODEL_MADE = re.compile(
    r"scaled_dot_product_attention|\bclass \w*(?:Attention|Attn|GPT|Llama|LLaMA|Transformer)\w*\s*[(:]"
    r"|\b\w*(?:GPT|Llama|LLaMA|Transformer)\w*\s*\(|\binstantiate\s*\("
)
_OF_WORDS = re.compile(r"vocab|token", re.IGNORECASE)
_IS_SCRIPT = re.compile(r"__main__|\.(?:run|main)\(|\bmain\(|^\s*(?:hydra|fire|typer|click)", re.MULTILINE)
_IMPORTS = re.compile(r"^[\s\"]*(?:from\s+([.\w]+)\s+import|import\s+([.\w]+))", re.MULTILINE)
# Frameworks whose code lies as a package in forks and copies of them: what is in it is no program of the repository.
_FRAMEWORKS = frozenset(
    ("openrlhf", "llamafactory", "llmtuner", "swift", "verl", "trl", "axolotl", "transformers", "peft", "deepspeed")
    + ("accelerate", "unsloth", "litgpt", "torchtune", "nemo_rl", "oumi", "areal")
)
_READ_BACK = re.compile(r"\bself\.args\.(\w+)")  # an argument that a trainer class of the script reads again
MAX_IMPORTS = 40
_MOST_TEXTS = 128  # of modules that many scripts import
MAX_STARTS = 4  # commands of one script that become runs
_HAS_OPTIONS = re.compile(
    r"arg(?:ument_?)?parse|parse_args|get_args|ArgumentParser|click|typer|tyro|\bfire\b|TrlParser|sys\.argv|hydra|absl"
    r"|from_cli|CLI\("
)
_ENGINES = ("deepspeed", "fsdp", "fsdp_config")
_OF_OPTIONS = ("option", "computed")  # where a value comes from that a word of a command may give
_MODEL, _BATCH = "model_name_or_path", "per_device_train_batch_size"
# `deepspeed` takes a dictionary, too (transformers 5.23 training_args.py).
_OF_TRAINER = frozenset((*(row.name for row in TRAINING_ARGUMENTS), "deepspeed"))


# Every card since 2020 has it, and bfloat16 with it. A card that is named answers for itself.
ASSUMED_CARD = Capability(8, 0, is_least=True)


class PythonRepository(NamedTuple):
    """Functions that read the repository, by paths below its root. None: the file does not exist.

    `display`: returns the path that reports show. `parse`: returns a module's tree, or the problem that prevents it.
    `starts`: returns the commands that the repository shows for a program; `starts_with`: those that name a config.
    """

    read: Callable[[str], str | None]
    document: Callable[[str], Document | None]
    display: Callable[[str], str]
    parse: Callable[[str, str], SourceText | Problem] = parse
    starts: Callable[[str], Sequence[ProgramStart]] = lambda program: ()
    starts_with: Callable[[str], Sequence[ProgramStart]] = lambda config: ()


def may_train(path: str, text: str, read: Callable[[str], str | None]) -> bool:
    """Whether a script may train and must be followed: it names a trainer, or starts a module of the repository that
    does. A test file with a training loop does not count."""
    if _names_trainer(text):
        return True
    if _IS_TEST.search(path) or _DIFFUSES.search(text):
        return False
    if _LOOP.search(text) and _has_model(text):
        return True
    if not path.endswith(".ipynb") and not _IS_SCRIPT.search(text) and not _LOOP.search(text):
        return False
    found = [text]
    for inner in _imported(path, text, read):
        if _names_trainer(inner):
            return True
        found.append(inner)
    return any(map(_LOOP.search, found)) and _has_model("\n".join(found))


def _imported(path: str, text: str, read: Callable[[str], str | None]) -> Iterator[str]:
    """The texts of the repository's modules that a script imports. A package hands on what its own modules have:
    `from .launcher import main` in `training/__init__.py`, or `from src.training.launcher import main`."""
    names = [one or other for one, other in _IMPORTS.findall(text)[:MAX_IMPORTS]]
    for place in (place for name in names for place in module_paths(name, path)):
        inner = read(place)
        if inner is None:
            continue
        yield inner
        package = posixpath.basename(posixpath.dirname(place))
        imports = [one for one, _ in _IMPORTS.findall(inner)[:MAX_IMPORTS]]
        handed_on = [one for one in imports if one.startswith(".") or package in one.split(".")[:-1]]
        for module in (module for name in handed_on for module in module_paths(name, place)):
            if place.endswith("/__init__.py") and (behind := read(module)) is not None:
                yield behind


def _names_trainer(text: str) -> bool:
    """Whether code names a trainer. Most code has none of the words, and the pattern is slow: it tries every name."""
    return any(word in text for word in _TRAINER_WORDS) and _has_trainer(text)


@lru_cache(_MOST_TEXTS)
def _has_trainer(text: str) -> bool:
    return _TRAINER.search(text) is not None


def _has_model(text: str) -> bool:
    """Whether code names a language model, of a library or of its own."""
    return _MODEL_LOADED.search(text) is not None or (
        _MODEL_MADE.search(text) is not None and _OF_WORDS.search(text) is not None
    )


def _is_of_framework(path: str, read: Callable[[str], str | None]) -> bool:
    """Whether a script lies in a copy of a framework's package: `openrlhf/cli/train_sft.py`. Launches of it are read
    with the framework's own keys."""
    folders = path.split("/")[:-1]
    packages = ("/".join(folders[: end + 1]) for end, name in enumerate(folders) if name in _FRAMEWORKS)
    return any(read(f"{package}/__init__.py") is not None for package in packages)


def followed(path: str, repository: PythonRepository, command: CommandLine) -> tuple[PythonRun, ...]:
    """The runs of the script at `path` (below the root) with this command line; none if it does not train."""
    text = repository.read(path)
    if text is None or not may_train(path, text, repository.read):
        return ()
    script = repository.parse(path, text)
    if isinstance(script, Problem):
        return ()
    runs = runs_of(script, _Cache(repository).files(), command)
    return tuple(without_unread_lengths(run, path, text, repository.read) for run in runs)


def followed_document(path: str, repository: PythonRepository, command: CommandLine, number: int) -> Document | None:
    """A run of the script at `path` with this command line as a document, in which edits can be made; None where it has
    none of this number, or takes its values from a config, which is linted by itself."""
    text, runs = repository.read(path), followed(path, repository, command)
    if text is None or len(runs) <= number:
        return None
    found = document_of(runs[number], path, text, repository, command)
    if found.start is None or found.path != repository.display(path):
        return None

    def reread(changed: str) -> tuple[Document, ...]:
        def read(name: str) -> str | None:
            return changed if name == path else repository.read(name)

        again = followed_document(path, repository._replace(read=read), command, number)
        return () if again is None else (again,)

    return found._replace(start=found.start._replace(values=found.start.values._replace(reread=reread)))


def documents(
    path: str,
    file: Document | str,
    repository: PythonRepository,
    config: str = "",
    card: Capability = ASSUMED_CARD,
) -> tuple[Document, ...]:
    """The runs of the script at `path` (below the root) as documents. `file`: its text; for a notebook, its JSON.

    `config`: the config that its command line names; "" for a start without arguments. `card`: what it is told of its
    card.
    """
    text = file if isinstance(file, str) else file.text
    if not may_train(path, text, repository.read) or _is_of_framework(path, repository.read):
        return ()
    script = repository.parse(path, text) if isinstance(file, str) else notebook.read(file)
    if isinstance(script, Problem):
        return ()
    runs = _runs(script, path, text, repository, config, card)
    found = [document_of(run, path, text, repository, line, config) for run, line in runs if _is_known(run)]
    count = len(found)
    rereading = partial(_rereading, path, file, repository, config, card)
    at_card = partial(_at_card, path, file, repository, config) if any(run.asks_for_card for run, _ in runs) else None
    return tuple(
        one._replace(
            index=index,
            documents=count,
            start=one.start._replace(
                machine=one.start.machine._replace(at_card=at_card and partial(at_card, index)),
                values=one.start.values._replace(reread=rereading(one)),
            ),
        )
        for index, one in enumerate(found)
        if one.start is not None
    )


def _at_card(
    path: str,
    file: Document | str,
    repository: PythonRepository,
    config: str,
    index: int,
    capability: tuple[int, int],
) -> Document | None:
    found = documents(path, file, repository, config, Capability(*capability))
    return found[index] if index < len(found) else None


def _is_known(run: PythonRun) -> bool:
    """Whether the model or the batch size is known. A script that takes both from its command line is not worth
    reporting."""
    return any(isinstance(run.keys.get(key), Known) for key in (_MODEL, _BATCH)) or _MODEL not in run.keys


def _runs(
    script: SourceText, path: str, text: str, repository: PythonRepository, config: str, card: Capability
) -> tuple[tuple[PythonRun, CommandLine], ...]:
    """The runs of a script, with the command line of each: one for each command that the repository shows for it;
    without such commands, for a start without arguments.

    Of runs that do not differ in memory only the first is kept. A script whose commands name configs is linted through
    these configs instead.
    """
    lines = _shown(repository.starts(path), config) or [CommandLine(config)]
    if not config and not _HAS_OPTIONS.search(text):  # then all commands start the same
        lines = [CommandLine(page=lines[0].page, number=lines[0].number)]
    files = _Cache(repository).files()
    found: dict[str, tuple[PythonRun, CommandLine]] = {}
    for line in lines:
        for number, run in enumerate(runs_of(script, files, line._replace(card=card))):
            run = without_unread_lengths(run, path, text, repository.read)
            found.setdefault(f"{number} {_fingerprint(run)}" if len(lines) > 1 else str(number), (run, line))
    return tuple(found.values())


_TRIES = frozenset({"dry_run", "dryrun"})
_SWEEPS = "multirun"  # Hydra's


def _shown(starts: Sequence[ProgramStart], config: str) -> list[CommandLine]:
    """The command lines that start a program with the config at `config` (without any config if that is ""). If all
    have words that are not known, or if there are more than MAX_STARTS, what they agree on; of commands that override
    a configuration's values, the first ones. An example in the program's
    docstring counts where no script starts it, and none that only tries the program out (`--dry-run`)."""
    starts = [one for one in starts if not _TRIES & one.line.options.keys()]
    starts = [one for one in starts if _SWEEPS not in one.line.options] or starts  # what a sweep overrides is not seen
    if any(is_script(one.line.page) for one in starts):
        starts = [one for one in starts if one.line.page != one.program]
    if config:
        chosen = [one for one in starts if config in one.files.values()]
    else:
        chosen = [one for one in starts if not one.files] or (list(starts) if len(starts) == 1 else [])
    clear = [one for one in chosen if one.is_clear]
    lines: dict[str, CommandLine] = {}
    for line in sorted((one.line for one in clear or chosen), key=lambda line: not is_script(line.page)):
        lines.setdefault(repr(_words(line)), line)  # of equal ones, a script's: what it says is said there
    overrides = any(line.overrides for line in lines.values())  # of a configuration, which no command leaves as it is
    if clear and (len(lines) <= MAX_STARTS or overrides):
        return list(lines.values())[:MAX_STARTS]
    return _agreed(list(lines.values()))


def _agreed(lines: Sequence[CommandLine]) -> list[CommandLine]:
    """One command line with what the lines agree on; an option or an override in which they differ is not known."""
    if len(lines) < 2:
        return list(lines)
    first, *others = lines
    names = dict.fromkeys(name for line in lines for name in line.options)
    overridden = dict.fromkeys(name for line in lines for name in line.overrides)
    same = (repr(_words(line)[1]) == repr(_words(first)[1]) for line in others)
    return [
        first._replace(
            options={name: _agreed_words([line.options.get(name) for line in lines], name) for name in names},
            positional=first.positional if all(same) else tuple(map(_differing, first.positional)),
            overrides={name: _agreed_value([line.overrides.get(name) for line in lines], name) for name in overridden},
            page="",
            number=0,
            is_open=any(line.is_open for line in lines),
        )
    ]


def _agreed_words(given: Sequence[tuple[Value, ...] | None], name: str) -> tuple[Value, ...]:
    """The words after an option, by the lines that give it or do not."""
    first = given[0]
    told = [None if words is None else [_told(word) for word in words] for words in given]
    if first is not None and all(one == told[0] and None not in (one or ()) for one in told):
        return first
    return (Undetermined(f"the commands of the repository differ in `--{name}`"),)


def _agreed_value(given: Sequence[Value | None], name: str) -> Value:
    """The value that overrides a configuration's, by the lines that give it or do not."""
    first, told = given[0], [None if value is None else _told(value) for value in given]
    if first is not None and told[0] is not None and all(one == told[0] for one in told):
        return first
    return Undetermined(f"the commands of the repository differ in `{name}`")


def _differing(word: Value) -> Value:
    return Undetermined("the commands of the repository differ in it", source_of(word))


def _words(line: CommandLine) -> tuple[object, object]:
    """A command line without places, for comparison."""
    named = {name: [_told(value) for value in values] for name, values in line.options.items()}
    return named, [_told(value) for value in line.positional]


def _fingerprint(run: PythonRun) -> str:
    """A text of everything in a run that matters to memory, for comparison."""
    return repr([(key, _told(run.keys[key])) for key in sorted(run.keys) if DECIDES.match(key)])


def _told(value: Value) -> object:
    try:
        return plain(value)
    except ValueError:
        return None


def _rereading(
    path: str, file: Document | str, repository: PythonRepository, config: str, card: Capability, document: Document
) -> Callable[[str], tuple[Document, ...]]:
    """A function that reads the script again after a change of the text of the document's file."""
    if document.path != repository.display(path):
        return lambda text: documents(path, file, _with_config(repository, document.path, text), config, card)
    if isinstance(file, str):
        return lambda text: documents(path, text, repository, config, card)
    return lambda text: documents(path, _as_json(text, path), repository, config, card)


def _as_json(text: str, path: str) -> Document:
    return load(text.encode("utf-8", "surrogatepass"), path, syntax="json")[0]


def _with_config(repository: PythonRepository, display: str, text: str) -> PythonRepository:
    """The repository with `text` in the config that reports show as `display`."""

    def document(path: str) -> Document | None:
        if repository.display(path) != display:
            return repository.document(path)
        return load(text.encode("utf-8", "surrogatepass"), path)[0]

    return repository._replace(document=document)


class _Cache:
    """Parsed modules and configuration files of one reading."""

    def __init__(self, repository: PythonRepository) -> None:
        self._repository = repository
        self._modules: dict[str, SourceText | None] = {}

    def files(self) -> ScriptFiles:
        return ScriptFiles(self._module, self._repository.document)

    def _module(self, path: str) -> SourceText | None:
        if path not in self._modules:
            text = self._repository.read(path)
            found = self._repository.parse(path, text) if text is not None else None
            self._modules[path] = found if isinstance(found, SourceText) else None
        return self._modules[path]


def document_of(
    run: PythonRun, path: str, text: str, repository: PythonRepository, line: CommandLine = BARE, named: str = ""
) -> Document:
    """The document of a run: of the script, or of the config that contains its batch size.

    `line`: the command line that the run was followed with; other ones give other runs. `named`: the config that it
    names.
    """
    home = _home(run, path, named)
    config = repository.document(home) if home != path else None
    home = home if config is not None else path
    is_here = run.source.path in ("", path)  # a class of another module may make the trainer
    whole = run.source.span if config is None and is_here else None
    root = (whole.start, whole.end) if whole is not None else (0, 0)
    placed = _Placed(home, root)
    for key, value in run.keys.items():
        placed.put(key, value)
    for one in run.program.refused:
        placed.mark((one.called, one.name), one.at if one.path == home else None)
    call = run.arguments_call if home == path and is_here else None
    loading = run.loading_call.span if run.loading_call is not None and run.loading_call.path == home else None
    sources = ValueSources(
        placed.unknown,
        {(): (call.start, call.end)} if call is not None else {},
        (loading.start, loading.end) if loading is not None else None,
        dict(_written_at(run, repository)),
        elsewhere=dict(_elsewhere(run, home, repository)),
        in_other_file=dict(_in_other_file(run, line, home)),
        is_commanded=line.is_given,
        commanded_at=f"{repository.display(line.page)}:{line.number}" if line.page else "",
    )
    return Document(
        repository.display(home),
        config.text if config is not None else text,
        "python",
        "python",
        placed.values,
        Places((-1, -1, *root, False, placed.entries), Lines(config.text if config is not None else text)),
        start=Start(
            run.format,
            "",
            _program(run, repository.display(path), "" if is_here else repository.display(run.source.path)),
            _machine(run, home, text),
            sources,
            _accepted(run, text),
        ),
    )


def _machine(run: PythonRun, home: str, text: str) -> Machine:
    """The machine that the program says itself. Of several GPUs of a function on Modal its launcher decides."""
    call = run.asked_of_modal
    job = modal_job(call, ProgramFile(home, call.source.path, text)) if call is not None else None
    if job is None or call is None or call.source.path != home:
        return Machine(run.gpus, run.gpus_per_node or run.gpus)
    gpus = run.gpus or (1 if job.gpus == 1 else 0)
    return Machine(gpus, run.gpus_per_node or gpus, card=job.card, card_at=job.card_at)


def _home(run: PythonRun, path: str, named: str) -> str:
    """The config that contains the batch size; if that is unknown, the one that the command names, else the one with
    the most values; else the script."""
    batch = run.keys.get(_BATCH)
    if isinstance(batch, Known):
        return batch.source.path if batch.source.how == "config" else path
    sources = (source_of(value) for value in run.keys.values())
    files = Counter(source.path for source in sources if source.how == "config")
    return named if named in files else max(files, key=lambda name: files[name], default=path)


def _program(run: PythonRun, display: str, module: str) -> StartedProgram:
    """`module`: the file of the call of the trainer, if it is not the script's own."""
    line = run.source.span.line if run.source.span is not None else 0
    in_module = f" (called in {module}:{line})" if module else ""
    outdated = tuple(one._replace(instead=f"{one.instead}{in_module}") for one in run.program.outdated)
    return run.started(display)._replace(outdated=outdated)


def _accepted(run: PythonRun, script: str) -> AcceptedArguments:
    of_trl = run.framework == "trl" and not run.has_plain_arguments
    return AcceptedArguments(
        accepts=_OF_TRAINER | own_arguments(run.arguments_class) if of_trl else _OF_TRAINER,
        arguments_class=run.arguments_class,
        read_back=frozenset(_READ_BACK.findall(script)),
        set_later=run.set_later,
    )


def _in_other_file(run: PythonRun, line: CommandLine, home: str) -> Iterator[tuple[str, bool]]:
    """The keys that a command gives, by a word or as a bare flag, each with whether the command is a script's; and
    those of a config that is not the document's own (`home`)."""
    for key, value in run.keys.items():
        source = source_of(value)
        if source.how == "command":
            yield key, is_script(source.path)
        elif source.how == "config" and source.path != home:
            yield key, False
        elif source.how in _OF_OPTIONS and key in line.options:
            yield key, is_script(line.page)


def _written_at(run: PythonRun, repository: PythonRepository) -> Iterator[tuple[str, str]]:
    for key, value in run.keys.items():
        source = source_of(value)
        if source.span is not None:
            yield key, f"{repository.display(source.path)}:{source.span.line}"


def _elsewhere(run: PythonRun, home: str, repository: PythonRepository) -> Iterator[tuple[str, tuple[str, Span]]]:
    """The keys whose values stand in another module or config than the document's own (`home`)."""
    for key, value in run.keys.items():
        source = source_of(value)
        if source.span is not None and source.path not in ("", home) and source.how != "command":
            yield key, (repository.display(source.path), source.span)


class _Placed:
    """Values by key, the places of those that are written in the file `home`, and the reasons for unknown ones."""

    def __init__(self, home: str, root: tuple[int, int]) -> None:
        self._home = home
        self._root = root
        self.values: dict[str, Any] = {}
        self.entries: dict[str, Entry] = {}
        self.unknown: dict[Path, str] = {}

    def put(self, key: str, value: Value) -> None:
        if not is_small(value):
            value = Undetermined("a very large value", source_of(value))
        is_unseen = isinstance(value, (Undetermined, Either)) or (key == "deepspeed" and lacks_its_stage(value))
        if key in _ENGINES and is_unseen:
            self.unknown[key,] = _reason(value)  # without a value: a placeholder would enable the engine
            return
        self.values[key], self.entries[key] = self._plain((key,), value, self._root)

    def mark(self, path: tuple[str, str], span: Span | None) -> None:
        """Gives an argument a place that is no key."""
        start, end = (span.start, span.end) if span is not None else self._root
        above = self.entries.setdefault(path[0], (*self._root, *self._root, False, {}))
        if isinstance(above[5], dict):
            above[5][path[1]] = (start, end, start, end, False, None)

    def _plain(self, path: Path, value: Value, around: tuple[int, int]) -> tuple[Any, Entry]:
        """(plain value, its place), with a placeholder for an unknown value."""
        source = source_of(value)
        span = source.span if source.path == self._home and source.how != "command" else None
        at = (span.start, span.end) if span is not None else around
        plain: Any
        below: Any = None
        if isinstance(value, Known):
            plain = value.value
        elif isinstance(value, Table):
            found = {str(name): self._plain((*path, str(name)), one, at) for name, one in value.values.items()}
            plain, below = {name: one[0] for name, one in found.items()}, {name: one[1] for name, one in found.items()}
        elif isinstance(value, Items) and not value.is_open:
            items = [self._plain((*path, index), one, at) for index, one in enumerate(value.values)]
            plain, below = [one[0] for one in items], [one[1] for one in items]
        else:
            self.unknown[path] = _reason(value)
            plain = f"${{{path[-1]}}}"
        return plain, (*at, *at, False, below)


def _reason(value: Value) -> str:
    if isinstance(value, Either) and all(isinstance(one, Undetermined) for one in alternatives(value)):
        return _reason(next(alternatives(value)))  # the reason of the first alternative
    return value.reason if isinstance(value, (Undetermined, Either)) else "the script computes it"
