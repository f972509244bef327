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


class Start(NamedTuple):
    """How a script starts the program whose arguments a document holds.

    `format`: the format whose keys they are. `launcher`: torchrun, accelerate, ...; `entry`: the program.
    `gpus`: of all machines, and `gpus_per_node`: 0 where the script does not say; `gpus_at`: where it does.
    `unknown`: why a value is not known, by path. `sources`: where a value is assigned, as offsets into the text, for
    those that come from a variable; under the empty path those of the call that takes the arguments, in Python.
    `named(reference)`: a file that the program is given by name, as a document, None
    where there is none. `launch_file`: the launcher's own options as a file of accelerate's, a `Document`.
    `asks_for_gpus`: the script asks how many GPUs there are, and `at_gpus(n)` gives the document for `n` of them.
    `reread(text)`: the documents of the script after a change. `framework` and `task`: whose trainer it is ("trl",
    "transformers", "swift") and which one ("dpo" of `trl dpo`), "" where only the keys can tell. `defined`: the flags
    that the program defines itself; `is_closed`: it takes no others, beside those of the libraries; `is_own`: not even
    those; `makes_adapter`: it makes its adapter of arguments of its own, not of TRL's ModelConfig. `switches`: flags
    that take no value; `dashed`: those that it defines with hyphens; `spelled(message)`: a message in the command's
    words, where it writes its flags so. `refused`: given flags that the program refuses. `names`: the flag for a key,
    where it has another name; of a configuration file with keys of its own, the file's key. `unmodelled`: what the
    program does to its model that no flag tells. `loads_model`: a Python script loads the model itself, so that the
    defaults of TRL's loader are not in force. `files`: the file, a `Document`, that a key's value is taken from, for
    commands that name one; under "" where the command gives nothing else. `written_at`: where the value of a key
    stands, in Python, as "configs/sft.yaml:12"; keys that the script computes are left out. `accepts`: the arguments
    that a call may have. `arguments_class`: of which class they are, in Python. `card`: the card that the job asks
    for, as it calls it, "" where it names none, and `card_at` where.
    """

    format: str
    launcher: str
    entry: str = ""
    gpus: int = 0
    gpus_per_node: int = 0
    gpus_at: tuple[int, int] = (0, 0)
    unknown: Mapping[Path, str] = {}
    sources: Mapping[Path, tuple[int, int]] = {}
    named: Callable[[str], Any] | None = None
    launch_file: Any = None  # a Document
    asks_for_gpus: bool = False
    at_gpus: Callable[[int], Any] | None = None
    reread: Callable[[str], tuple[Any, ...]] | None = None
    framework: str = ""
    task: str = ""
    defined: frozenset[str] = frozenset()
    is_closed: bool = False
    is_own: bool = False
    makes_adapter: bool = False
    switches: frozenset[str] = frozenset()
    dashed: frozenset[str] = frozenset()
    spelled: Callable[[str], str] | None = None
    refused: frozenset[str] = frozenset()
    names: Mapping[str, str] = {}
    unmodelled: str = ""
    loads_model: bool = False
    files: Mapping[str, Any] = {}
    written_at: Mapping[str, str] = {}
    accepts: frozenset[str] = frozenset()
    arguments_class: str = ""
    card: str = ""
    card_at: int = 0


class Document(NamedTuple):
    """One document of a file.

    `value` is made of dict, list, str, int, float, bool and None under `dialect` (`yaml11` as PyYAML
    reads it, `omegaconf`, `yaml12`, `json`). `places` maps the path of each value to its place.
    `text` is the decoded text without BOM; `encoding`, `bom` and `newline` are kept for writing.
    """

    path: str
    text: str
    syntax: str  # yaml, json, shell and python (the arguments of one command or call of a script)
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
