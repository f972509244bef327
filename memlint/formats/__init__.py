"""Config formats: each turns its files into `Run`s. To add one, write its module and name it in `_NAMES`."""

from __future__ import annotations

from typing import cast

import memlint.plugin_registry as extensions
from memlint._lazy import Lazy
from memlint.formats.base import Format, Recognition
from memlint.source.document import Document

_NAMES = (
    *("llamafactory", "deepspeed", "accelerate", "trainer", "axolotl", "verl", "easyr1", "swift", "openrlhf"),
    *("megatron", "nemo_rl", "torchtune", "oumi", "autotrain", "skyrl", "slime", "areal"),
)
_OF_TOML = ("torchtitan",)


def _formats(*names: str) -> tuple[Format, ...]:
    """The formats, each imported as files need it."""
    return tuple(cast("Format", Lazy(f"memlint.formats.{name}.format")) for name in names)


_TOML_FORMATS, _OTHERS = _formats(*_OF_TOML), _formats(*_NAMES)
FORMATS = (*_OTHERS, *_TOML_FORMATS)


def every() -> tuple[Format, ...]:
    """memlint's own formats, and those of plug-ins."""
    return (*FORMATS, *extensions.formats) if extensions.formats else FORMATS


# Keys of files in which a program records the arguments of a run, beside what they came to: wandb's config.yaml, and
# ms-swift's args.json (3.4.0 swift/llm/argument/base_args/base_args.py:239, save_args). No parser takes one of them.
_OF_RECORDS = (frozenset({"_wandb"}), frozenset({"global_world_size", "local_world_size"}))
_RANK = {"certain": 3, "likely": 2, "unsure": 1, "no": 0}


def recognise(document: Document) -> tuple[Format, Recognition] | None:
    """The format that claims `document` most firmly (the first of equals), judged by its keys alone.

    TOML is asked of the formats that have it, and of no others. The record of a run has none.
    """
    if isinstance(document.value, dict) and any(document.value.keys() >= keys for keys in _OF_RECORDS):
        return None
    candidates = _TOML_FORMATS if document.syntax == "toml" else (*_OTHERS, *extensions.formats)
    best: tuple[Format, Recognition] | None = None
    for candidate in candidates:
        recognition = candidate.recognise(document)
        if _RANK[recognition.confidence] > (_RANK[best[1].confidence] if best else 0):
            best = (candidate, recognition)
        if recognition.confidence == "certain":
            break
    return best


def recognise_read(document: Document, named: str = "") -> tuple[Format, Recognition] | None:
    """The format of a document: that of the command it stands for, else the one with the name `named`, else the one
    that claims it. None for a text that cannot be read, and for a program whose way of training no format covers."""
    if any(problem.fatal for problem in document.problems):
        return None
    if document.start is not None:
        named = document.start.format
        if not named:
            return None
    if named:
        for format_ in every():
            if named == format_.NAME:
                return format_, Recognition("certain", reason="named")
    return recognise(document)
