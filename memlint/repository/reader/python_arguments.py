"""Searches a repository's own Python for arguments and their parsers. It is read as text, never imported.

HfArgumentParser accepts the fields of a script's dataclasses, and a fork of LLaMA-Factory adds arguments of its own. So
a key that is declared here is not a typo, and one that the libraries have dropped belongs to the script. The search
only runs if there is something to report: a clean repository is never searched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

from memlint.repository.files.walk import files_below
from memlint.repository.once import Once
from memlint.repository.reader.script import Script
from memlint.repository.shipped_examples import has_checks_of

MOST_BYTES = 256 * 1024
MOST_BYTES_IN_ALL = 32 * 1024 * 1024  # half a second; LLaMA-Factory's Python has 2 MB, a collection of papers 25 MB
MOST_BYTES_OF_SCRIPTS = 4 * 1024 * 1024
# The training loop: the program calls DeepSpeed itself, or uses that of transformers, TRL or accelerate.
_OWN_ENGINE = b"deepspeed.initialize("
# An agent loop of verl's kind that writes until the engine's context is full (verl's own end at `response_length`).
_AGENT_LOOP = re.compile(rb"^class \w+\(\w*AgentLoop\w*", re.MULTILINE)
_WRAPS = re.compile(rb"(?<!def )\b(?:FSDP|FullyShardedDataParallel|fully_shard)\(")  # torch's, imported by either name
_HUGGING_FACE = re.compile(rb"\bTrainingArguments\b|\bAccelerator\(|^[ \t]*(?:from|import) trl\b", re.MULTILINE)
_MOST_LINES = 12  # of one annotation
_FILLED = re.compile(rb"if self\.([A-Za-z_][A-Za-z0-9_]*) is None")
_TAKEN = re.compile(rb"""\b(?:args|kwargs|config|params)\.pop\(\s*["']([A-Za-z_]\w*)["']""")
_CONVERTED = rb"""\b(?:float|int)\(\s*(?:\w+\.)*\w+(?:\.|\[["']|\.get\(["'])%b\b"""
_TEMPLATE = re.compile(rb"""register_template\(\s*name=["']([\w.-]+)["']""")
_MOST_WORDS = 256  # that are kept, each with the argument that takes it or does not
_MOST_FOLDERS = 8  # whose functions and fields are kept: those of copies of frameworks
_FUNCTION = re.compile(rb"^[ \t]*def (\w+)\(", re.MULTILINE)
# Errors that a copy of a framework raises (lines that are not commented out).
_REFUSAL = re.compile(rb"""^[ \t]*raise \w+\(\s*f?["']([^"'\n]{8,160})""", re.MULTILINE)
# What stands before a word that code takes: `optim ==`, `stage in (`, `loss: Literal[`, `register_loss(`.
_TAKES = re.compile(
    rb"""(?:[\w.\[\]"']+\s*==\s*|[\w.\[\]"']+\s+in\s*[\[({][^\])}]*|\w+\s*:[^\n=]*\bLiteral\[[^\]]*"""
    rb"""|\bregister\w*\([^)\n]*)$"""
)
_MOST_BEFORE = 400  # bytes from the name of an argument to one of its words
_OPTION = re.compile(rb"""(?:\badd_argument|\.option|\bOption)\(\s*(?:["']-\w["'],\s*)?["'](--[A-Za-z][\w-]*)["']""")
_CALLS_WITH_OPTIONS = (b"add_argument(", b".option(", b"Option(")
_FIELD = re.compile(r"(?:    |\t)([A-Za-z_][A-Za-z0-9_]*)[ \t]*:[ \t]*([^\s].*)")


class Python:
    """What the Python files at `paths` say, up to a bound. Files that cannot be read or are too large are skipped.

    The files are read once; each fact is searched in them when it is first asked for. `name`: what a script is called.
    """

    def __init__(
        self, paths: Iterable[str], read: Callable[[str], bytes], name: Callable[[str], str] = lambda path: path
    ) -> None:
        self._texts = Once(lambda: list(_texts(paths, read)))
        self._name = name
        self.functions = lru_cache(_MOST_FOLDERS)(self._functions)
        self.has_checks_of = lru_cache(_MOST_FOLDERS)(self._has_checks_of)
        self.fields = lru_cache(_MOST_FOLDERS)(self._fields)
        self.knows = lru_cache(_MOST_WORDS)(self._knows)

    def _fields(self, below: str = "") -> Mapping[str, list[str]]:
        """The annotations of the fields of dataclasses and of pydantic's models by name, and of options of argparse and
        click by their flags (`--epochs`, with `_` for `-`). `below`: of files whose path has these folders alone."""
        found: dict[str, list[str]] = {}
        for text in self._texts_below(below):
            for name, annotation in declared(text):
                found.setdefault(name, []).append(annotation)
        return found

    def _texts_below(self, folders: str) -> Iterator[bytes]:
        """The files whose path has these folders; all for ""."""
        return (text for path, text in self._texts.get() if f"/{folders}/" in path or not folders)

    @cached_property
    def scripts(self) -> tuple[Script, ...]:
        """The scripts that may read a config, as far as MOST_BYTES_OF_SCRIPTS goes."""
        room = MOST_BYTES_OF_SCRIPTS
        found = []
        for script in (Script(self._name(path), text) for path, text in self._texts.get()):
            if len(script.text) <= room and script.may_read:
                room -= len(script.text)
                found.append(script)
        return tuple(found)

    def scripts_with(self, word: str) -> Sequence[Script]:
        """The scripts that may read a config and contain `word`. Where no file has it, which they are is not asked."""
        wanted = word.encode("utf-8", "replace")
        if not any(wanted in text for _, text in self._texts.get()):
            return ()
        return [script for script in self.scripts if wanted in script.text]

    def converting(self, key: str) -> Iterator[str]:
        """The scripts that make a number of `key`."""
        return (self._name(path) for path, text in self._texts.get() if converts(text, key))

    @cached_property
    def parsers(self) -> frozenset[str]:
        """The argument parsers that the scripts make."""
        return frozenset[str]().union(*(script.parsers for script in self.scripts))

    @cached_property
    def filled(self) -> frozenset[str]:
        """The arguments that a `__post_init__` tests for None, to replace them."""
        return self._found_after(b"def __post_init__", _FILLED)

    @cached_property
    def taken(self) -> frozenset[str]:
        """The arguments that are taken out of the others before a parser sees them: `args.pop("evaluators", None)`."""
        return self._found_after(b".pop(", _TAKEN)

    @cached_property
    def templates(self) -> frozenset[str]:
        """The chat templates that a copy of LLaMA-Factory registers."""
        return self._found_after(b"register_template(", _TEMPLATE)

    def _found_after(self, word: bytes, pattern: re.Pattern[bytes]) -> frozenset[str]:
        """What `pattern` finds in the files that have `word`."""
        texts = (text for _, text in self._texts.get() if word in text)
        return frozenset(name.decode() for text in texts for name in pattern.findall(text))

    @cached_property
    def refusals(self) -> frozenset[str]:
        """The messages of errors that the argument classes of a copy of LLaMA-Factory raise."""
        return frozenset(
            words.decode("utf-8", "replace")
            for text in self._texts_below("hparams")
            for words in _REFUSAL.findall(text)
        )

    def says(self, below: str, words: str) -> bool:
        """Whether a line of the files whose path has the folders `below` has these words, outside of a comment."""
        wanted = words.encode()
        return any(
            b"#" not in text[text.rfind(b"\n", 0, place.start()) + 1 : place.start()]
            for text in self._texts_below(below)
            for place in re.finditer(re.escape(wanted), text)
        )

    def _functions(self, below: str) -> frozenset[str]:
        """The names of the functions that files whose path has the folders `below` define."""
        return frozenset(name.decode() for text in self._texts_below(below) for name in _FUNCTION.findall(text))

    def _has_checks_of(self, framework: str) -> bool:
        """Whether the files of a copy of the framework that check its arguments are as the framework has them."""
        return has_checks_of(framework, self._texts.get())

    def _knows(self, key: str, word: str) -> bool:
        """Whether the code compares what is called like `key` with `word`, registers it or lists it for an argument."""
        return any(takes_word(text, key, word) for _, text in self._texts.get())

    @property
    def calls_deepspeed(self) -> bool:
        """Whether programs call `deepspeed.initialize` themselves, and none trains with transformers, TRL or
        accelerate."""
        return self._calls_engine and not self._trains_with_hugging_face

    @property
    def leaves_deepspeed(self) -> bool:
        """Whether programs train with transformers, TRL or accelerate, and none calls `deepspeed.initialize`."""
        return self._trains_with_hugging_face and not self._calls_engine

    @cached_property
    def _calls_engine(self) -> bool:
        return any(_OWN_ENGINE in text for _, text in self._texts.get())

    @cached_property
    def _trains_with_hugging_face(self) -> bool:
        return any(_HUGGING_FACE.search(text) for _, text in self._texts.get())

    @cached_property
    def wraps_models(self) -> bool:
        """Whether a program wraps models in FSDP by itself."""
        return any(_WRAPS.search(text) for _, text in self._texts.get())

    @cached_property
    def fills_context(self) -> bool:
        """Whether an agent loop writes completions up to the engine's `max_model_len`."""
        texts = (text for _, text in self._texts.get() if b".max_model_len" in text)
        return any(map(_AGENT_LOOP.search, texts))


def _texts(paths: Iterable[str], read: Callable[[str], bytes]) -> Iterator[tuple[str, bytes]]:
    """Path and contents of the files, up to the bounds."""
    room = MOST_BYTES_IN_ALL
    for path in paths:
        try:
            text = read(path)
        except OSError:
            continue
        if len(text) > MOST_BYTES:
            continue
        room -= len(text)
        if room < 0:
            return
        yield path, text


def converts(script: bytes, key: str) -> bool:
    """Whether the script converts `key` to a number: `float(args.learning_rate)`, `float(config["learning_rate"])`."""
    return re.search(_CONVERTED % re.escape(key.encode("utf-8", "replace")), script) is not None


def takes_word(script: bytes, key: str, word: str) -> bool:
    """Whether the script does something with `word` for what is called like `key`: `optim == "own"`, `stage in ("own",
    "other")`, `kind: Literal["own"]`, `@register_estimator("own")` for `adv_estimator`. A comment is no code."""
    parts = [part for part in re.split(r"[\W_]+", key.lower()) if len(part) > 2] or [key.lower()]
    for place in re.finditer(rb"""["']%b["']""" % re.escape(word.encode("utf-8", "replace")), script):
        start = place.start()
        if b"#" in script[script.rfind(b"\n", 0, start) + 1 : start]:
            continue
        taken = _TAKES.search(script[max(0, start - _MOST_BEFORE) : start])
        if taken and any(part.encode() in taken[0].lower() for part in parts):
            return True
    return False


def declared(data: bytes) -> Iterator[tuple[str, str]]:
    """Name and annotation of each field of the dataclasses, or pydantic's models, of a Python file; its options."""
    calls = any(call in data for call in _CALLS_WITH_OPTIONS)  # found far faster than the expression
    for name in _OPTION.findall(data) if calls else ():
        yield f"--{name[2:].decode().replace('-', '_')}", name.decode()
    has_models = b"pydantic" in data
    if has_models or b"@dataclass" in data:
        yield from fields(data.decode("utf-8", "replace"), has_models)


def fields(source: str, of_any_class: bool = False) -> Iterator[tuple[str, str]]:
    """Name and annotation of each field of the classes that `@dataclass` stands above, or `of_any_class`."""
    lines = source.splitlines()
    armed = inside = False
    for index, line in enumerate(lines):
        if not line or line[0] in " \t#)":
            match = _FIELD.match(line) if inside else None
            if match:
                yield match[1], _whole(match[2], lines[index + 1 : index + _MOST_LINES])
        elif line.startswith("class "):
            armed, inside = False, armed or of_any_class
        elif line.startswith("@dataclass"):
            armed = True
        elif line[0] != "@":
            armed = inside = False


def _whole(text: str, following: Iterable[str]) -> str:
    """An annotation, with the following lines if its brackets are still open."""
    for line in following:
        if text.count("[") <= text.count("]"):
            break
        text += line
    return text


def python_files(root: str) -> Iterator[str]:
    """Python files below `root`."""
    return files_below(root, lambda name: name.endswith(".py"))
