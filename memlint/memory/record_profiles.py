"""Writes the recordings of typical layers, as an installation has them (memory/layers/stored_profiles.py)."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator

from memlint.architectures.builder import from_config
from memlint.architectures.catalog import configurations
from memlint.architectures.config import UnsupportedConfig
from memlint.architectures.model import Architecture
from memlint.memory.layers.profile_stamps import stamps
from memlint.memory.layers.stored_profiles import STAMPS, files
from memlint.memory.typical_layers import typical_profiles


def write(folder: str, stamped: bool, most: int | None = None) -> None:
    """Records the layers of typical runs of the catalog's models into `folder`, which is made anew.

    `stamped`: with the stamps that a checkout compares. `most`: of so many structures only, the commonest: all take
    half a minute.
    """
    shutil.rmtree(folder, ignore_errors=True)  # so that nothing is read back that another state of the code wrote
    found = files(typical_profiles(_architectures(), most).items())
    os.makedirs(folder)
    for name, data in {**found, STAMPS: json.dumps(stamps() if stamped else {}).encode()}.items():
        with open(os.path.join(folder, name), "wb") as stream:
            stream.write(data)


def _architectures() -> Iterator[Architecture]:
    for config in configurations():
        try:
            yield from_config(config)
        except UnsupportedConfig:  # a model that cannot be described is not estimated either
            continue
