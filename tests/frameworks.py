"""What each framework's code does whatever the config says, as fields of a run: for tests that build runs by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from memlint.formats.axolotl.behaviour import BEHAVIOUR as _AXOLOTL
from memlint.formats.fields import Behaviour
from memlint.formats.llamafactory.behaviour import BEHAVIOUR as _LLAMAFACTORY
from memlint.formats.trainer.behaviour import behaviour


def _fields(behaviours: Iterable[Behaviour]) -> dict[str, Any]:
    return {one.field: one.value for one in behaviours}


LLAMAFACTORY = _fields(_LLAMAFACTORY)
AXOLOTL = _fields(_AXOLOTL)
TRL = _fields(behaviour((1, 16)))
OLD_TRL = _fields(behaviour((0, 25)))
