"""Finds the script that reads a config with keys of its own, and the runs that the script makes from it.

A config belongs to a script that loads it without arguments, or that takes a config on its command line and makes a run
with values of this one.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice

from memlint.repository.python.config_texts import MIN_KEYS
from memlint.repository.python.documents import PythonRepository, documents, may_train
from memlint.repository.python.readers import DECIDES, FileReading, chosen, disagreements, unread, with_places
from memlint.source.document import Document
from memlint.source.layout import shared_steps
from memlint.source.python.members import MISSING

MAX_SCRIPTS = 24  # scripts of a repository that are followed for its configs
MAX_TEXTS = 256  # texts of modules that are cached between configs
MAX_READERS = 4  # scripts that read one file and are compared in messages
MAX_UNREAD = 8  # files that give a script no run before it is one that reads none
MAX_VAIN = 4  # files alike, such as each run's `results.json`, that a script takes no values of
# A file that Hydra composes with others (1.3 docs, "The Defaults List"): no other script loads it.
_OF_HYDRA = re.compile(r"^defaults:\s*$", re.MULTILINE)
# A quick test of a script or its imports: it loads such files.
_LOADS = re.compile(r"yaml\.|OmegaConf|json\.load|toml|hydra|config", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z_]\w+")
_HANDED_ON = re.compile(r"""\*\*\s*[\w.]*(?:\.|\[["'])(\w+)(?:["']\])?\s*[,)]""")  # `Trainer(**config["trainer"])`
_OF_ANY_FILE = frozenset(
    ("", "train", "training", "run", "main", "config", "configs", "cfg", "base", "default", "full")
)


class ConfigIndex:
    """The scripts of a repository that may read configs. They are searched at the first use."""

    def __init__(self, repository: PythonRepository, python: Callable[[], Iterable[str]]) -> None:
        self._repository = repository._replace(read=_remembered(repository.read))
        self._python = python
        self._scripts: list[tuple[str, str]] | None = None
        self._words: tuple[frozenset[str], frozenset[str]] | None = None
        # (script, suffix) -> the files that it always loads, for a script that ignores the file on its command line.
        self._only_loads: dict[tuple[str, str], frozenset[str]] = {}
        # (script, one of `_kinds`) -> files that gave it no run
        self._vain: Counter[tuple[str, str | frozenset[str]]] = Counter()
        self._reads: set[str] = set()  # the scripts that made a run of some file
        self._followed: Counter[str] = Counter()  # script -> files that it was followed for

    def documents(self, path: str, text: str) -> tuple[Document, ...]:
        """The runs that a script makes from the config at `path` (below the root), which has this `text`; () if no
        script does."""
        if self._scripts == []:  # searched already, and there are none
            return ()
        told = [one.program for one in self._repository.starts_with(path)]
        named = [(one, code) for one in dict.fromkeys(told) if (code := self._program(one)) is not None]
        if not named and any(_words_of(one) & _words_of(path) for one in told):
            return ()  # a program of that name reads the file, but does not train
        if _OF_HYDRA.search(text):
            others = [(script, code) for script, code in self._nearest(path) if "hydra" in code]
        else:
            keys = self._keys(path)
            others = [
                (script, code)
                for script, code in self._nearest(path)
                if not _fails_at(code, keys) and not _names_another(code, path) and not self._has_another(script, path)
            ]
        # Scripts that contain the name of this file come first: another script may read its own default instead.
        naming = [one for one in others if posixpath.basename(path) in one[1]]
        alike = [one for one in others if _words_of(one[0]) & _words_of(path)]
        seen: set[str] = set()  # scripts that make no run of the file
        for scripts in (named,) if named else (naming, *(_of_folder(group, path) for group in (alike, others))):
            new = (one for one in scripts if one[0] not in seen)
            found = tuple(islice(self._readings(new, path, lacks_nothing=not named), MAX_READERS))
            if found and not named and scripts is not naming and _have_files_of_their_own(found, dict(scripts)):
                return ()
            if found:
                return self._with_notes(path, found if named else tuple(_without_copies(found, path)), bool(named))
            seen.update(script for script, _ in scripts)
        return ()

    def _has_another(self, script: str, path: str) -> bool:
        """Whether another file in the folder of `path` has exactly the script's name: `sft_warmup.py`,
        `sft_warmup.yaml`.
        """
        suffix = posixpath.splitext(path)[1]
        own = posixpath.join(posixpath.dirname(path), posixpath.basename(script).removesuffix(".py") + suffix)
        return own != path and self._repository.document(own) is not None

    def _kinds(self, path: str) -> tuple[str | frozenset[str], ...]:
        """What files alike have in common: their name; of JSON, in which runs write their results, the keys at its top.
        A YAML config may differ from others of its keys in the value that chooses the trainer."""
        keys = self._keys(path) if path.endswith(".json") else frozenset()
        return (posixpath.basename(path), keys) if keys else (posixpath.basename(path),)

    def _keys(self, path: str) -> frozenset[str]:
        """The keys at the top of a configuration file."""
        file = self._repository.document(path)
        return frozenset(map(str, file.value)) if file is not None and isinstance(file.value, dict) else frozenset()

    def _program(self, path: str) -> str | None:
        """The text of a program that trains; None for any other."""
        text = self._repository.read(path)
        return text if text is not None and may_train(path, text, self._repository.read) else None

    def _readings(self, scripts: Iterable[tuple[str, str]], path: str, lacks_nothing: bool) -> Iterator[FileReading]:
        """`lacks_nothing`: a file that lacks what a script takes of it is not the script's (a log that it writes)."""
        display = self._repository.display(path)
        for script, code in scripts:
            if lacks_nothing and script not in self._reads and self._followed[script] >= MAX_UNREAD:
                continue
            found = self._runs(script, code, path)
            own = tuple(one for one in found if one.path == display and _values_here(one) >= MIN_KEYS)
            if own and not (lacks_nothing and any(map(_lacks_a_key, own))):
                runs = tuple(one._replace(index=found.index(one), documents=len(found)) for one in own)
                self._reads.add(script)
                yield FileReading(script, runs, _values_here(own[0]))
            else:
                self._vain.update((script, kind) for kind in self._kinds(path))

    def _with_notes(self, path: str, readings: Sequence[FileReading], is_told: bool) -> tuple[Document, ...]:
        """The runs of the chosen reading, with messages about other readings and about unread keys."""
        of = chosen(readings, is_told)
        others = tuple(disagreements(of, readings))
        file = self._repository.document(path)
        keys = {} if file is None else unread(file, of.runs, *self._words_of_scripts())
        first, *more = (with_places(one, keys) for one in of.runs)
        if first.start is not None:
            first = first._replace(
                start=first.start._replace(own_file=first.start.own_file._replace(disagreements=others))
            )
        return (first, *more)

    def _words_of_scripts(self) -> tuple[frozenset[str], frozenset[str]]:
        """The words of all Python of the repository, and the names of the mappings that it hands on whole."""
        if self._words is None:
            read = (self._repository.read(path) for path in self._python())
            texts = [text for text in read if text is not None]
            words = frozenset(word for text in texts for word in _WORD.findall(text))
            self._words = words, frozenset(name for text in texts for name in _HANDED_ON.findall(text))
        return self._words

    def _runs(self, script: str, code: str, path: str) -> tuple[Document, ...]:
        """The runs that a script makes if it is started with the file at `path`; none if it does not load the file.

        Following a script with many imports takes a second: a script that ignores this file is not followed again for
        other files.
        """
        key = script, posixpath.splitext(path)[1]
        if path not in self._only_loads.get(key, (path,)):
            return ()
        if key not in self._only_loads and any(self._vain[script, kind] >= MAX_VAIN for kind in self._kinds(path)):
            return ()
        loaded: set[str] = set()

        def document(name: str) -> Document | None:
            loaded.add(name)
            return self._repository.document(name)

        self._followed[script] += 1
        found = documents(script, code, self._repository._replace(document=document), path)
        if path not in loaded:
            self._only_loads[key] = frozenset(loaded)
        return found

    def _nearest(self, path: str) -> list[tuple[str, str]]:
        """Scripts, first those that name the file, then by how many folders they share with it."""
        name = posixpath.basename(path)
        folders = path.split("/")[:-1]

        def distance(script: tuple[str, str]) -> tuple[bool, int, str]:
            return name not in script[1], -shared_steps(folders, script[0].split("/")), script[0]

        return sorted(self._all(), key=distance)

    def _all(self) -> list[tuple[str, str]]:
        if self._scripts is None:
            self._scripts = list(islice(self._found(), MAX_SCRIPTS))
        return self._scripts

    def _found(self) -> Iterable[tuple[str, str]]:
        for path in self._python():
            text = self._repository.read(path)
            if text is not None and _LOADS.search(text) and may_train(path, text, self._repository.read):
                yield path, text


def _lacks_a_key(run: Document) -> bool:
    """Whether a script takes a value that matters to memory under a key that the file does not have."""
    unknown = run.start.values.unknown if run.start is not None else {}
    return any(why.startswith(MISSING) and DECIDES.match(str(path[0])) for path, why in unknown.items() if path)


# `config = json.load(file)`: the name of the variable for the loaded file.
_LOADED = re.compile(r"^[ \t]*(\w+)[ \t]*=[ \t]*(?:json|yaml|tomllib|tomli|toml)\.\w*load(?!s\b)\w*\(", re.MULTILINE)


def _fails_at(code: str, keys: frozenset[str]) -> bool:
    """Whether a script, which loads one file, would end in KeyError with a file of these `keys`: it takes another key
    (`config["model"]`)."""
    return bool(keys) and not _keys_needed(code) <= keys


@lru_cache(2 * MAX_SCRIPTS)
def _keys_needed(code: str) -> frozenset[str]:
    """The keys that a script takes of the one file that it loads, without those that it tests for or sets."""
    names = set(_LOADED.findall(code))
    if len(names) != 1:
        return frozenset()
    (name,) = names
    quoted = r"""["'](\w+)["']"""
    taken = set(re.findall(rf"(?<![\w.]){name}\[{quoted}\](?!\s*=[^=])", code))
    had = set(re.findall(rf"{quoted}\s+(?:not\s+)?in\s+{name}\b", code))
    had |= set(re.findall(rf"(?<![\w.]){name}\[{quoted}\]\s*=[^=]", code))
    return frozenset(taken - had)


_CONFIG_PATH = re.compile(r"""(?<![\w./-])/?([\w.-]+(?:/[\w.-]+)*)/[\w.-]+\.(?:ya?ml|json|toml)\b""")


def _of_folder(scripts: list[tuple[str, str]], path: str) -> list[tuple[str, str]]:
    """The scripts that name a config in the folder of `path`; all of them if none does.

    For example one with `python sft.py --config configs/a.yaml` in its docstring, but not one whose default is
    `configs_verl/b.yaml`.
    """
    folder = posixpath.dirname(path)
    here = [one for one in scripts if any(f"/{folder}".endswith(f"/{name}") for name in _folders_named(one[1]))]
    return here or scripts


@lru_cache(2 * MAX_SCRIPTS)
def _folders_named(code: str) -> frozenset[str]:
    """The folders of the configuration files that a script names."""
    return frozenset(_CONFIG_PATH.findall(code))


def _have_files_of_their_own(readings: Sequence[FileReading], code: Mapping[str, str]) -> bool:
    """Whether the scripts make different kinds of runs and all name other files, so that the reader is unknown."""
    kinds = {one.runs[0].start.accepted.arguments_class for one in readings if one.runs[0].start is not None}
    return len(kinds) > 1 and all(_CONFIG_PATH.search(code[one.script]) for one in readings)


_HYDRA_NAME = re.compile(r"""@hydra\.main\([^)]*\bconfig_name\s*=\s*["']([\w./-]+)["']""")


def _names_another(code: str, path: str) -> bool:
    """Whether a script's `@hydra.main` names a different file, which Hydra loads without a command (1.3 hydra.main)."""
    name = posixpath.splitext(posixpath.basename(path))[0]
    names = _hydra_names(code)
    return bool(names) and name not in names


@lru_cache(2 * MAX_SCRIPTS)
def _hydra_names(code: str) -> frozenset[str]:
    """The names of the files that Hydra starts a script with."""
    return frozenset(posixpath.basename(one).removesuffix(".yaml") for one in _HYDRA_NAME.findall(code))


def _remembered(read: Callable[[str], str | None]) -> Callable[[str], str | None]:
    """`read` with a cache of the latest texts, and of the many paths where a module could be but is not."""
    texts, missing = lru_cache(MAX_TEXTS)(read), set[str]()

    def text(path: str) -> str | None:
        found = None if path in missing else texts(path)
        if found is None:
            missing.add(path)
        return found

    return text


def _without_copies(readings: Sequence[FileReading], config: str) -> Iterator[FileReading]:
    """The readings, without those of copies of a script in other folders, which read the copies of the file there."""
    folders = config.split("/")[:-1]
    nearest: dict[str, int] = {}
    for one in readings:
        name = posixpath.basename(one.script)
        nearest[name] = max(nearest.get(name, 0), shared_steps(folders, one.script.split("/")))
    for one in readings:
        if shared_steps(folders, one.script.split("/")) == nearest[posixpath.basename(one.script)]:
            yield one


def _values_here(document: Document) -> int:
    """How many values of the run are written in the document's own file."""
    whole = document.places[()].value
    spans = (document.places[(key,)].value for key in document.value)
    return sum((span.start, span.end) != (whole.start, whole.end) for span in spans)


def _words_of(path: str) -> frozenset[str]:
    """The words of a file's name: `configs/sft_full.yaml` belongs to `train_sft.py` rather than to `train_dpo.py`."""
    stem = posixpath.splitext(posixpath.basename(path))[0].lower()
    return frozenset(re.split(r"[^a-z0-9]+", stem)) - _OF_ANY_FILE
