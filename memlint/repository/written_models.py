"""Finds the model in a folder that another run of the repository writes.

The second stage of a training starts from what the first one saved: `model_name_or_path: saves/sft` has the
architecture of the model that `output_dir: saves/sft` of another config, script or command trains. So has a checkpoint
below that folder.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

import memlint.file_access as file_access
from memlint._record import NamedTuple
from memlint.architectures.model import Architecture, Resolution
from memlint.formats import recognise_read
from memlint.formats.base import Context
from memlint.run import Run
from memlint.source.document import Document

MOST_WRITERS = 12  # files that write one folder
MOST_BYTES = 65_536  # of a file; a longer one is data
SUFFIXES = (".yaml", ".yml", ".json", ".py", ".ipynb", ".sh", ".slurm", ".sbatch")
# transformers, LLaMA-Factory, Axolotl and ms-swift; LLaMA-Factory's merge; OpenRLHF; verl.
KEYS = ("output_dir", "export_dir", "save_path", "default_local_dir")
# A key with a plain value, as YAML, JSON, Python and a command have it; what Python saves a model by.
_WRITTEN = re.compile(
    rb"""(?:\b(?:%b)\b["']?[ \t]*[:=]?[ \t]*|\bsave_(?:pretrained|model)\()["']?([\w.~/-]+)""" % "|".join(KEYS).encode()
)
_WITHOUT_AN_OUTPUT = (".py", ".ipynb")  # of their runs no document says what they write
_ORDINARY = re.compile(r"(?:checkpoint-\d+|global_step_?\d+|merged|final|hf|huggingface|actor|outputs?|results?)")
_WORD = re.compile(r"[A-Za-z]+|\d+")


class Runs(NamedTuple):
    """What the repository says of its runs. `documents(name)`: those of a file. `context`: with which they are read.
    `scripts_with(words)`: the shell scripts that contain these words. All names are relative to the root."""

    names: Callable[[], Iterable[str]]
    read: Callable[[str], bytes]
    documents: Callable[[str], Iterable[Document]]
    context: Callable[[], Context]
    scripts_with: Callable[[Iterable[str]], Iterable[str]]
    absolute: Callable[[str], str]


def output_folders(data: bytes) -> tuple[str, ...]:
    """The folders that a file plainly names as what a run writes, without those that every run may have."""
    if len(data) > MOST_BYTES:
        return ()
    found = (normalised(text.decode("utf-8", "replace")) for text in _WRITTEN.findall(data))
    return tuple(sorted({one for one in found if one}))


def normalised(folder: str) -> str:
    """A folder's path without what two ways to write it differ in; "" where it names none."""
    path = posixpath.normpath(folder) if folder else "."
    return "" if path in (".", "/", "..") else path


class WrittenModels:
    """Finds which run writes a folder, each folder once."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._plain: Mapping[str, list[str]] | None = None
        self._found: dict[str, Resolution | None] = {}

    def find(self, name: str) -> Resolution | None:
        """The model in the folder `name`; None if no run writes it, or runs of several models do."""
        folder = normalised(name)
        if not folder:
            return None
        if folder not in self._found:
            self._found[folder] = None  # while it is searched: a run may go on from what it wrote itself
            self._found[folder] = self._searched(folder)
        return self._found[folder]

    def _searched(self, folder: str) -> Resolution | None:
        found: dict[str, Resolution] = {}
        for file in list(dict.fromkeys(self._writers(folder)))[:MOST_WRITERS]:
            for run in self._runs_of(file, folder):
                if isinstance(run.model.architecture, Architecture):
                    found.setdefault(str(run.model.name), _written(folder, file, run))
        return next(iter(found.values())) if len(found) == 1 else None

    def _writers(self, folder: str) -> Iterator[str]:
        """The files that may write a folder: those that plainly name it, and scripts with all words of a telling part
        of its name, which they may put together."""
        if self._plain is None:
            self._plain = self._all_plain()
        around = [folder]
        while posixpath.dirname(around[-1]) not in ("", "/"):
            around.append(posixpath.dirname(around[-1]))
        yield from chain.from_iterable(self._plain.get(one, ()) for one in around)
        telling = [part for part in folder.split("/") if part and not _ORDINARY.fullmatch(part)]
        if telling:
            yield from self._runs.scripts_with(_WORD.findall(telling[-1]))

    def _all_plain(self) -> dict[str, list[str]]:
        """Folder -> the files that plainly name it as what they write."""
        found: dict[str, list[str]] = {}
        for name in sorted(self._runs.names()):
            if name.endswith(SUFFIXES):
                for folder in self._folders_of(name):
                    found.setdefault(folder, []).append(name)
        return found

    def _folders_of(self, name: str) -> tuple[str, ...]:
        try:
            found = output_folders(self._runs.read(name))
        except OSError:
            return ()
        file_access.note("writes", self._runs.absolute(name), "/".join(found))
        return found

    def _runs_of(self, file: str, folder: str) -> Iterator[Run]:
        """The runs of a file that write a folder."""
        for document in self._runs.documents(file):
            outputs = list(_outputs(document.value))
            if not outputs and file.endswith(_WITHOUT_AN_OUTPUT):
                outputs = [folder]
            if any(folder == one or folder.startswith(f"{one}/") for one in outputs):
                found = recognise_read(document)
                yield from found[0].parse(document, self._runs.context()).runs if found else ()


def _outputs(value: object) -> Iterator[str]:
    """The folders that the values of a run name as what it writes, at the top or in a section."""
    if not isinstance(value, dict):
        return
    for key, inner in value.items():
        if key in KEYS and isinstance(inner, str):
            yield normalised(inner)
        elif isinstance(inner, dict):
            yield from (normalised(one) for name, one in inner.items() if name in KEYS and isinstance(one, str))


def _written(folder: str, file: str, run: Run) -> Resolution:
    """The model that a run writes."""
    architecture = run.model.architecture._replace(dtype=_saved_dtype(run))
    said = f"{file} writes `{folder}`, from {run.model.name}"
    return Resolution(str(run.model.name), "repository", architecture, said)


def _saved_dtype(run: Run) -> str:
    """The dtype of the saved weights; "" where it is not known. Adapters are loaded into their base, which has its own.

    A Trainer saves parameters as they are, a DeepSpeed engine those it computes with (transformers 5.23 trainer.py,
    `_save`); FSDP saves what accelerate made of them.
    """
    engine = run.parallelism.engine
    if run.method.kind not in ("full", "freeze"):
        return str(run.model.architecture.dtype)
    if engine == "deepspeed":
        return str(run.precision.compute or "")
    trained, loaded = run.precision.trainable_dtype, run.model.weights_dtype
    is_known = engine != "fsdp" and (run.method.kind == "full" or trained == loaded)
    return trained if isinstance(trained, str) and is_known else ""
