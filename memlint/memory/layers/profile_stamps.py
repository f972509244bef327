"""Stamps that tell whether stored recordings are current: size and modification time of the code behind them."""

from __future__ import annotations

import os

from memlint.shipped_data import PACKAGE

_CODE = ("architectures", "memory/autograd", "memory/families", "memory/layers", "memory/vision")
_FILES = (
    "memory/segments/embedding.py",
    "memory/segments/encoder_decoder.py",
    "memory/state/parameter_roles.py",
    "memory/segments/of_model.py",
    "memory/segments/step.py",
    "memory/layers/typical_layers.py",
)


def stamps() -> dict[str, str]:
    """`size:mtime` of each file of code that recordings depend on."""
    return {name: _stamp(name) for name in (*_FILES, *(name for room in _CODE for name in _python_below(room)))}


def _stamp(name: str) -> str:
    status = os.stat(os.path.join(PACKAGE, name))
    return f"{status.st_size}:{status.st_mtime_ns}"


def _python_below(room: str) -> list[str]:
    found = []
    for folder, _, names in os.walk(os.path.join(PACKAGE, room)):
        found += [os.path.relpath(os.path.join(folder, name), PACKAGE) for name in names if name.endswith(".py")]
    return sorted(found)
