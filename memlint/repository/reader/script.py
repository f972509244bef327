"""A Python file as text: how it may read a config, and the words that tie it to one. It is never executed.

Each fact is searched once, when it is first asked for: a repository has many scripts, and a config is tied to few. A
regular expression is only run on a text that has one of its words, which is found far faster.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Mapping
from functools import cached_property

_PARSERS = ("TrlParser", "HfArgumentParser", "H4ArgumentParser")
_CALLS_OF_PARSERS = tuple((name, f"{name}(".encode()) for name in _PARSERS)
# With one of those parsers and its `parse_dict`, this reads the file: `1e-5` is a number for it.
_OMEGACONF = (b"OmegaConf.load(", b"hydra.main(")
# Functions and libraries that read YAML for a program with code of its own for the keys.
_READERS = (
    *(b"safe_load(", b"full_load(", b"yaml.load(", b"YAML(", b"OmegaConf.load(", b"hydra.main("),  # and unsafe_load
    *(b"from_yaml(", b"load_yaml(", b"read_yaml(", b"parse_yaml_file_as(", b"YamlConfigSettingsSource", b"loadfn("),
    *(b"merge_from_file(", b"load_cfg(", b"Config.fromfile(", b"Dynaconf(", b"anyconfig.load(", b"LightningCLI("),
    *(b"from hydra import", b"from jsonargparse", b"import jsonargparse", b"simple_parsing", b"import draccus"),
    *(b"import pyrallis", b"import configargparse"),
)
_LOADS = re.compile(rb"\b(?:load|read|get|parse)_(?:config|cfg|yaml)\(")  # by a module of the repository
_LOADED = (b"_config(", b"_cfg(", b"_yaml(")
_OWN_READER = re.compile(rb"def \w*(?:read|load|parse)\w*_ya?ml\w*\(")  # of a program without a library for it
_READS_JSON = re.compile(rb"\bjson\.load\(")
_QUOTED = re.compile(rb"""["']([^"'\n]{1,200})["']""")
_SUFFIX = re.compile(rb"\.(?:ya?ml|json|toml)\b")
_NAME_BEFORE = re.compile(rb"""[^\s"'`/\\=:,;()\[\]{}<>|]+\Z""")  # with the suffix
_LONGEST_NAME = 255
_SUBSCRIPT = re.compile(rb"""\[["']([^"'\n]+)["']""")
_GET = re.compile(rb"""\.get\(\s*["']([^"'\n]+)["']""")
_ATTRIBUTE = re.compile(rb"(?:cfg|config|conf)\.(?=(\w+)(?:\.(\w+))?)")
_ASKED_FOR = re.compile(rb"""["']([^"'\n]+)["'][ \t]+in\b""")
_TRAINER = re.compile(rb"\b(\w*Trainer)\s*\(")
# transformers 5.23.0 and trl 1.16.0.
_TRAINERS = re.compile(rb"(?:Seq2Seq|SFT|DPO|KTO|ORPO|CPO|GRPO|RLOO|Reward|PPO|OnlineDPO|GKD|PRM|BCO)?Trainer")
# Frameworks that a program may hand a file to, by the words that it has for them.
_FRAMEWORKS = {"llamafactory": re.compile(rb"(?i)llama.?factory"), "axolotl": re.compile(rb"(?i)axolotl")}
_LOADS_IN_ANY_LANGUAGE = re.compile(rb"(?i)yaml|json|toml")


class Script:
    """The Python file at `path` with the contents `text`."""

    def __init__(self, path: str, text: bytes) -> None:
        self.path = path
        self.text = text

    @cached_property
    def parsers(self) -> frozenset[str]:
        """The argument parsers that it makes. OmegaConf counts as one where it reads the file for another."""
        found = frozenset(name for name, call in _CALLS_OF_PARSERS if call in self.text)
        reads = found and any(name in self.text for name in _OMEGACONF) and b".parse_dict(" in self.text
        return found | {"OmegaConf"} if reads else found

    @cached_property
    def reads_yaml(self) -> bool:
        """Whether it loads YAML by itself."""
        return any(name in self.text for name in _READERS) or _OWN_READER.search(self.text) is not None

    @cached_property
    def reads_json(self) -> bool:
        """Whether it loads a JSON file that it names."""
        loads = b"json.load(" in self.text and _READS_JSON.search(self.text) is not None
        return loads or (b"json.loads(" in self.text and b".json" in self.text)

    @cached_property
    def may_read(self) -> bool:
        """Whether the file may read a config, or names one."""
        reads = self.parsers or self.reads_yaml or self.reads_json
        names = b".yaml" in self.text or b".yml" in self.text
        loads = any(word in self.text for word in _LOADED) and _LOADS.search(self.text) is not None
        return bool(reads) or names or loads

    @cached_property
    def named_files(self) -> Mapping[str, tuple[str, ...]]:
        """Last part of a path in quotes -> the paths in quotes that end with it. Words without a dot are left out."""
        found: dict[str, tuple[str, ...]] = {}
        for word in set(_QUOTED.findall(self.text)):
            path = word.decode("utf-8", "replace")
            name = posixpath.basename(path)
            if "." in name:
                found[name] = (*found.get(name, ()), path)
        return found

    @cached_property
    def mentioned_files(self) -> frozenset[str]:
        """The names of the YAML, JSON and TOML files that stand in its text, in quotes or not."""
        ends = (match.end() for match in _SUFFIX.finditer(self.text))
        names = (_NAME_BEFORE.search(self.text, max(0, end - _LONGEST_NAME), end) for end in ends)
        return frozenset(_decoded(name[0]) for name in names if name)

    @cached_property
    def words_read(self) -> frozenset[str]:
        """The words that the script may look up in something: `any["word"]`, `any.get("word")`, `config.word`."""
        pairs = (word for pair in self._attributes for word in pair)
        return self._subscripts.union(pairs)

    @cached_property
    def _subscripts(self) -> frozenset[str]:
        return frozenset(map(_decoded, (*_SUBSCRIPT.findall(self.text), *_GET.findall(self.text))))

    @cached_property
    def _attributes(self) -> frozenset[tuple[str, str]]:
        """(`first`, `second`) of `config.first.second`."""
        found = (match for match in _ATTRIBUTE.finditer(self.text) if not _continues_word(self.text, match.start()))
        return frozenset((_decoded(match[1]), _decoded(match[2] or b"")) for match in found)

    def keys_read(self, keys: Collection[str]) -> set[str]:
        """The keys that the script looks up: `config["key"]`, `config.get("key")`, `config.key`, `config.any.key`."""
        last = {second if second in keys else first for first, second in self._attributes}
        return {key for key in keys if key in self._subscripts or key in last}

    @cached_property
    def _asked_for(self) -> frozenset[str]:
        return frozenset(map(_decoded, _ASKED_FOR.findall(self.text)))

    def keys_asked_for(self, keys: Collection[str]) -> set[str]:
        """The keys that the script looks up, or asks for: `"key" in config`."""
        return self.keys_read(keys) | self._asked_for.intersection(keys)

    @cached_property
    def frameworks(self) -> frozenset[str]:
        """The frameworks that the script names."""
        return frozenset(name for name, word in _FRAMEWORKS.items() if word.search(self.text))

    @cached_property
    def has_own_trainer(self) -> bool:
        return has_own_trainer(self.text)


class OtherProgram(Script):
    """A program in another language, which has none of Python's parsers. It loads what it has a word for."""

    @cached_property
    def parsers(self) -> frozenset[str]:
        return frozenset()

    @cached_property
    def reads_yaml(self) -> bool:
        return _LOADS_IN_ANY_LANGUAGE.search(self.text) is not None

    @cached_property
    def reads_json(self) -> bool:
        return self.reads_yaml


def has_own_trainer(text: bytes) -> bool:
    """Whether all trainers that a script makes are classes of other names than those of transformers and TRL."""
    names = _TRAINER.findall(text) if b"Trainer" in text else []
    return bool(names) and not any(map(_TRAINERS.fullmatch, names))


def quoted(text: bytes) -> list[str]:
    """The words in quotes of a script."""
    return [_decoded(word) for word in _QUOTED.findall(text)]


def _decoded(word: bytes) -> str:
    return word.decode("utf-8", "replace")


def _continues_word(text: bytes, at: int) -> bool:
    """Whether a letter, a digit or `_` stands before the place: `mycfg.key` is no `cfg.key`."""
    before = text[at - 1 : at]
    return before == b"_" or before.isalnum()
