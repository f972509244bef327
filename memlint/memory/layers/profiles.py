"""Profiles of decoder layers: read from what was recorded when memlint was built, else recorded now."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from memlint.architectures.model import DecoderLayer
from memlint.memory.autograd.profile import LayerMode, Profile
from memlint.memory.layers.kernel_config import KernelConfig
from memlint.memory.layers.stored_profiles import Key, find
from memlint.memory.layers.structure import kernels_in_use, structure
from memlint.memory.parameter_roles import Roles


@lru_cache(maxsize=512)
def layer_profile(shape: DecoderLayer, roles: Roles, kernels: KernelConfig, mode: LayerMode) -> Profile:
    """The profile of one decoder layer; the same object for layers that differ in sizes alone."""
    return _profile((structure(shape), roles, kernels_in_use(shape, roles, kernels), mode))


# By structure. Emptied when it is full: a run has a few of them, and all runs of a large corpus some hundreds.
_BY_STRUCTURE: dict[Key, Profile] = {}
_MOST = 2048


def _profile(key: Key) -> Profile:
    known = _BY_STRUCTURE.get(key)
    if known is not None:
        return known
    found = find(*key)
    if found is None:
        from memlint.memory.layers.activations import record  # the code of every kind of layer

        found = record(*key)
    if len(_BY_STRUCTURE) >= _MOST:
        _BY_STRUCTURE.clear()
    _BY_STRUCTURE[key] = found
    return found


def in_use() -> Mapping[Key, Profile]:
    """The profiles that this process has read or recorded, by what they are the profiles of."""
    return dict(_BY_STRUCTURE)
