"""Finds out who reads a config: an argument parser of transformers or TRL, or a program with code of its own.

`train.py` with `TrlParser(...)`, and `accelerate launch train.py --config sft.yaml` in a README, make
ConfigReader("framework", "train.py", {"TrlParser"}) of `sft.yaml`: its keys are TRL's. With `yaml.safe_load(...)` in
place of a parser it is ConfigReader("script", "train.py"): its keys mean what that script makes of them.

Programs are searched as text, never executed. A program is a script with its imports. The evidence that it reads the
config is, strongest first (`_Config.readers`): a command names both; the script names the file or its folder; the
file lies beside a script that loads what its first word names; the script looks up most of the file's keys; commands
give a program the folder's other configs.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice

from memlint._record import NamedTuple
from memlint.formats.base import ConfigReader, Launch
from memlint.repository.launch.index import LaunchIndex
from memlint.repository.launch.pages import OTHER_LANGUAGES, comments
from memlint.repository.reader.program_modules import Sources, module_files, modules
from memlint.repository.reader.python_arguments import Python
from memlint.repository.reader.script import OtherProgram, Script
from memlint.repository.reader.script_index import MOST_KEPT, ScriptIndex

MOST_COMMANDS = 200  # on pages that name one config
MOST_NEAR = 8  # how many programs that name a config's folder are searched with their imports
_CONTINUED = re.compile(r"\\\r?\n")
_SCRIPT = re.compile(r"[\w./-]+\.py\b|(?:(?<=-m )|(?<=--module ))[\w.]+")
_WORD = re.compile(r"[\w.-]+")
_JOINED = rb"""(?:join(?:path)?\([^()\n]*,|/)\s*["']%b["']"""  # `os.path.join(folder, "config.yaml")`
_OPEN = re.compile(r"[{*%]")
_UPWARDS = re.compile(r"^(?:\.{0,2}/)+")
_LAUNCHERS = re.compile(r"\b(?:accelerate|torchrun|deepspeed|torch\.distributed)\b")
# `setattr(args, key, value)` with the items of a file that the script loads: what its own parser got comes first.
_SETS_ATTRIBUTES = re.compile(rb"\bsetattr\(\s*[\w.]+,\s*(?!self)\w+,\s*\w+")
# TRL's parser reads `--config` by itself (trl 1.16.0 scripts/utils.py), that of transformers by these methods.
_PARSES_A_FILE = re.compile(rb"\b(?:TrlParser|H4ArgumentParser)\(|\.parse_(?:json_file|yaml_file|dict)\(")
# A file that whoever starts a program names, without a parser of arguments.
_LOADS_FIRST_WORD = re.compile(rb"\bsys\.argv\[1\]")
_FEWEST_KEYS = 3  # keys of a config that a script must look up to count as its reader
# Arguments that nothing but a program's code gives its model; `**vars(model_args)` gives it all of them.
_OF_MODEL = ("attn_implementation", "dtype")
_GIVES_ALL = re.compile(rb"\b(?:vars|asdict|to_dict)\(|\*\*\s*\w*(?<!kw)args\b|__dict__")


class ConfigReaders:
    """Finds out who reads the configs of one repository, each once.

    `python`: what the repository's Python files say. `index`: its launch commands. All paths are relative to the
    repository's root.
    """

    def __init__(self, python: Python, sources: Sources, index: LaunchIndex) -> None:
        self.scripts = ScriptIndex(python, sources)
        self.index = index
        self.loading = lru_cache(MOST_KEPT)(self._loading)
        self._reader = lru_cache(MOST_KEPT)(self._searched)

    def reader_of(self, config: str, keys: frozenset[str], launches: Sequence[Launch], text: str) -> ConfigReader:
        """The reader of the file `config` with these `keys`; an empty `ConfigReader()` without evidence.

        `launches`: the commands that launch it. `text`: its contents, whose comments may show commands.
        """
        if any(launch.launcher == "trl" for launch in launches):
            return ConfigReader("framework", parsers=frozenset({"TrlParser"}))
        return self._reader(config, keys, comments(text))

    def _searched(self, config: str, keys: frozenset[str], own_words: str) -> ConfigReader:
        readers = _Config(config, keys, self.scripts, self.index).readers(own_words)
        return next((found for found in readers if found.kind), ConfigReader())

    def _loading(self, config: str) -> Sequence[Script]:
        """The scripts that load the file `config`: those that name it, and those of programs that commands name with
        it."""
        of = _Config(config, frozenset(), self.scripts, self.index)
        lines = _commands(config, self.index.pages_naming(config))
        programs = (path for line in lines for path in of.programs(line))
        name = posixpath.basename(config)
        naming = (script for script in self.scripts.with_word(name) if name in script.mentioned_files)
        return list(filter(of.loads, chain(naming, modules(programs, self.scripts.sources))))


def _loads_yaml(script: Script) -> bool:
    return script.reads_yaml


def _loads_json(script: Script) -> bool:
    return script.reads_json


class _Config(NamedTuple):
    """A config with its `keys`, and where its reader is searched. `_of_...`: the reader by one kind of evidence."""

    path: str
    keys: frozenset[str]
    scripts: ScriptIndex
    launches: LaunchIndex

    @property
    def is_json(self) -> bool:
        return self.path.endswith(".json")

    @property
    def loads(self) -> Callable[[Script], bool]:
        """Whether a script loads such files."""
        return _loads_json if self.is_json else _loads_yaml

    def readers(self, own_words: str) -> Iterator[ConfigReader]:
        """The reader according to each kind of evidence, strongest first. Naming the folder does not count for JSON, as
        the files of a folder may be data. `own_words`: the config's comments."""
        for line in _commands(self.path, chain((own_words,), self.launches.pages_with(self._stem), self._docstrings())):
            yield from self._of_command(line)
        yield from (self._of_program(start.program) for start in self.launches.starts_with(self.path, own_words))
        yield from map(self._of_program, [script.path for script in self._naming()])
        if not self.is_json:
            near = self._alike(self.scripts.near(self.path))
            yield _one_of(self._of_scripts([script]) for script in near)._replace(is_one_of=True)  # of many files
            yield from map(self._of_program, [script.path for script in near[:MOST_NEAR]])
        yield self._of_first_word()
        yield self._of_keys()
        yield self._of_siblings()
        for name, other in self.launches.others_naming(self.path):
            yield from self._of_other(name, other)

    def _alike(self, scripts: Sequence[Script]) -> list[Script]:
        """Scripts that read a whole folder, first those with words of the config's name: `train_grpo.py` for
        `grpo.yaml`; then those that look up most of its keys."""
        stem = posixpath.basename(self.path).partition(".")[0]
        return sorted(
            scripts, key=lambda one: (stem not in posixpath.basename(one.path), -len(one.keys_read(self.keys)))
        )

    @property
    def _stem(self) -> str:
        return posixpath.basename(self.path).rpartition(".")[0]

    def _docstrings(self) -> Iterator[str]:
        """The docstrings of scripts with the config's name in them: they show how a script is started. All scripts are
        searched when the first is asked for."""
        name = posixpath.basename(self.path)
        yield from (text for text in self.scripts.docstrings if name in text)

    def _naming(self) -> Iterator[Script]:
        """The scripts that name the config. A bare name that one joins to a folder from elsewhere may mean any file of
        that name."""
        named, name = self.scripts.sources.named, posixpath.basename(self.path)
        joined = _JOINED % re.escape(name.encode("utf-8", "replace"))
        for script, words in self.scripts.naming(name):
            is_named = any(_may_mean(word, self.path, named(word, script.path)) for word in words)
            if is_named and (not re.search(joined, script.text) or self.path in named(name, script.path)):
                yield script

    def _of_command(self, line: str) -> Iterator[ConfigReader]:
        """Who reads the config that a command names: the program that it starts comes first."""
        named = self.programs(line)
        yield from (self._of_program(path, is_given=True) for path in named)
        if _LAUNCHERS.search(line) and (named or _SCRIPT.search(line)):
            yield ConfigReader("framework")

    def programs(self, line: str) -> list[str]:
        """The programs of the repository that a command names."""
        commands = self.scripts.sources.commands
        words = [*_SCRIPT.findall(line), *(commands[word] for word in _WORD.findall(line) if word in commands)]
        return [path for word in words for path in self._program(word)]

    def _program(self, word: str) -> Iterable[str]:
        """The files of a script or module that a command names; packages may lie below `src/`."""
        named = self.scripts.sources.named
        for path in (word,) if word.endswith(".py") else module_files(word):
            found = named(path, self.path) or named(f"src/{path}", self.path)
            if found:
                return found
        return ()

    def _of_program(self, path: str, is_given: bool = False) -> ConfigReader:
        """How a program with its imported modules reads the config. `is_given`: a command passes it the config, so that
        it certainly reads the file."""
        found = self.scripts.program(path)
        own = self._of_scripts(found[:1], is_given)
        reader = own if own.kind else self._of_scripts(found[1:], is_given)
        if reader.kind == "script":
            reader = reader._replace(path=found[0].path)  # a module that it imports may load other files too
        return self._with_traits(reader, found)

    def _with_traits(self, reader: ConfigReader, program: Sequence[Script]) -> ConfigReader:
        """`reader` with further facts about how the program's modules use the config."""
        if not reader.kind:
            return reader
        read = frozenset[str]().union(*(script.keys_asked_for(self.keys) for script in program))
        reader = reader._replace(reads=read)
        adapts = any(b"LoraConfig(" in script.text for script in program)
        if reader.kind == "script":
            return reader._replace(makes_adapter=adapts, names=_frameworks(program))
        makes_adapter = adapts and not any(b"use_peft" in script.text for script in program)
        return reader._replace(makes_adapter=makes_adapter, leaves_out=_left_out(program))

    def _of_scripts(self, tied: Sequence[Script], is_given: bool = False) -> ConfigReader:
        """The reader among scripts that are tied to the config. One with an argument parser outweighs the others,
        unless the program loads such files itself and sets what it finds in them on its arguments."""
        for script in tied:
            if script.parsers and not self._sets_arguments(script):
                return ConfigReader("framework", script.path, script.parsers, script.has_own_trainer)
        any_loads = is_given or self.scripts.has_loader(self.loads)
        for script in tied:
            if self.loads(script) or (any_loads and len(script.keys_read(self.keys)) >= _FEWEST_KEYS):
                own = script.has_own_trainer
                return ConfigReader("script", script.path, has_own_trainer=own, names=_frameworks(tied))
        return ConfigReader()

    def _sets_arguments(self, script: Script) -> bool:
        """Whether a program sets the values of such files on the arguments that its parser got from elsewhere. A helper
        may do that where the parser is given no file: HfArgumentParser reads one by `_PARSES_A_FILE` alone."""
        program = (script,) if _PARSES_A_FILE.search(script.text) else self.scripts.program(script.path)
        return any(self.loads(one) and _SETS_ATTRIBUTES.search(one.text) for one in (script, *program))

    def _of_keys(self) -> ConfigReader:
        """The script that reads most of the file's keys one by one; a module that it imports may load the file. One
        that loads such files by itself comes first, then the one whose folder is nearest to the config's."""
        fewest = max(_FEWEST_KEYS, (len(self.keys) + 1) // 2)

        def reader(script: Script) -> ConfigReader:
            if not any(map(self.loads, (script, *self.scripts.program(script.path)))):
                return ConfigReader()
            own = script.has_own_trainer
            return ConfigReader("script", script.path, has_own_trainer=own, names=script.frameworks)

        reading = self.scripts.reading(self.keys, fewest)
        ordered = sorted(reading, key=lambda script: (not self.loads(script), _steps_between(self.path, script.path)))
        return _one_of(map(reader, ordered))

    def _of_first_word(self) -> ConfigReader:
        """The program beside the config that loads the file that its first word names: `main(sys.argv[1])`."""
        folder = posixpath.dirname(self.path)
        beside = (one for one in self.scripts.scripts if posixpath.dirname(one.path) == folder)
        readers = (one for one in beside if self.loads(one) and _LOADS_FIRST_WORD.search(one.text))
        return _one_of(self._of_program(one.path, is_given=True) for one in readers)

    def _of_siblings(self) -> ConfigReader:
        """The program with an argument parser that commands give the other configs of the folder."""
        folder, name = posixpath.split(self.path)
        suffix = posixpath.splitext(name)[1]
        sibling = rf"(?<![\w/]){re.escape(folder)}/[\w.-]+{re.escape(suffix)}\b"
        pages = self.launches.pages_with(f"{folder}/") if folder else ()
        lines = (line for page in pages for line in _CONTINUED.sub(" ", page).splitlines())
        lines = (line for line in lines if re.search(sibling, line))
        programs = dict.fromkeys(path for line in islice(lines, MOST_COMMANDS) for path in self.programs(line))
        readers = [self._of_program(path, is_given=True) for path in islice(programs, MOST_NEAR)]
        return _one_of(readers) if readers and all(one.parsers for one in readers) else ConfigReader()

    def _of_other(self, name: str, text: str) -> Iterator[ConfigReader]:
        """Who reads the config that a file of another kind names: the programs that it starts, or itself."""
        is_program = name.endswith(OTHER_LANGUAGES)
        if not is_program:
            yield from self._of_command(text)
        yield self._of_scripts([(OtherProgram if is_program else Script)(name, text.encode())])


def _one_of(readers: Iterable[ConfigReader]) -> ConfigReader:
    """The reader among scripts that nothing but their words ties to the config. One with an argument parser outweighs
    the others; of several by themselves, nothing tells which reads the file."""
    found = [one for one in readers if one.kind]
    parser = next((one for one in found if one.kind == "framework"), None)
    return parser or (found[0]._replace(is_one_of=len(found) > 1) if found else ConfigReader())


def _steps_between(one: str, other: str) -> int:
    """How many folders lie between two files: up to the folder that holds both, and down again."""
    way = posixpath.relpath(posixpath.dirname(f"/{one}"), posixpath.dirname(f"/{other}"))
    return 0 if way == "." else len(way.split("/"))


def _frameworks(scripts: Iterable[Script]) -> frozenset[str]:
    """The frameworks that these scripts name."""
    return frozenset[str]().union(*(script.frameworks for script in scripts))


def _left_out(scripts: Sequence[Script]) -> frozenset[str]:
    """The model arguments that a program's code never passes to the model."""
    if any(_GIVES_ALL.search(script.text) for script in scripts):
        return frozenset()
    return frozenset(key for key in _OF_MODEL if not any(key.encode() in one.text for one in scripts))


def _commands(config: str, pages: Iterable[str]) -> Iterator[str]:
    """Lines that name the config, each with its continuation lines. Hydra's options name it without its suffix."""
    name = posixpath.basename(config)
    stem = name.rpartition(".")[0]
    lines = (line for page in pages if stem in page for line in _CONTINUED.sub(" ", page).splitlines())
    named = rf"{re.escape(name)}|(?:--config-name|-cn)[= ]{re.escape(stem)}(?![\w.])"
    return islice((line for line in lines if stem in line and re.search(named, line)), MOST_COMMANDS)


def _may_mean(word: str, config: str, found: Collection[str]) -> bool:
    """Whether a path in a script may mean the config. `found`: the files that it names from the script's folder or one
    above it. If there are none, the script may use another working folder, so that only the ends of both are
    compared."""
    if found:
        return config in found
    if _OPEN.search(word):
        return posixpath.basename(word) == posixpath.basename(config)
    path, whole = f"/{_UPWARDS.sub('', word)}", f"/{config}"
    return path.endswith(whole) or whole.endswith(path)
