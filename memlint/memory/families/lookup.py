"""Finds a family's row: by model_type for the whole model, by a layer's class for its code.

The language model of an image-text model has layers of its own family: LLaVA's may be Llama's or Qwen2's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache, lru_cache

import memlint.memory.families.deepseek as deepseek
import memlint.memory.families.dense as dense
import memlint.memory.families.encoders as encoders
import memlint.memory.families.experts as experts
import memlint.memory.families.gemma as gemma
import memlint.memory.families.glm as glm
import memlint.memory.families.gpt as gpt
import memlint.memory.families.hybrid as hybrid
import memlint.memory.families.image_text as image_text
import memlint.memory.families.llama as llama
import memlint.memory.families.mistral as mistral
import memlint.memory.families.olmo as olmo
import memlint.memory.families.own_modules as own_modules
import memlint.memory.families.qwen as qwen
from memlint.memory.families.traits import Family, Releases, Version

ROWS: tuple[Family, ...] = (
    *llama.ROWS,
    *mistral.ROWS,
    *qwen.ROWS,
    *gemma.ROWS,
    *deepseek.ROWS,
    *glm.ROWS,
    *olmo.ROWS,
    *dense.ROWS,
    *experts.ROWS,
    *hybrid.ROWS,
    *gpt.ROWS,
    *image_text.ROWS,
    *encoders.ROWS,
    *own_modules.ROWS,
)
DEFAULT = Family()  # Llama's code, for families without a row

_BY_MODEL_TYPE = {name: row for row in ROWS for name in row.model_types}
_BY_CLASS = {prefix: row for row in ROWS for prefix in row.classes}
_LONGEST_FIRST = sorted(_BY_CLASS, key=len, reverse=True)


def of(architecture: object) -> Family:
    """The row of an architecture; the default one where the architecture is not known."""
    return of_model_type(getattr(architecture, "family", ""))


def of_model_type(name: str) -> Family:
    """The row of a `model_type`; the default one where it is not known."""
    return _BY_MODEL_TYPE.get(name, DEFAULT)


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
        if family in table[kind] and (not release or release >= table[kind][family])
        for name in names
    )


@cache
def _refused_attention() -> Mapping[str, Mapping[str, Version]]:
    path = os.path.join(os.path.dirname(__file__), "refused_attention.json")
    with open(path, encoding="utf-8") as file:
        table = json.load(file)
    return {kind: {family: _release(since) for family, since in table[kind].items()} for kind in _ASKED}


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
    prefix = next((known for known in _LONGEST_FIRST if class_name.startswith(known)), None)
    return _BY_CLASS[prefix] if prefix is not None else DEFAULT


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
