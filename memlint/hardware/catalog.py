"""GPUs by the names that people, drivers and cloud providers use. Data: gpus.json, instances.json."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any

import memlint.plugin_registry as plugins
from memlint.hardware.model import Gpu

GIB = 1 << 30
MIB = 1 << 20
# Drivers reserve 1 to 2 % of a card (A100-80GB 79.15 of 80, RTX 3090 23.68 of 24), cards with ECC up to 8 %.
GENERIC_USABLE = 0.98
GENERIC_CONTEXT = 700 * MIB  # between T4's 141 MiB and A100's 1268 MiB

_NOISE = r"nvidia|geforce|tesla|instinct|amd|radeon|intel|huawei|graphics|[^a-z0-9.+]"
_FORM = r"sxm\d?|nvlink|mega|pcie?|hbm\d?e?|oam"
_SIZE = r"\s*(\d{1,4}(?:\.\d{1,3})?)\s*(?:gi?b?|gigabytes?)\s*"


def find(name: str) -> Gpu | None:
    """The GPU called `name`: canonical, marketing or driver name in any case and spacing, or a size ("24GiB").

    None where no card has this name, or where cards of several sizes do ("A100"): `suggestions` lists them.
    """
    if name.lower() in plugins.gpus:
        from_plugin: Gpu = plugins.gpus[name.lower()]
        return from_plugin
    row = _row_of(name.lower())
    if row is not None:
        return _gpu(row)
    size = re.fullmatch(_SIZE, name, re.IGNORECASE)
    if size:
        return _generic(float(size[1]))
    known = next((_names()[spelling] for spelling in _spellings(name) if spelling in _names()), None)
    return known or _with_its_size(name)


def _with_its_size(name: str) -> Gpu | None:
    """The card of a name with a redundant size, such as "RTX 4090 24GB"."""
    sized = re.fullmatch(r"(.+?)[\s_-]+(\d+)\s*gi?b?", name[:200].strip(), re.IGNORECASE)
    card = _names().get(_normalized(sized[1])) if sized else None
    return card if sized and card and math.ceil(card.usable_bytes / 2**30) == int(sized[2]) else None


def suggestions(name: str) -> tuple[str, ...]:
    """Canonical names that `name` may mean: those that contain it, else those that are spelled like it or have the same
    number. At most 8."""
    key = _normalized(name)
    if not key:
        return ()
    inside = [gpu.name for gpu in _gpus() if key in _normalized(gpu.name)]
    return tuple(inside[:8] or _spelled_alike(key) or _same_number(key))


def sizes(name: str) -> tuple[Gpu, ...]:
    """The cards that are sold as `name` with several sizes of memory, smallest first: "a100" is A100-40GB, A100-64GB
    and A100-80GB. Empty for any other name."""
    sized = re.compile(re.escape(_normalized(name)) + r"\d+gb")
    found = [gpu for gpu in _gpus() if _normalized(name) and sized.fullmatch(_normalized(gpu.name))]
    return tuple(sorted(found, key=lambda gpu: gpu.usable_bytes)) if len(found) > 1 else ()


def instance(name: str) -> tuple[Gpu, int] | None:
    """GPU and count of a cloud machine type: "p4d.24xlarge" is 8 x A100-40GB. "ml." of SageMaker is ignored."""
    found = _instances().get(name.strip().lower().removeprefix("ml."))
    if found is None:
        return None
    gpu = _names()[_normalized(found[0])]
    return gpu, found[1]


def every() -> tuple[Gpu, ...]:
    """All listed cards and those of plug-ins, by vendor, then by size."""
    cards = (*_gpus(), *plugins.gpus.values())
    return tuple(sorted(cards, key=lambda gpu: (gpu.vendor != "nvidia", gpu.vendor, gpu.usable_bytes, gpu.name)))


def has_words(name: str, words: Iterable[str]) -> bool:
    """Whether `name` has each of `words`, as names of cards are compared: `4090` and `rtx4090` are in `RTX 4090`."""
    return all(_normalized(word) in _normalized(name) for word in words)


def machines() -> Mapping[str, tuple[str, int]]:
    """Cloud machine types, with the name of their card and how many they have."""
    return _instances()


@cache
def common() -> tuple[Gpu, ...]:
    """The cards that `fits_on` names, smallest usable memory first."""
    ranked = (_gpu(_decoded(line)) for line in _lines() if '"rank":' in line)
    return tuple(sorted(ranked, key=lambda gpu: (gpu.usable_bytes, gpu.class_rank)))


def _generic(gib: float) -> Gpu | None:
    """A card known by its size alone. "80GB" means the card sold as 80 GB, which has 80 GiB."""
    if not 1 <= gib <= 2048:
        return None
    nominal = int(gib * GIB)
    label = f"{gib:g}GiB"
    return Gpu(
        label, nominal, int(nominal * GENERIC_USABLE), (0, 0), "unknown", GENERIC_CONTEXT, True, 2, False, generic=True
    )


def _normalized(name: str) -> str:
    return re.sub(_NOISE, "", name.lower())


def _spellings(name: str) -> tuple[str, ...]:
    """Keys to look `name` up with: as it is, "80G" or "80" read as "80GB", without the form factor (SXM4, PCIe)."""
    key = _normalized(name[:200])
    sized = re.sub(r"(\d)g(?:ib)?$", r"\1gb", key)
    bare = re.sub(_FORM, "", sized)
    return key, sized, key + "gb", bare, bare + "gb"


@cache
def _gpus() -> tuple[Gpu, ...]:
    return tuple(_gpu(row) for row in _rows())


@cache
def _rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(_text("gpus.json"))
    return rows


@cache
def _lines() -> list[str]:
    """gpus.json, where each row is on its own line, so that a start decodes those alone that it needs."""
    return _text("gpus.json").splitlines()


def _decoded(line: str) -> Mapping[str, Any]:
    row: Mapping[str, Any] = json.loads(line.rstrip(","))
    return row


@lru_cache(maxsize=64)
def _row_of(wanted: str) -> Mapping[str, Any] | None:
    """The first row with this name or alias in lower case, None if there is none. Only the line of this row is decoded.

    This makes the usual case fast: most configs use such a name, and the table of other spellings is not built.
    """
    quoted = json.dumps(wanted)
    for line in _lines():
        if quoted in line.lower():
            row = _decoded(line)
            if wanted in (alias.lower() for alias in (row["name"], *row.get("aliases", ()))):
                return row
    return None


@cache
def _names() -> Mapping[str, Gpu]:
    names: dict[str, Gpu] = {}
    for row, gpu in zip(_rows(), _gpus()):
        for alias in (row["name"], *row.get("aliases", ())):
            names.setdefault(_normalized(alias), gpu)
    return names


@cache
def _instances() -> Mapping[str, tuple[str, int]]:
    return {name.lower(): (gpu, count) for name, (gpu, count) in json.loads(_text("instances.json")).items()}


@cache
def _text(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


def _gpu(row: Mapping[str, Any]) -> Gpu:
    capability = tuple(row.get("capability", (0, 0)))
    nvidia = "vendor" not in row
    return Gpu(
        name=row["name"],
        nominal_bytes=int(row["gib"] * GIB),
        usable_bytes=int(row["usable"] * GIB),
        capability=(capability[0], capability[1]),
        vendor=row.get("vendor", "nvidia"),
        context_bytes=row["context_mib"] * MIB,
        bf16=capability >= (8, 0) if nvidia else row["bf16"],
        flash_attention=_flash_attention(capability) if nvidia else row["flash"],
        fp8=capability >= (8, 9) if nvidia else row["fp8"],
        class_rank=row.get("rank", 0),
    )


def _flash_attention(capability: tuple[int, ...]) -> int:
    """flash-attn 1 needs Turing, 2 Ampere, 3 Hopper and nothing newer (its README, "Requirements")."""
    if capability < (7, 5):
        return 0
    if capability < (8, 0):
        return 1
    return 3 if capability[0] == 9 else 2


def _spelled_alike(normalized: str) -> list[str]:
    """Names that differ from a normalized name in few letters ("H10O"): first those with the same number. At most 8."""
    from difflib import get_close_matches  # late: only for a name that no card has

    number = re.findall(r"\d+", normalized)[:1]
    near = get_close_matches(normalized, _names(), n=8, cutoff=0.75)
    near.sort(key=lambda one: re.findall(r"\d+", one)[:1] != number)  # stable: then by likeness
    return list(dict.fromkeys(_names()[one].name for one in near))


def _same_number(normalized: str) -> list[str]:
    """Names that contain the first number of a normalized name, else those that begin alike. At most 8."""
    digits = re.findall(r"\d+", normalized)
    found = [gpu.name for gpu in _gpus() if digits and digits[0] in re.findall(r"\d+", _normalized(gpu.name))]
    return found[:8] or _begin_alike(normalized)


def _begin_alike(normalized: str) -> list[str]:
    """Names that share the longest beginning with a normalized name, two letters or more. At most 8."""
    shared = {gpu.name: _shared_beginning(normalized, _normalized(gpu.name)) for gpu in _gpus()}
    longest = max(shared.values())
    return [name for name, length in shared.items() if length == longest][:8] if longest >= 2 else []


def _shared_beginning(left: str, right: str) -> int:
    """How many letters two words have in common before they differ."""
    return next((at for at, (a, b) in enumerate(zip(left, right)) if a != b), min(len(left), len(right)))
