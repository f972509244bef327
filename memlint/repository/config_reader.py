"""Finds out who reads a config: an argument parser of transformers or TRL, or a program with code of its own.

Programs are searched as text, never executed. A program is a script with its imports. The evidence that it reads the
config is, strongest first: a command names both; the script names the file or its folder; the script looks up most of
the file's keys.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, islice

from memlint._record import NamedTuple
from memlint.formats.base import ConfigReader, Launch
from memlint.repository.launch.pages import OTHER_LANGUAGES
from memlint.repository.program_modules import Sources, module_files, modules
from memlint.repository.python_arguments import Script, as_script

MOST_COMMANDS = 200  # on pages that name one config
MOST_NEAR = 8  # how many programs that name a config's folder are searched with their imports
_CONTINUED = re.compile(r"\\\r?\n")
_SCRIPT = re.compile(r"[\w./-]+\.py\b|(?:(?<=-m )|(?<=--module ))[\w.]+")
_WORD = re.compile(r"[\w.-]+")
_QUOTED = re.compile(rb"""["']([^"'\n]{1,200})["']""")
_LOOKED_UP = rb"""(?:\[|\.get\(\s*)["'](%b)["']|\b(?:cfg|config|conf)\.(?:\w+\.)?(%b)\b"""
_ASKED_FOR = rb"""["'](%b)["'][ \t]+in\b"""
_JOINED = rb"""(?:join\([^()\n]*,|/)\s*["']%b["']"""  # `os.path.join(folder, "config.yaml")`
_FILE_IN_FOLDER = re.compile(rb"""["'][^"'\n]{1,200}["']\s*[,/]\s*["']([\w.-]+\.(?:ya?ml|json|toml))["']""")
_FOLDER_IN_FOLDER = re.compile(rb"""(?<=[\w.-])["'] / ["'](?=[\w.-])""")  # `root / "games" / "configs"`
_HYDRA = b"hydra.main"
_OPEN = re.compile(r"[{*%]")
_UPWARDS = re.compile(r"^(?:\.{0,2}/)+")
_LAUNCHERS = re.compile(r"\b(?:accelerate|torchrun|deepspeed|torch\.distributed)\b")
_LOADS = re.compile(r"(?i)yaml|json|toml")  # of a program in another language
_SPLITS = frozenset(("train", "test", "eval", "dev", "validation", "data"))  # words for parts of a data set
_FEWEST_KEYS = 3  # keys of a config that a script must look up to count as its reader
# Frameworks that a program may hand a file to, by the words that it has for them.
# Arguments that nothing but a program's code gives its model; `**vars(model_args)` gives it all of them.
_OF_MODEL = ("attn_implementation", "dtype")
_GIVES_ALL = re.compile(rb"\b(?:vars|asdict|to_dict)\(|\*\*\s*\w*(?<!kw)args\b|__dict__")
_FRAMEWORKS = {"llamafactory": re.compile(rb"(?i)llama.?factory"), "axolotl": re.compile(rb"(?i)axolotl")}


class Commands(NamedTuple):
    """The commands that use a config. `pages`: the config's comments, and texts of shell scripts, Makefiles and
    Markdown.

    `starts()`: the programs that commands start with the config, found by following the shell. `others()`: (name, text)
    of other files that name the config: those with commands as lists or steps, and programs in other languages.
    """

    pages: Iterable[str]
    starts: Callable[[], Iterable[str]]
    others: Callable[[], Iterable[tuple[str, str]]]


def reader_of(
    config: str,
    keys: Collection[str],
    launches: Sequence[Launch],
    commands: Commands,
    scripts: Sequence[Script],
    sources: Sources,
) -> ConfigReader:
    """The reader of the file `config` with these `keys`; an empty `ConfigReader()` without evidence.

    `launches`: the commands that launch it. `scripts`: the repository's Python files that parse arguments, or load YAML
    or JSON. All paths are relative to the repository's root.
    """
    if any(launch.launcher == "trl" for launch in launches):
        return ConfigReader("framework", parsers=frozenset({"TrlParser"}))
    is_json = config.endswith(".json")
    loads = _loads_json if is_json else _loads_yaml
    readers = _Config(config, keys, scripts, sources, loads).readers(commands, by_folder=not is_json)
    return next((found for found in readers if found.kind), ConfigReader())


def loading(config: str, pages: Iterable[str], scripts: Iterable[Script], sources: Sources) -> Iterator[Script]:
    """The scripts that load the file `config`: those that name it, and those of programs that commands name with it."""
    loads = _loads_json if config.endswith(".json") else _loads_yaml
    name = posixpath.basename(config).encode("utf-8", "replace")
    of = _Config(config, (), (), sources, loads)
    programs = (path for line in _commands(config, pages) for path in of.programs(line))
    naming = (script for script in scripts if name in script.text)
    return filter(loads, chain(naming, modules(programs, sources)))


def _loads_yaml(script: Script) -> bool:
    return script.reads_yaml


def _loads_json(script: Script) -> bool:
    return script.reads_json


class _Config(NamedTuple):
    """A config, and the repository in which its reader is searched. `loads`: whether a script loads such files."""

    path: str
    keys: Collection[str]
    scripts: Sequence[Script]
    sources: Sources
    loads: Callable[[Script], bool]

    def readers(self, commands: Commands, by_folder: bool) -> Iterator[ConfigReader]:
        """The reader according to each kind of evidence, strongest first. `by_folder`: whether naming the folder
        counts; not for JSON, as the files of a folder may be data."""
        for line in _commands(self.path, commands.pages):
            yield from self._of_command(line)
        yield from map(self._of_program, commands.starts())
        naming = (script for script in self.scripts if self._is_named(script))
        yield from map(self._of_program, [script.path for script in naming])
        if by_folder:
            near = _alike([one for one in self.scripts if _names_folder(one, self.path)], self.path)
            yield _one_of(self._of_scripts([script]) for script in near)
            yield from map(self._of_program, [script.path for script in near[:MOST_NEAR]])
        yield self._of_keys()
        for name, text in commands.others():
            yield from self._of_other(name, text)

    def _is_named(self, script: Script) -> bool:
        """Whether the script names the config. A bare name that it joins to a folder from elsewhere may mean any file
        of that name."""
        if not _names_file(script, self.path, self.sources.named):
            return False
        name = posixpath.basename(self.path)
        is_joined = re.search(_JOINED % re.escape(name.encode("utf-8", "replace")), script.text) is not None
        return not is_joined or self.path in self.sources.named(name, script.path)

    def _of_command(self, line: str) -> Iterator[ConfigReader]:
        """Who reads the config that a command names: the program that it starts comes first."""
        named = self.programs(line)
        yield from (self._of_program(path, is_given=True) for path in named)
        if _LAUNCHERS.search(line) and (named or _SCRIPT.search(line)):
            yield ConfigReader("framework")

    def programs(self, line: str) -> list[str]:
        """The programs of the repository that a command names."""
        commands = self.sources.commands
        words = [*_SCRIPT.findall(line), *(commands[word] for word in _WORD.findall(line) if word in commands)]
        return [path for word in words for path in self._program(word)]

    def _program(self, word: str) -> Iterable[str]:
        """The files of a script or module that a command names; packages may lie below `src/`."""
        for path in (word,) if word.endswith(".py") else module_files(word):
            found = self.sources.named(path, self.path) or self.sources.named(f"src/{path}", self.path)
            if found:
                return found
        return ()

    def _of_program(self, path: str, is_given: bool = False) -> ConfigReader:
        """How a program with its imported modules reads the config. `is_given`: a command passes it the config, so that
        it certainly reads the file."""
        found = list(modules([path], self.sources))
        own = self._of_scripts(found[:1], is_given)
        reader = own if own.kind else self._of_scripts(found[1:], is_given)
        return self._with_traits(reader, found)

    def _with_traits(self, reader: ConfigReader, program: Sequence[Script]) -> ConfigReader:
        """`reader` with further facts about how the program's modules use the config."""
        if not reader.kind:
            return reader
        read = {key.decode("utf-8", "replace") for script in program for key in _keys_asked_for(script, self.keys)}
        reader = reader._replace(reads=frozenset(read))
        if reader.kind == "script":
            return reader._replace(names=_frameworks(program))
        text = b"\n".join(script.text for script in program)
        makes_adapter = b"LoraConfig(" in text and b"use_peft" not in text
        return reader._replace(makes_adapter=makes_adapter, leaves_out=_left_out(program))

    def _of_scripts(self, tied: Sequence[Script], is_given: bool = False) -> ConfigReader:
        """The reader among scripts that are tied to the config. One with an argument parser outweighs the others."""
        for script in tied:
            if script.parsers:
                return ConfigReader("framework", script.path, script.parsers, has_own_trainer(script.text))
        any_loads = is_given or any(self.loads(script) and not script.parsers for script in self.scripts)
        for script in tied:
            if self.loads(script) or (any_loads and len(_keys_read(script, self.keys)) >= _FEWEST_KEYS):
                own = has_own_trainer(script.text)
                return ConfigReader("script", script.path, has_own_trainer=own, names=_frameworks(tied))
        return ConfigReader()

    def _of_keys(self) -> ConfigReader:
        """The script that reads most of the file's keys one by one; a module that it imports may load the file. Scripts
        that load such files by themselves come first."""
        fewest = max(_FEWEST_KEYS, (len(self.keys) + 1) // 2)

        def reader(script: Script) -> ConfigReader:
            reads = not script.parsers and len(_keys_read(script, self.keys)) >= fewest
            if not reads or not any(map(self.loads, (script, *modules([script.path], self.sources)))):
                return ConfigReader()
            own = has_own_trainer(script.text)
            return ConfigReader("script", script.path, has_own_trainer=own, names=_frameworks([script]))

        return _one_of(map(reader, sorted(self.scripts, key=lambda script: not self.loads(script))))

    def _of_other(self, name: str, text: str) -> Iterator[ConfigReader]:
        """Who reads the config that a file of another kind names: the programs that it starts, or itself."""
        script = as_script(name, text.encode())
        if name.endswith(OTHER_LANGUAGES):
            loads = _LOADS.search(text) is not None
            script = script._replace(parsers=frozenset(), reads_yaml=loads, reads_json=loads)
        else:
            yield from self._of_command(text)
        yield self._of_scripts([script])


def _one_of(readers: Iterable[ConfigReader]) -> ConfigReader:
    """The reader among scripts that nothing but their words ties to the config. One with an argument parser outweighs
    the others; of several by themselves, nothing tells which reads the file."""
    found = [one for one in readers if one.kind]
    parser = next((one for one in found if one.kind == "framework"), None)
    return parser or (found[0]._replace(is_one_of=len(found) > 1) if found else ConfigReader())


def _frameworks(scripts: Iterable[Script]) -> frozenset[str]:
    """The frameworks that these scripts name."""
    texts = [script.text for script in scripts]
    return frozenset(name for name, word in _FRAMEWORKS.items() if any(map(word.search, texts)))


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


def _keys_asked_for(script: Script, keys: Collection[str]) -> set[bytes]:
    """The keys that the script looks up, or asks for: `"key" in config`."""
    words = b"|".join(re.escape(key.encode("utf-8", "replace")) for key in keys)
    asked = set(re.findall(_ASKED_FOR % words, script.text)) if words else set()
    return asked | _keys_read(script, keys)


_TRAINER = re.compile(rb"\b(\w*Trainer)\s*\(")
# transformers 5.23.0 and trl 1.16.0.
_TRAINERS = re.compile(rb"(?:Seq2Seq|SFT|DPO|KTO|ORPO|CPO|GRPO|RLOO|Reward|PPO|OnlineDPO|GKD|PRM|BCO)?Trainer")


def has_own_trainer(script: bytes) -> bool:
    """Whether all trainers that a script makes are classes of other names than those of transformers and TRL."""
    names = _TRAINER.findall(script)
    return bool(names) and not any(map(_TRAINERS.fullmatch, names))


def _names_file(script: Script, config: str, named: Callable[[str, str], Collection[str]]) -> bool:
    name = posixpath.basename(config).encode()
    words = {word.decode("utf-8", "replace") for word in _QUOTED.findall(script.text) if word.endswith(name)}
    return any(_may_mean(word, config, named(word, script.path)) for word in words)


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


def _names_folder(script: Script, config: str) -> bool:
    """Whether the script names the config's folder, or a pattern of files in it.

    A path of another file in the folder does not count, whole or in parts (`join("configs", "app.yaml")`), nor does a
    folder with a name such as "train" or "test". For Hydra, all folders below the named one count, relative to the
    script.
    """
    folder = posixpath.dirname(config)
    if not folder or (folder.encode("utf-8", "replace") not in script.text and _HYDRA not in script.text):
        return False
    beside = posixpath.dirname(script.path)
    name = posixpath.basename(config).encode("utf-8", "replace")
    texts = _FILE_IN_FOLDER.sub(lambda match: match[0] if match[1] == name else b"", script.text)
    texts = _FOLDER_IN_FOLDER.sub(b"/", texts)
    for word in _QUOTED.findall(texts):
        text = word.decode("utf-8", "replace").removeprefix("./").rstrip("/")
        if (text == folder and text not in _SPLITS) or (text.startswith(f"{folder}/") and _OPEN.search(text)):
            return True
        if _HYDRA in script.text and text and _lies_below(folder, posixpath.normpath(posixpath.join(beside, text))):
            return True
    return False


def _alike(scripts: Sequence[Script], config: str) -> list[Script]:
    """Scripts that read a whole folder, first those with words of the config's name: `train_grpo.py` for
    `grpo.yaml`."""
    stem = posixpath.basename(config).partition(".")[0]
    return sorted(scripts, key=lambda script: stem not in posixpath.basename(script.path))


def _lies_below(folder: str, top: str) -> bool:
    """Whether `top` ends with the folder or with one above it."""
    parts = folder.split("/")
    return any(f"/{top}".endswith("/" + "/".join(parts[: end + 1])) for end in range(len(parts)))


def _keys_read(script: Script, keys: Collection[str]) -> set[bytes]:
    """The keys that the script looks up: `config["key"]`, `config.get("key")`, `config.key`."""
    words = b"|".join(re.escape(key.encode("utf-8", "replace")) for key in keys)
    if not words:
        return set()
    return {one or other for one, other in re.findall(_LOOKED_UP % (words, words), script.text)}
