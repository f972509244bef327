"""The card that `--gpu`, a setting or a comment names: by name, by size, or as a cloud machine with several."""

from __future__ import annotations

from memlint.errors import UsageError
from memlint.hardware.catalog import find, instance, suggestions
from memlint.hardware.model import Gpu


def named_gpu(name: str | None) -> tuple[Gpu | None, int | None]:
    """The card behind a name, and how many a cloud machine of that name has. Raises UsageError."""
    if not name:
        return None, None
    machine = instance(name)
    if machine is not None:
        return machine
    card = find(name)
    if card is None:
        raise UsageError(unknown_gpu(name))
    return card, None


def unknown_gpu(name: str) -> str:
    """The error message for a name that no card has, with suggestions."""
    near = suggestions(name)
    hint = f"did you mean {' or '.join(near[:3])}?" if near else "name a card (A100-80GB) or a size (24GiB)"
    return f"unknown GPU {name!r}: {hint}"
