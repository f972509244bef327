"""Profiles of decoder layers: read from what was recorded when memlint was built, else recorded now."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from memlint.architectures.model import DecoderLayer
from memlint.memory.autograd.profile import LayerMode, Profile
from memlint.memory.layers.kernel_config import KernelConfig
from memlint.memory.layers.stored_profiles import Key, find
from memlint.memory.layers.structure import kernels_in_use, structure
from memlint.memory.state.parameter_roles import Roles


@lru_cache(maxsize=256)
def layer_profile(shape: DecoderLayer, roles: Roles, kernels: KernelConfig, mode: LayerMode) -> Profile:
    """The profile of one decoder layer; the same object for layers that differ in sizes alone."""
    return _profile((structure(shape), roles, kernels_in_use(shape, roles, kernels), mode))


# By structure, the one that was asked for last at the end. A profile takes 20 KB; a run and its plans have some tens of
# them, and the models of a large corpus 1,200.
_BY_STRUCTURE: dict[Key, Profile] = {}
_MOST = 512


def _profile(key: Key) -> Profile:
    found = _BY_STRUCTURE.pop(key, None) or find(*key) or _recorded(key)
    if len(_BY_STRUCTURE) >= _MOST:
        del _BY_STRUCTURE[next(iter(_BY_STRUCTURE))]
    _BY_STRUCTURE[key] = found
    return found


def _recorded(key: Key) -> Profile:
    """The profile recorded now, or made of that of a layer that keeps what this one offloads, which is at hand more
    often."""
    from memlint.memory.layers.activations import offloading, record  # the code of every kind of layer

    shape, *_, mode = key
    if not mode.offload:
        return record(*key)
    keeping = _profile((*key[:3], mode._replace(offload=False)))
    return offloading(keeping, shape, mode.width) if mode.checkpoint else keeping


def in_use() -> Mapping[Key, Profile]:
    """The profiles that this process has read or recorded, by what they are the profiles of."""
    return dict(_BY_STRUCTURE)
