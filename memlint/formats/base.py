"""What a config format must offer, and the values that pass between it and the engine.

A format is a module of this package with the names of `Format`. It does no I/O: files that a config references are
read through `Context.read`, models are looked up through `Context.find_model`, and what the repository around the
config tells of it (its launch commands, the script that reads it) is asked of `Context.repository`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from memlint._record import NamedTuple
from memlint.architectures.model import Architecture, Resolution
from memlint.findings import Edit
from memlint.hardware.model import Gpu
from memlint.run import UNKNOWN, Amount, Origin, Run, Unknown
from memlint.source.document import Document, Path


class Recognition(NamedTuple):
    """How sure a format is that a document is its own, and what the document is for.

    `confidence`: certain, likely, unsure, no. `role`: training, inference, export, companion, dataset, other.
    """

    confidence: str
    role: str = "training"
    reason: str = ""


class Issue(NamedTuple):
    """Something a format has to say about a file: a schema violation, an unknown key, a missing reference.

    `code` becomes the rule id of the finding (formats/issues.py lists them); `path` and `pointer` say where;
    `on_key` points at the key and not at its value; `edit` mends it where that is certain. `where`: a condition that
    nothing shows to hold, in words that follow "where"; with one it is no error (ruleset/evidence.py).
    """

    code: str
    message: str
    path: str
    pointer: Path = ()
    severity: str = "error"
    on_key: bool = False
    edit: Edit | None = None
    suggestion: str = ""
    related: tuple[tuple[str, Path, str], ...] = ()  # (file, pointer, label)
    where: str = ""


class MissingFile(NamedTuple):
    """Why a referenced file could not be read: missing, outside, cyclic, unreadable, not-a-file, url, placeholder.

    `is_certain`: a file that is missing here is missing for the run as well.
    """

    code: str
    message: str
    tried: tuple[str, ...] = ()
    is_certain: bool = False


# Launchers whose own options fully determine the engine and the number of GPUs.
PROCESS_LAUNCHERS = ("accelerate", "torchrun", "deepspeed", "tune")


class Launch(NamedTuple):
    """A command in a file of the repository that launches a config.

    `path` and `line`: where the command is. `config_file` and `deepspeed`: the accelerate launch file and the DeepSpeed
    file that it names, where the repository has them. `gpus` is 0 where the command does not say how many.
    `asks_for_gpus`: it says a number of them that nobody knows (`$NODES`). `is_clear`: no other word of the command
    could change the engine or the number of GPUs. `options`: what the program's own options say over the config, by
    name; a value with an unknown part is a placeholder. `card`: the card that the job around the command asks for, as
    it is named there, "" if none; `card_line`: the line of `path` that names it.
    """

    path: str = ""
    line: int = 0
    launcher: str = ""  # accelerate, torchrun, deepspeed, ...
    config_file: str = ""
    shipped: str = ""  # the name of the launch file that it takes from TRL's package
    deepspeed: str = ""
    gpus: int = 0
    gpus_per_node: int = 0
    visible: int = 0  # GPUs that CUDA_VISIBLE_DEVICES leaves to the command, 0 where it is not set
    asks_for_gpus: bool = False
    names_config: bool = False  # of a program: it is started with a config, whose run it is
    is_clear: bool = False
    is_foreign: bool = False  # it starts a program that the repository does not have
    program: str = ""  # the program of the repository that it starts; "" where it is none or several
    options: tuple[tuple[str, Any], ...] = ()
    card: str = ""
    card_line: int = 0

    def starts_another(self, program: str) -> bool:
        """Whether it starts another program than `program` of the repository, for all that is known."""
        return self.program != program if self.program else self.is_foreign

    def is_beyond(self, gpus: int) -> bool:
        """Whether `gpus` processes on one machine are more than the GPUs that CUDA_VISIBLE_DEVICES leaves."""
        return 0 < self.visible < gpus

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(name for name in (self.config_file, self.deepspeed) if name)

    @property
    def leaves_all_open(self) -> bool:
        """Whether it starts a program that takes all GPUs that there are, and says nothing more:
        `llamafactory-cli train sft.yaml` in a README."""
        return self.launcher not in PROCESS_LAUNCHERS and not (self.files or self.shipped or self.gpus)


class ConfigReader(NamedTuple):
    """Who reads a config: `kind` is "framework" (an argument parser of transformers or TRL), "script" (a script of the
    repository by itself) or "" where nothing tells. `path`: the script that shows it. `parsers`: those that it makes.
    `has_own_trainer`: it trains with a class that is none of transformers' and TRL's trainers. `makes_adapter`: it
    makes its adapter without asking for TRL's `use_peft`; a script, in some branch. `names`: the frameworks that a
    script names, to which it may hand the file on ("llamafactory", "axolotl"). `reads`: the keys of the config that a
    script asks for by itself. `leaves_out`: of the arguments that nothing but a script's code gives its model, those
    that it does not ("attn_implementation"). `is_one_of`: another script may read it as well, and nothing tells which
    does.
    """

    kind: str = ""
    path: str = ""
    parsers: frozenset[str] = frozenset()
    has_own_trainer: bool = False
    makes_adapter: bool = False
    names: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()
    leaves_out: frozenset[str] = frozenset()
    is_one_of: bool = False


class RepositoryFacts:
    """What the repository around a config tells of it. Here: nothing, as of a file that stands alone.

    A `Workspace` answers from the repository's files, and may search all of them. Ask only before reporting something;
    ask for `launch_commands` also where a config leaves its engine or the number of GPUs open.
    """

    def but(self, **answers: Callable[..., Any]) -> RepositoryFacts:
        """The same facts, with other answers to the questions that `answers` names."""
        other = object.__new__(type(self))
        vars(other).update({**vars(self), **answers})
        return other

    def field_annotations(self, key: str, below: str = "") -> str:
        """The type annotations of the field `key` in dataclasses of the repository's Python, in files whose path has
        the folders `below`; "" where no dataclass has it. There may be several, as a collection of projects may have
        several copies of a framework."""
        return ""

    def argument_parsers(self) -> frozenset[str]:
        """The argument parsers that its Python makes: TrlParser, HfArgumentParser, H4ArgumentParser."""
        return frozenset()

    def filled_arguments(self) -> frozenset[str]:
        """The arguments that its dataclasses give a value where they are None."""
        return frozenset()

    def taken_arguments(self) -> frozenset[str]:
        """The arguments that its Python takes out of the others before a parser sees them."""
        return frozenset()

    def converts(self, program: str, key: str) -> bool:
        """Whether a program, or one that imports it, makes a number of `key`: `float(args.learning_rate)`."""
        return False

    def chat_templates(self) -> frozenset[str]:
        """The chat templates that copies of LLaMA-Factory in it register."""
        return frozenset()

    def own_refusals(self) -> frozenset[str]:
        """The messages of errors that argument classes of a copy of LLaMA-Factory in it raise."""
        return frozenset()

    def own_functions(self, below: str) -> frozenset[str]:
        """The names of the functions that its Python defines in files whose path has the folders `below`."""
        return frozenset()

    def says(self, below: str, words: str) -> bool:
        """Whether its Python has these words in a line, not a comment, of files whose path has the folders `below`."""
        return False

    def has_checks_of(self, framework: str) -> bool:
        """Whether it has a copy of `framework` whose code that checks arguments is unchanged."""
        return False

    def knows_word(self, key: str, word: str) -> bool:
        """Whether its Python compares what is called like `key` with `word`, or registers or lists the word for it."""
        return False

    def calls_deepspeed(self) -> bool:
        """Whether its programs call `deepspeed.initialize` themselves, without a trainer of Hugging Face."""
        return False

    def leaves_deepspeed(self) -> bool:
        """Whether its programs train with a trainer of Hugging Face, and none calls DeepSpeed itself."""
        return False

    def wraps_models(self) -> bool:
        """Whether its Python wraps models in FSDP by itself, beside what the arguments say."""
        return False

    def fills_context(self) -> bool:
        """Whether an agent loop in it writes completions up to the engine's `max_model_len`."""
        return False

    def is_filled_in(self, path: str, key: str, value: Any) -> bool:
        """Whether a program or a command sets `key` of the config at `path`, or replaces its `value`, before a
        framework reads it."""
        return False

    def is_overridden(self, dotted: str) -> bool:
        """Whether a command that names no config, and so starts its program with one by default, overrides the key of
        that dotted name (`policy.megatron_cfg.enabled`)."""
        return False

    def declares(self, document: Document, key: str) -> bool:
        """Whether the program that reads the document, or that its command starts, declares `key` in a class of its
        own for HfArgumentParser or TrlParser."""
        return False

    def is_made(self, reference: str) -> bool:
        """Whether a program or a command writes the file that a config references."""
        return False

    def launch_commands(self, path: str) -> tuple[Launch, ...]:
        """The commands in its scripts and pages that launch the config at `path`."""
        return ()

    def launch_files(self, path: str) -> tuple[str, ...]:
        """Its accelerate launch files, the likeliest for the config at `path` first."""
        return ()

    def config_reader(self, path: str, keys: Collection[str]) -> ConfigReader:
        """Who reads the config at `path` with these `keys`: a framework's parser, or a script by itself."""
        return ConfigReader()


def no_launches(path: str) -> tuple[Any, ...]:
    return ()


class Stated(NamedTuple):
    """A figure that somebody states in place of memlint's own, and where."""

    amount: Amount
    origin: Origin


class Context(NamedTuple):
    """What a config file cannot say, and the ways in which a format looks outside of the file.

    `read(reference, from_path)`: the referenced document, or why it could not be read.
    `find_model(name, from_path)`: the architecture behind a model's name, or why none is known.
    `repository`: what the repository around the file tells of it.
    """

    read: Callable[[str, str], Document | MissingFile]
    find_model: Callable[[str, str], Resolution]
    gpu: Gpu | None = None
    gpu_origin: Origin = Origin("unknown")
    gpus: int | Unknown = UNKNOWN
    gpus_origin: Origin = Origin("unknown")
    gpus_per_node: int | Unknown = UNKNOWN
    model_name: str = ""  # --model or settings: used when the config names none
    companions: tuple[Document, ...] = ()  # --with FILE, directive or settings
    versions: Mapping[str, tuple[int, ...]] = {}  # framework versions from settings: {"transformers": (4, 57)}
    host_bytes: int = 0
    images: int | Unknown = UNKNOWN  # in each sample, as the command line says
    longest_sample: int | Unknown = UNKNOWN  # of the data, in tokens
    longest_sample_origin: Origin = Origin("unknown")
    memory_budget_bytes: int = 0
    optimizer_budget_bytes: int = 0
    overhead: Mapping[str, Stated] = {}  # of the card, by the names of `memory:` in settings, which are run fields
    version_origins: Mapping[str, Origin] = {}  # where each of `versions` comes from, unless it is a setting
    at_commits: frozenset[str] = frozenset()  # frameworks that the repository pins at a commit, of no known release
    repository: RepositoryFacts = RepositoryFacts()
    started_processes: int = 0  # that the command itself starts, whatever `gpus` says; 0: it does not say


def named_model(context: Context, name: str, from_path: str) -> tuple[Architecture | None, Origin]:
    """The architecture behind a model's name, and its origin.

    The origin is `catalog` for an exact name, `inferred` for a similar one, and `unknown` with the reason where there
    is no architecture.
    """
    found = context.find_model(name, from_path)
    if found.architecture is None:
        return None, Origin("unknown", detail=found.reason or f"`{name}` is not known")
    kind = "inferred" if found.inferred else "catalog"
    return found.architecture, Origin(kind, found.path, detail=f"{found.source}: {found.inferred or found.name}")


class Parsed(NamedTuple):
    """What a format read from a document. `documents` are the files that were read for it, the main one first.

    `raw` gives rules the files' own keys by section: {"config": ..., "deepspeed": ..., "accelerate": ..., "fsdp": ...};
    `raw_places` says which document and path each section starts at. `completed_by`: the script that reads the file and
    makes its model's adapter in its own code, so that the file alone does not say what trains.
    """

    format: str
    runs: tuple[Run, ...]
    issues: tuple[Issue, ...]
    documents: tuple[Document, ...]
    raw: Mapping[str, Any] = {}
    raw_places: Mapping[str, tuple[str, Path]] = {}  # section -> (file path, pointer of the section's root)
    completed_by: str = ""


class Format(Protocol):
    """The names that a format module has.

    A few more are optional:
    `RESOLVES_REFERENCES: bool`: its parser follows `${a.b}` to other keys of the file.
    `OF_ANY_SCRIPT: bool`: scripts of anybody take its keys for arguments, and may change them before they are checked.
    `dialect(context) -> str`: the YAML dialect, where it depends on the release.
    `reads_releases(run) -> bool`: whether another release would read the files as another run; without this function
    the files are read again for every release that is asked about.
    `unjudged(document, context) -> Issue | None`: the note on a file whose keys mean what a script makes of them. No
    fix of such a file is safe. It may search the repository: asked only about a file with findings.
    `rule_applies(rule) -> bool`: whether that rule's findings are reported for such a file.
    `skips_rule(rule, document, context) -> bool`: whether that rule says nothing of this document.
    `takes_comments(document, context) -> bool`: whether the reader of this JSON takes comments and commas at ends.
    `left_open(document) -> str`: the key that a file leaves to a program, which may set others as well
    `stale_pin(document, context) -> str`: the condition under which the release that the repository pins is what
    runs, where a key of the file speaks against it.
    `copy_of(rule, context) -> str`: the framework of which the repository has a copy, which may check something else
    than the rule says; "" without one, or where the copy's own text shows that it checks this.
    `fork_of(document, context) -> str`: the framework of which a fork probably reads the document, because it has
    several keys that no release knows; "" elsewhere
    """

    NAME: str  # "llamafactory"
    DIALECT: str  # source.document dialect of its YAML files
    SCHEMA: str  # file name below schemas/

    def recognise(self, document: Document) -> Recognition:
        """Whether this document is of this format, judged by its keys alone."""

    def parse(self, document: Document, context: Context) -> Parsed:
        """The document (already read in DIALECT) as runs, issues and origins. Never raises on any value."""

    def edits(self, parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
        """How the files would say `changes` (neutral field -> value); None where this format cannot."""
