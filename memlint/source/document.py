"""Located values: the output of `source/`, which every later stage points back to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from posixpath import isabs
from typing import Any

from memlint._record import NamedTuple

Path = tuple[str | int, ...]


class Span(NamedTuple):
    """A half-open range of a document's text. Offsets count characters; lines and columns are 1-based."""

    start: int
    end: int
    line: int
    column: int
    end_line: int
    end_column: int


class Place(NamedTuple):
    """The place of one value. `key` is None for list items and the document's root."""

    key: Span | None
    value: Span


class Comment(NamedTuple):
    """`text` is what follows the `#`, stripped. `own_line`: only space is before it on its line."""

    text: str
    span: Span
    own_line: bool


class Problem(NamedTuple):
    """Something wrong with the text itself. `code` is a short id ("duplicate-key"), `fatal`: there is no value.

    `severity`: "error" if the file's reader refuses the text or reads a different value than it says; "warning" if the
    reader continues with a value that may not be the intended one; "info" if that depends on the reader's release.
    """

    code: str
    message: str
    span: Span
    related: Span | None = None
    fatal: bool = False
    severity: str = "error"


LOST_FLAGS = "lost-flags"  # the code of a problem: a command ends before some of its flags (repository/scripts/lost.py)
NOT_READ = "cannot be read"  # part of the reason in `ValueSources.unknown` for an unreadable file with arguments


class OutdatedArguments(NamedTuple):
    """Arguments that a script gives a trainer of the class `trainer` and that `framework` takes until `last`.

    `since`: the first release that refuses them. `instead`: what to write there, in words.
    """

    trainer: str
    framework: str
    last: tuple[int, ...]
    since: str
    names: tuple[str, ...]
    instead: str


class RefusedArgument(NamedTuple):
    """An argument of a call of the class `called` that `library` refuses, since the release `since`; (): in all that
    were read. `code`, `message`, `severity`: as in `formats.base.Issue`.

    `path`, `at`: the file and the range of the value, or of the whole call where the value stands elsewhere.
    """

    called: str
    name: str
    code: str
    message: str
    severity: str
    path: str
    at: Span | None
    library: str = ""
    since: tuple[int, ...] = ()


class NoRelease(NamedTuple):
    """Two arguments of one call that no release of `framework` takes together: `gone`, which the class `older` has
    until `last`, and `new`, which the class `newer` has from `first` on."""

    framework: str
    older: str
    gone: str
    last: tuple[int, ...]
    newer: str
    new: str
    first: tuple[int, ...]


class StartedProgram(NamedTuple):
    """The program that a script starts, and the facts that its code shows."""

    entry: str = ""  # the program: a path or a command
    framework: str = ""  # the framework of its trainer: "trl", "transformers", "swift"; "" if only the keys can tell
    is_foreign: bool = False  # the program's code is not in the repository
    task: str = ""  # which of the framework's trainers: "dpo" for `trl dpo`
    unmodelled: str = ""  # a change that the program makes to its model and that no flag shows, in words
    freezes: str = ""  # where the program freezes parameters that no flag names
    # How much of weights, gradients and optimizer states remains then: "" (unknown), all, headless (all but the head).
    model_state: str = ""
    loads_model: bool = False  # a Python script loads the model itself, so that defaults of TRL's loader do not apply
    is_plain_trainer: bool = False  # in Python: its trainer is the framework's class, and none that derives from it
    has_own_trainer: bool = False  # its trainers are classes of its own, which set up their engine themselves
    writes_groups: bool = False  # its GRPO trainer derives from transformers' Trainer, not from TRL's
    hides_model: bool = False  # its code was followed, but does not show which model it trains
    # In Python: a trainer of TRL gets transformers' TrainingArguments, so that TRL's defaults do not apply.
    has_plain_arguments: bool = False
    # In Python: framework -> the newest release that accepts the arguments that the script passes, and which argument
    # says so: (0, 15), "tokenizer".
    newest: Mapping[str, tuple[tuple[int, ...], str]] = {}
    asks_for_fields: bool = False  # in Python: it asks its arguments' class for its fields, and gives it no other
    outdated: tuple[OutdatedArguments, ...] = ()  # in Python: what newer releases of the trainer do not take
    refused: tuple[RefusedArgument, ...] = ()  # in Python: what classes of transformers, TRL and PEFT refuse
    no_release: NoRelease | None = None  # in Python: what no release of the trainer takes together
    # In Python, how the script prepares quantised weights for training: "" (not at all), peft (embeddings, norms and
    # head in fp32), or qlora (then adapters, embeddings and head in bf16 again).
    quantized_preparation: str = ""
    # In Python: paths of parts of the model whose gradients the script switches on or off, in its order: ("", False) is
    # the whole model, ("model.layers[-4:]", True) its last four layers.
    frozen: tuple[tuple[str, bool], ...] = ()
    # In Python, of a loop that sets up no other engine: "ddp" (DistributedDataParallel), "single" (nothing); "" where
    # its launcher may decide.
    engine: str = ""
    whole_copies: bool = False  # in Python: it tells DeepSpeed of no GPUs that share a copy of the model
    # In Python: it gives its trainer a reference model, which then stays beside the trained one whatever its arguments
    # say.
    gives_reference: bool = False
    keeps_logits: bool = False  # in Python: its evaluation keeps the logits of all samples for metrics
    takes_texts_alone: bool = False  # in Python: no sample has an image
    evaluates_nothing: bool = False  # in Python: its trainer gets no data to evaluate on
    # In Python, of a trainer of embeddings: texts of a sample that its loss compares, and why that is not known.
    texts_per_sample: int = 0
    compares_texts: str = ""
    compares_samples: str = ""  # the loss, where it compares a sample with the others of its batch
    cuts_nothing: bool = False  # in Python: texts are cut to no length that the script says
    fills_length: bool = False  # in Python: all texts are padded to the length, or a long one is cut into blocks
    spreads_layers: bool = False  # in Python: `device_map` distributes the model's layers over all visible GPUs
    device_map: str = ""  # in Python: the word with which it does so whatever is asked for
    # In Python: it loads its model before DeepSpeed's configuration is known, which ZeRO-3 needs to divide what loads.
    loads_before_engine: bool = False
    # In Python, what the script calls of its trainer, whatever the flags of its arguments say: train, evaluate or
    # predict; "" if it asks the flags, or hands its trainer on.
    trainer_call: str = ""
    folder: str = ""  # in a shell script: the working folder, below the root or as the script names it
    file: str = ""  # in a shell script: the program's file below the root, "" where the repository does not have it

    @property
    def is_elsewhere(self) -> bool:
        """Whether a command names the program by a relative path that the repository does not have: it is started in
        another one, where its other files are."""
        return self.is_foreign and self.entry.endswith(".py") and not isabs(self.entry)


class Machine(NamedTuple):
    """The hardware on which a script starts the program. 0 and "": the script does not say."""

    gpus: int = 0  # over all machines
    gpus_per_node: int = 0
    gpus_at: tuple[int, int] = (0, 0)  # the place of that number in the script (offsets)
    asks_for_gpus: bool = False  # the script counts the GPUs of the machine when it runs (nvidia-smi)
    at_gpus: Callable[[int], Any] | None = None  # makes the document for this number of GPUs
    at_card: Callable[[tuple[int, int]], Any] | None = None  # makes the document for a card of this compute capability
    card: str = ""  # the name of the card that the job requests, as written
    card_at: int = 0
    launch_file: Any = None  # the launcher's options as if they stood in an accelerate config file: a Document
    grows_segments: bool = False  # PYTORCH_CUDA_ALLOC_CONF has `expandable_segments:True`


class ValueSources(NamedTuple):
    """Where the values of the arguments come from. Offsets are into the script's text."""

    unknown: Mapping[Path, str] = {}  # why a value is not known
    # Path of a value that comes from a variable -> the place of the assignment. In Python also the empty path -> the
    # call that takes the arguments.
    sources: Mapping[Path, tuple[int, int]] = {}
    loading_call: tuple[int, int] | None = None  # in Python: the call of `from_pretrained` that loads the model
    written_at: Mapping[str, str] = {}  # in Python: key that is not computed -> its place, "configs/sft.yaml:12"
    # In Python: key whose value stands in another file than the document's -> that file, and the value's place in it.
    elsewhere: Mapping[str, tuple[str, Span]] = {}
    files: Mapping[str, Any] = {}  # key -> the Document that its value is taken from, for commands that name a config
    # Of a command that starts a Python program: makes the Document of the values in its code, or None. It is asked for
    # where an edit has to be made there.
    in_program: Callable[[], Any] | None = None
    lone_config: Any = None  # that Document, if the command gives nothing else: the place of a key without a value yet
    config: str = ""  # the path of a config that a command starts as it stands: the run is the config's
    # Locates a file that the program gets by name: its absolute path, the Document that the script writes there, or
    # None. It reads nothing: the file may change while the script's document stays.
    located: Callable[[str], Any] | None = None
    reread: Callable[[str], tuple[Any, ...]] | None = None  # makes the script's documents again from a changed text
    # Key whose value is in another file -> whether all findings about it are reported there (in a script's command), or
    # only those about arguments as such: in a command on a page, or in the config that a script's program loads.
    in_other_file: Mapping[str, bool] = {}
    is_commanded: bool = False  # a command of the repository passes options to a Python script: others give other runs
    commanded_at: str = ""  # in Python: the command of the repository that starts the script so: "train.sh:3"

    def file_of(self, key: str) -> Any:
        """The Document with the value of `key`, or where a value would be set; None if that is the command itself."""
        return self.files.get(key, self.lone_config)

    def documents(self) -> tuple[Any, ...]:
        """The configs that the command takes values from; one may stand here several times."""
        return (*self.files.values(), *((self.lone_config,) if self.lone_config is not None else ()))


class AcceptedArguments(NamedTuple):
    """The arguments that the program accepts."""

    # The flags that it defines itself; in a launcher's own document the options that the command gives.
    defined: frozenset[str] = frozenset()
    is_own: bool = False  # it accepts only its own arguments
    by_classes: bool = False  # it parses them into dataclasses, as HfArgumentParser does
    has_none: bool = False  # it reads no arguments: its code says everything
    by_override: bool = False  # every key is given as `key=value`, one without sections too
    overridden: frozenset[str] = frozenset()  # keys that Hydra's `key=value` sets in the program's own configuration
    makes_adapter: bool = False  # it configures its adapter with arguments of its own, not with TRL's ModelConfig
    switches: frozenset[str] = frozenset()  # flags that take no value
    dashed: frozenset[str] = frozenset()  # flags that it defines with hyphens
    refused: frozenset[str] = frozenset()  # flags of the command that it refuses
    without_value: frozenset[str] = frozenset()  # those that take a value and are given none
    leaves_open: bool = False  # the command has words that may be further arguments, and nobody knows them
    ambiguous: Mapping[str, tuple[str, ...]] = {}  # those that begin several of its flags, with these
    names: Mapping[str, str] = {}  # argument -> its flag or key in the file, if that has a different name
    spelled: Callable[[str], str] | None = None  # rewrites a message for a command whose flags have hyphens
    accepts: frozenset[str] = frozenset()  # in Python: the arguments that the call may have
    arguments_class: str = ""  # in Python: the class of these arguments
    read_back: frozenset[str] = frozenset()  # in Python: arguments that a class of the script reads again
    set_later: frozenset[str] = frozenset()  # in Python: arguments that are set after the object was made and checked


class OwnFile(NamedTuple):
    """Messages about a config with keys of its own, which scripts of the repository interpret."""

    disagreements: tuple[str, ...] = ()  # how other scripts read it differently: "`eval.py` reads this file too: ..."
    unread: tuple[str, ...] = ()  # keys that no script reads, as dotted names that have a place


class Start(NamedTuple):
    """How a shell script starts the program whose arguments the document holds, or how Python code makes them."""

    format: str  # the format whose keys the arguments are
    launcher: str  # torchrun, accelerate, ...
    program: StartedProgram = StartedProgram()
    machine: Machine = Machine()
    values: ValueSources = ValueSources()
    accepted: AcceptedArguments = AcceptedArguments()
    own_file: OwnFile = OwnFile()


class Document(NamedTuple):
    """One document of a file.

    `value` is made of dict, list, str, int, float, bool and None under `dialect` (`yaml11` as PyYAML
    reads it, `omegaconf`, `yaml12`, `json`). `places` maps the path of each value to its place.
    `text` is the decoded text without BOM; `encoding`, `bom` and `newline` are kept for writing.
    """

    path: str
    text: str
    syntax: str  # yaml, json, toml, shell and python (the arguments of one command or call of a script)
    dialect: str
    value: Any
    places: Mapping[Path, Place]
    problems: tuple[Problem, ...] = ()
    index: int = 0  # type: ignore[assignment]  # which document of a multi-document file
    documents: int = 1
    encoding: str = "utf-8"
    bom: bool = False
    newline: str = "\n"
    plain: Mapping[Path, str] = {}  # raw text of plain scalars, so that another dialect can read them
    aliases: tuple[Path, ...] = ()  # paths whose value is an alias of an anchor
    start: Start | None = None  # how the program is started, if the document holds the arguments of a command or call


def place(document: Document, path: Path) -> Place | None:
    """The place of `path`, or of its nearest ancestor that has one."""
    while path not in document.places:
        if not path:
            return None
        path = path[:-1]
    return document.places[path]
