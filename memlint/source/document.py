"""Located values: the output of `source/`, which every later stage points back to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

    `severity` is "error" where the file's consumer refuses it or reads another value than the text says, and
    "warning" where the consumer goes on with a value that may not be the intended one.
    """

    code: str
    message: str
    span: Span
    related: Span | None = None
    fatal: bool = False
    severity: str = "error"


NOT_READ = "cannot be read"  # what a reason in `Start.unknown` has of a file with arguments


class StartedProgram(NamedTuple):
    """What a script starts, and what is known of its code."""

    entry: str = ""  # the program
    framework: str = ""  # whose trainer it is, "trl", "transformers", "swift"; "" where only the keys can tell
    is_foreign: bool = False  # the repository does not have the program's code
    task: str = ""  # which of its trainers: "dpo" of `trl dpo`
    unmodelled: str = ""  # what the program does to its model that no flag tells
    freezes: str = ""  # where it freezes parameters that no flag names
    # What that leaves of weights, gradients and optimizer states: "" (who knows), all, headless (all but the head).
    model_state: str = ""
    loads_model: bool = False  # a Python script loads the model itself: the defaults of TRL's loader are not in force
    has_own_trainer: bool = False  # its trainers are its own classes, which make their engine themselves
    writes_groups: bool = False  # its trainer for GRPO stands on transformers' Trainer, not on TRL's
    hides_model: bool = False  # its code was followed, and does not show what model it trains
    has_plain_arguments: bool = (
        False  # in Python: a trainer of TRL gets transformers' arguments, without TRL's defaults
    )
    # In Python, by framework: the newest release that takes what it is given, and what that is: (0, 15), "tokenizer".
    newest: Mapping[str, tuple[tuple[int, ...], str]] = {}
    spreads_layers: bool = False  # in Python: `device_map` puts layers of the one model on all GPUs that it sees


class Machine(NamedTuple):
    """On what a script starts it. Numbers are 0 and texts "" where the script does not say."""

    gpus: int = 0  # of all machines
    gpus_per_node: int = 0
    gpus_at: tuple[int, int] = (0, 0)  # where the script says so
    asks_for_gpus: bool = False  # the script asks how many GPUs there are
    at_gpus: Callable[[int], Any] | None = None  # the document for so many of them
    card: str = ""  # the card that the job asks for, as it calls it
    card_at: int = 0
    launch_file: Any = None  # the launcher's own options as a file of accelerate's, a Document
    grows_segments: bool = False  # PYTORCH_CUDA_ALLOC_CONF has `expandable_segments:True`


class ValueSources(NamedTuple):
    """Where the values of the arguments come from. Offsets are into the script's text."""

    unknown: Mapping[Path, str] = {}  # why a value is not known
    # Where a value is assigned that comes from a variable. In Python, under the empty path: the call that takes the
    # arguments.
    sources: Mapping[Path, tuple[int, int]] = {}
    written_at: Mapping[str, str] = {}  # in Python, of each key that is not computed: "configs/sft.yaml:12"
    # The Document that a key's value is taken from, for commands that name one; under "" where the command gives
    # nothing else.
    files: Mapping[str, Any] = {}
    named: Callable[[str], Any] | None = None  # a file that the program is given by name: a Document, or None
    reread: Callable[[str], tuple[Any, ...]] | None = None  # the documents of the script after a change of its text
    # In Python, keys whose value stands in a command of another file, and whether that file is a script: then what
    # is to be said of them is said there.
    by_command: Mapping[str, bool] = {}
    is_commanded: bool = False  # a command of the repository gives a Python script options: others make other runs


class AcceptedArguments(NamedTuple):
    """Which arguments the program takes."""

    # The flags that it defines itself; in a launcher's own document the options that the command gives.
    defined: frozenset[str] = frozenset()
    is_closed: bool = False  # it takes no others, beside those of the libraries
    is_own: bool = False  # nor those of the libraries
    makes_adapter: bool = False  # it makes its adapter of arguments of its own, not of TRL's ModelConfig
    switches: frozenset[str] = frozenset()  # flags that take no value
    dashed: frozenset[str] = frozenset()  # flags that it defines with hyphens
    refused: frozenset[str] = frozenset()  # given flags that it refuses
    names: Mapping[str, str] = {}  # the flag, or the key of a file of one's own, for a key that is called otherwise
    spelled: Callable[[str], str] | None = None  # a message in the words of a command that writes hyphens
    accepts: frozenset[str] = frozenset()  # the arguments that a call in Python may have
    arguments_class: str = ""  # of which class they are, in Python
    read_back: frozenset[str] = frozenset()  # arguments that a class of the script reads again, in Python
    set_later: frozenset[str] = frozenset()  # arguments that are set, in Python, after they were made and checked


class OwnFile(NamedTuple):
    """What is to be said of a configuration file of the repository's own."""

    disagreements: tuple[str, ...] = ()  # what other scripts make of it: "`eval.py` reads this file too: ..."
    unread: tuple[str, ...] = ()  # keys that no script reads, as dotted names that have a place


class Start(NamedTuple):
    """How a script starts the program whose arguments a document holds, or a Python script makes the arguments."""

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
    start: Start | None = None  # of the arguments of a command


def place(document: Document, path: Path) -> Place | None:
    """The place of `path`, or of its nearest ancestor that has one."""
    while path not in document.places:
        if not path:
            return None
        path = path[:-1]
    return document.places[path]
