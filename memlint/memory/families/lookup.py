"""Finds a family's row: by model_type for the whole model, by a layer's class for its code.

The language model of an image-text model has layers of its own family: LLaVA's may be Llama's or Qwen2's. A run needs
the rows of one module or two: `index.json` (tools/family_index.py) says which module has the row of a name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

from memlint.memory.families.traits import Family, Releases, Version

DEFAULT = Family()  # Llama's code, for families without a row
_INDEX = "index.json"


@cache
def _table(file: str) -> Mapping[str, Any]:
    """A JSON file beside this module."""
    with open(os.path.join(os.path.dirname(__file__), file), encoding="utf-8") as stream:
        found: Mapping[str, Any] = json.load(stream)
    return found


@cache
def _rows(module: str) -> tuple[Family, ...]:
    found: tuple[Family, ...] = import_module(f"memlint.memory.families.{module}").ROWS
    return found


def every() -> tuple[Family, ...]:
    """All rows."""
    modules = {module: None for names in _table(_INDEX).values() for module in names.values()}
    return tuple(row for module in modules for row in _rows(module))


def of(architecture: object) -> Family:
    """The row of an architecture; the default one where the architecture is not known."""
    return of_model_type(getattr(architecture, "family", ""))


@lru_cache(maxsize=512)
def of_model_type(name: str) -> Family:
    """The row of a `model_type`; the default one where it is not known."""
    module = _table(_INDEX)["model_types"].get(name)
    return DEFAULT if module is None else next(row for row in _rows(module) if name in row.model_types)


def loads_with_sdpa(architecture: object) -> bool:
    """Whether the newest transformers loads the model with sdpa."""
    return of(architecture).attention.sdpa.include(())


# What a run may ask for, by the kind of attention that tools/refused_attention.py writes down.
_ASKED = {
    "flash_attention": ("flash_attention_2", "flash_attention_3", "flash_attention_4"),
    "sdpa": ("sdpa",),
    "flex_attention": ("flex_attention",),
}


def refused_attention(architecture: object, release: Version) -> tuple[str, ...]:
    """The attention implementations with which this release of transformers refuses to load the model; () is the
    newest release."""
    family, table = getattr(architecture, "family", ""), _refused_attention()
    return tuple(
        name
        for kind, names in _ASKED.items()
        if family in table[kind] and table[kind][family].include(release)
        for name in names
    )


@cache
def _refused_attention() -> Mapping[str, Mapping[str, Releases]]:
    table = _table("refused_attention.json")
    return {kind: {family: _releases_from(value) for family, value in table[kind].items()} for kind in _ASKED}


def _releases_from(value: str | list[str]) -> Releases:
    """A row of the table: the first release that refuses, or that one and the first that takes it again."""
    return Releases(*map(_release, [value] if isinstance(value, str) else value))


def _release(text: str) -> Version:
    """ "5.23.0" -> (5, 23); "" -> ()."""
    numbers = [int(part) for part in text.split(".") if part]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def supports_liger(architecture: object) -> bool:
    """Whether the Trainer and TRL patch the model with Liger's kernels."""
    return of(architecture).liger.supported


@lru_cache(maxsize=512)
def of_layer(class_name: str) -> Family:
    """The row of a layer's class, such as LlamaDecoderLayer."""
    modules = _table(_INDEX)["classes"]
    beginning = max(filter(class_name.startswith, modules), key=len, default=None)
    return DEFAULT if beginning is None else next(row for row in _rows(modules[beginning]) if beginning in row.classes)


@lru_cache(maxsize=512)
def last_change(model_type: str) -> Version:
    """The last release of transformers with a change to this family alone; () where there is none."""
    particular = _releases(of_model_type(model_type)) - _releases(DEFAULT)
    return max((bound for _, _, releases in particular for bound in releases), default=())


def _releases(family: Family) -> set[tuple[int, int, Releases]]:
    """Every trait that depends on the release, with its position in the row."""
    groups = [(number, group) for number, group in enumerate(family) if isinstance(group, tuple)]
    return {
        (number, place, trait)
        for number, group in groups
        for place, trait in enumerate(group)
        if isinstance(trait, Releases)
    }
