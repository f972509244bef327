"""Writes the recordings of typical layers, as an installation has them (memory/layers/stored_profiles.py)."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor

from memlint.architectures.builder import from_config
from memlint.architectures.catalog import configurations
from memlint.architectures.config import UnsupportedConfig
from memlint.architectures.model import Architecture
from memlint.memory.layers.profile_stamps import stamps
from memlint.memory.layers.stored_profiles import STAMPS, Key, dump, files
from memlint.memory.layers.typical_layers import one_of_each_structure, typical_profiles


def write(folder: str, stamped: bool, most: int | None = None) -> None:
    """Records the layers of typical runs of the catalog's models into `folder`, which is made anew.

    `stamped`: with the stamps that a checkout compares. `most`: of so many structures only, the commonest: all take
    a minute and a half on two processors.
    """
    shutil.rmtree(folder, ignore_errors=True)  # so that nothing is read back that another state of the code wrote
    found: dict[Key, str] = {}
    for lines in _recorded(one_of_each_structure(_architectures(), most)):
        found.update(lines)
    os.makedirs(folder)
    for name, data in {**files(found), STAMPS: json.dumps(stamps() if stamped else {}).encode()}.items():
        with open(os.path.join(folder, name), "wb") as stream:
            stream.write(data)


def _recorded(architectures: Sequence[Architecture]) -> Iterator[Mapping[Key, str]]:
    """The recordings of each model's layers, made on all processors."""
    try:
        with ProcessPoolExecutor() as pool:
            yield from pool.map(_lines, architectures)
    except (ImportError, NotImplementedError, OSError):  # a system without semaphores
        yield from map(_lines, architectures)


def _lines(architecture: Architecture) -> Mapping[Key, str]:
    """The recordings of one model's layers, each as one line."""
    return {key: dump(profile) for key, profile in typical_profiles(architecture).items()}


def _architectures() -> Iterator[Architecture]:
    for config in configurations():
        try:
            yield from_config(config)
        except UnsupportedConfig:  # a model that cannot be described is not estimated either
            continue
