"""The releases of AReaL: which one a file is for, as its keys tell, and what each release runs on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from memlint.formats.fields import Section
from memlint.formats.key_releases import key_releases
from memlint.formats.trainer_names import Taken

NEWEST = (2, 0, 0)
OWN_BACKENDS = (1, 0, 3)  # each engine has a `backend` of its own since; before, `allocation_mode` speaks of all
_LAST_WITHOUT = (1, 0, 2)
FP32_SHARDS = (2, 0, 0)  # parameters and optimizer states are in `optimizer_dtype` since, by default in fp32
FUSED = (0, 5, 0)  # AdamW's fused kernel since (areal/engine/fsdp_engine.py, _create_optimizer)
REDUCES_EACH = (0, 3, 3)  # each backward reduces its gradients since; before, the last one of a step alone
ROOT_RESHARDS = (0, 5, 2)  # torch 2.9 since, which divides a root again where it is told to
# pyproject.toml of the tags.
TAKES: Taken = (
    ((1, 0, 4), {"transformers": (5, 3), "torch": (2, 10), "peft": (0, 18)}),
    ((0, 5, 2), {"transformers": (4, 57), "torch": (2, 9)}),
    ((0, 4, 1), {"transformers": (4, 57), "torch": (2, 8)}),
    ((0, 4), {"transformers": (4, 56), "torch": (2, 8)}),
    ((0, 3, 4), {"transformers": (4, 56)}),
    ((0, 3), {"transformers": (4, 54)}),
)


def newest_release(program: str, sections: Iterable[Section]) -> tuple[int, ...]:
    """The newest release that takes all keys of a file that any release takes. One without a `backend` of its actor is
    for releases before 1.0.3, which ask for none."""
    table = key_releases("areal", program)
    if table is None:
        return NEWEST
    keys = {key for section in sections for key in keys_in(section.value)}
    if program != "dpo" and not has_backend(keys, sections):
        return table.newest(keys, OWN_BACKENDS) or _LAST_WITHOUT
    return table.newest(keys) or NEWEST


def has_backend(keys: Iterable[str], sections: Iterable[Section]) -> bool:
    """Whether the actor has a backend with sizes, `fsdp:d4`: in 0.3 the key held a word alone."""
    found = (section.value.get("actor") for section in sections) if "actor.backend" in keys else ()
    return any(isinstance(one, dict) and ":" in str(one.get("backend")) for one in found)


def keys_in(value: Mapping[Any, Any], above: str = "") -> Iterator[str]:
    """Every key by its dotted name, sections too."""
    for key, inner in value.items():
        yield f"{above}{key}"
        if isinstance(inner, dict):
            yield from keys_in(inner, f"{above}{key}.")
