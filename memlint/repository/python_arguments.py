"""Searches a repository's own Python for arguments and their parsers. It is read as text, never imported.

HfArgumentParser accepts the fields of a script's dataclasses, and a fork of LLaMA-Factory adds arguments of its own. So
a key that is declared here is not a typo, and one that the libraries have dropped belongs to the script. The search
only runs if there is something to report: a clean repository is never searched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from memlint._record import NamedTuple
from memlint.repository.walk import files_below

MOST_BYTES = 256 * 1024
MOST_BYTES_IN_ALL = 32 * 1024 * 1024  # half a second; LLaMA-Factory's Python has 2 MB, a collection of papers 25 MB
MOST_BYTES_OF_SCRIPTS = 4 * 1024 * 1024
_PARSERS = (b"TrlParser", b"HfArgumentParser", b"H4ArgumentParser")
# With one of those parsers and its `parse_dict`, this reads the file: `1e-5` is a number for it.
_OMEGACONF = (b"OmegaConf.load(", b"hydra.main(")
# The training loop: the program calls DeepSpeed itself, or uses that of transformers, TRL or accelerate.
_OWN_ENGINE = b"deepspeed.initialize("
# An agent loop of verl's kind that writes until the engine's context is full (verl's own end at `response_length`).
_AGENT_LOOP = re.compile(rb"^class \w+\(\w*AgentLoop\w*", re.MULTILINE)
_HUGGING_FACE = re.compile(rb"\bTrainingArguments\b|\bAccelerator\(|^[ \t]*(?:from|import) trl\b", re.MULTILINE)
# Functions and libraries that read YAML for a program with code of its own for the keys.
_READERS = (
    *(b"safe_load(", b"full_load(", b"unsafe_load(", b"yaml.load(", b"YAML(", b"OmegaConf.load(", b"hydra.main("),
    *(b"from_yaml(", b"load_yaml(", b"read_yaml(", b"parse_yaml_file_as(", b"YamlConfigSettingsSource", b"loadfn("),
    *(b"merge_from_file(", b"load_cfg(", b"Config.fromfile(", b"Dynaconf(", b"anyconfig.load(", b"LightningCLI("),
    *(b"from hydra import", b"from jsonargparse", b"import jsonargparse", b"simple_parsing", b"import draccus"),
    *(b"import pyrallis", b"import configargparse"),
)
_LOADS = re.compile(rb"\b(?:load|read|get|parse)_(?:config|cfg|yaml)\(")  # by a module of the repository
_OWN_READER = re.compile(rb"\bdef \w*(?:read|load|parse)\w*_ya?ml\w*\(")  # of a program without a library for it
_READS_JSON = re.compile(rb"\bjson\.load\(")
_MOST_LINES = 12  # of one annotation
_FILLED = re.compile(rb"if self\.([A-Za-z_][A-Za-z0-9_]*) is None")
_CONVERTED = rb"""\b(?:float|int)\(\s*(?:\w+\.)*\w+(?:\.|\[["']|\.get\(["'])%b\b"""
_TEMPLATE = re.compile(rb"""register_template\(\s*name=["']([\w.-]+)["']""")
# Errors that a copy of a framework raises (lines that are not commented out), and words that code compares with.
_REFUSAL = re.compile(rb"""^[ \t]*raise \w+\(\s*f?["']([^"'\n]{8,160})""", re.MULTILINE)
_COMPARED = re.compile(
    rb"""\b(adapter|attn_implementation|finetuning_type|loss_type|lr_scheduler(?:_type)?|optim(?:izer)?|stage|template)"""
    rb"""\s*(?:==\s*(["'][\w-]{1,40}["'])|in\s*[(\[{]([^)\]}]{1,400}))"""
)
_IN_QUOTES = re.compile(rb"""["']([\w-]{1,40})["']""")
_OPTION = re.compile(rb"""(?:\badd_argument|\.option|\bOption)\(\s*(?:["']-\w["'],\s*)?["'](--[A-Za-z][\w-]*)["']""")
_FIELD = re.compile(r"(?:    |\t)([A-Za-z_][A-Za-z0-9_]*)[ \t]*:[ \t]*([^\s].*)")


class Declared(NamedTuple):
    """A field: its file (absolute, posix) and its annotation, with the rest of the line."""

    path: str
    text: str


class Script(NamedTuple):
    """A Python file: the argument `parsers` that it makes, whether it loads YAML by itself, and whether it loads a JSON
    file that it names. `path`: absolute, posix. OmegaConf counts as a parser where it reads the file for another."""

    path: str
    text: bytes
    parsers: frozenset[str]
    reads_yaml: bool
    reads_json: bool = False


class Python(NamedTuple):
    """`fields` of all dataclasses and of pydantic's models by name, and options of argparse and click by their flags
    (`--epochs`, with `_` for `-`); `scripts` that may read a config, as far as MOST_BYTES_OF_SCRIPTS goes.

    `filled`: arguments that a `__post_init__` tests for None, to replace them. `templates`: chat templates that a copy
    of LLaMA-Factory registers. `refusals`: the messages of errors that its argument classes raise. `compared`:
    (argument, word) of comparisons in the code, ("adapter", "llora"). `calls_deepspeed`: programs call
    `deepspeed.initialize` themselves, and none trains with transformers, TRL or accelerate; `leaves_deepspeed`: the
    other way round. `fills_context`: an agent loop writes completions up to the engine's `max_model_len`.
    """

    fields: Mapping[str, list[Declared]]
    scripts: tuple[Script, ...] = ()
    filled: frozenset[str] = frozenset()
    templates: frozenset[str] = frozenset()
    refusals: frozenset[str] = frozenset()
    compared: frozenset[tuple[str, str]] = frozenset()
    calls_deepspeed: bool = False
    leaves_deepspeed: bool = False
    fills_context: bool = False

    @property
    def parsers(self) -> frozenset[str]:
        """The argument parsers that the scripts make."""
        return frozenset[str]().union(*(script.parsers for script in self.scripts))


def survey(paths: Iterable[str], read: Callable[[str], bytes]) -> Python:
    """The facts in the files at `paths`, up to a bound. Files that cannot be read or are too large are skipped."""
    found: dict[str, list[Declared]] = {}
    scripts: list[Script] = []
    filled: set[str] = set()
    templates: set[str] = set()
    refusals: set[str] = set()
    compared: set[tuple[str, str]] = set()
    calls_deepspeed = has_loop = fills_context = False
    room, room_of_scripts = MOST_BYTES_IN_ALL, MOST_BYTES_OF_SCRIPTS
    for path in paths:
        try:
            data = read(path)
        except OSError:
            continue
        if len(data) > MOST_BYTES:
            continue
        room -= len(data)
        if room < 0:
            break
        script = as_script(path, data)
        if _may_read(script) and len(data) <= room_of_scripts:
            room_of_scripts -= len(data)
            scripts.append(script)
        for name, text in declared(data):
            found.setdefault(name, []).append(Declared(path, text))
        if b"def __post_init__" in data:
            filled |= {name.decode() for name in _FILLED.findall(data)}
        if b"register_template(" in data:
            templates |= {name.decode() for name in _TEMPLATE.findall(data)}
        if "/hparams/" in path:
            refusals |= {words.decode("utf-8", "replace") for words in _REFUSAL.findall(data)}
        compared.update(_compared(data))
        calls_deepspeed = calls_deepspeed or _OWN_ENGINE in data
        fills_context = fills_context or (b".max_model_len" in data and _AGENT_LOOP.search(data) is not None)
        has_loop = has_loop or _HUGGING_FACE.search(data) is not None
    said = frozenset(filled), frozenset(templates), frozenset(refusals), frozenset(compared)
    who = calls_deepspeed and not has_loop, has_loop and not calls_deepspeed
    return Python(found, tuple(scripts), *said, *who, fills_context)


def converts(script: bytes, key: str) -> bool:
    """Whether the script converts `key` to a number: `float(args.learning_rate)`, `float(config["learning_rate"])`."""
    return re.search(_CONVERTED % re.escape(key.encode("utf-8", "replace")), script) is not None


def _compared(data: bytes) -> Iterator[tuple[str, str]]:
    """(argument, word) of each comparison: `optim == "own"`, `stage in ("own", "other")`."""
    for name, word, words in _COMPARED.findall(data):
        for one in _IN_QUOTES.findall(word or words):
            yield name.decode(), one.decode()


def as_script(path: str, data: bytes) -> Script:
    """A Python file with the facts about how it reads configs."""
    parsers = frozenset(name.decode() for name in _PARSERS if name + b"(" in data)
    if parsers and any(name in data for name in _OMEGACONF) and b".parse_dict(" in data:
        parsers |= {"OmegaConf"}
    reads_yaml = any(name in data for name in _READERS) or _OWN_READER.search(data) is not None
    reads_json = _READS_JSON.search(data) is not None or (b"json.loads(" in data and b".json" in data)
    return Script(path, data, parsers, reads_yaml, reads_json)


def _may_read(script: Script) -> bool:
    """Whether the file may read a config, or names one."""
    reads = script.parsers or script.reads_yaml or script.reads_json
    names = b".yaml" in script.text or b".yml" in script.text
    return bool(reads) or names or _LOADS.search(script.text) is not None


def declared(data: bytes) -> Iterator[tuple[str, str]]:
    """Name and annotation of each field of the dataclasses, or pydantic's models, of a Python file; its options."""
    for name in _OPTION.findall(data):
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
