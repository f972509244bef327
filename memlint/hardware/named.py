"""The card that `--gpu`, a setting or a comment names: by name, by size, or as a cloud machine with several."""

from __future__ import annotations

import re

from memlint.errors import UsageError
from memlint.hardware.catalog import find, instance, sizes, suggestions
from memlint.hardware.model import Gpu


def named_gpu(name: str | None) -> tuple[Gpu | None, int | None]:
    """(card, count) of a name; count is None unless the name is a cloud machine or has a number (`8xH100`, `H100:8`).

    (None, None) for no name. Raises UsageError for an unknown one.
    """
    if not name:
        return None, None
    machine = instance(name)
    if machine is not None:
        return machine
    card = find(name)
    if card is not None:
        return card, None
    number, several = _several(name)
    if several is None:
        raise UsageError(unknown_gpu(name))
    return several, number


REQUESTED = "the job asks for"
REQUESTED_AS_NAMED = f"{REQUESTED} it"
_MAY_BE_SMALLER = "which may also be"


def requested_card(name: str) -> tuple[Gpu | None, str]:
    """(card, how it is known) that a job requests, by the name of a card or of a machine; no card for an unknown name.

    Of a card with several sizes ("a100") the largest: what it cannot hold, none of them holds.
    """
    machine = instance(name)
    card = machine[0] if machine is not None else find(name)
    several = sizes(name) if card is None else ()
    if not several:
        return card, REQUESTED_AS_NAMED
    smaller = " or ".join(gpu.name for gpu in several[:-1])
    return several[-1], f"{REQUESTED} `{name}`, {_MAY_BE_SMALLER} {smaller}"


def may_be_smaller(detail: str) -> bool:
    """Whether the card that is known so (`requested_card`) is the largest of several: what it holds, others may not."""
    return _MAY_BE_SMALLER in detail


def _several(name: str) -> tuple[int, Gpu | None]:
    """The number and the card of `8xH100`, `8 x H100`, `H100 x 8`, `H100:8` (SkyPilot) or `gpu:h100:8` (Slurm)."""
    number, card = _number_and_name(name)
    return number, find(card) if number else None


def _number_and_name(name: str) -> tuple[int, str]:
    """(number of cards, name of one) of a text; (0, the text) where it has no number."""
    before = re.fullmatch(r"(\d{1,4})\s*[x*\u00d7]\s*(\D.*|\d{3,}.*)", name.strip(), re.IGNORECASE)
    if before:
        return int(before[1]), before[2]
    after = re.fullmatch(r"(?:gpu:)?(.*\d.*?)\s*[x*:\u00d7]\s*(\d{1,4})", name.strip(), re.IGNORECASE)
    return (int(after[2]), after[1]) if after else (0, name)


def unknown_gpu(name: str) -> str:
    """The error message for a name that no card has, with suggestions."""
    card = _number_and_name(name)[1]
    sold_as = sizes(card)
    if sold_as:
        *smaller, largest = [gpu.name for gpu in sold_as]
        return f"GPU {name!r} is sold in several sizes: say {', '.join(smaller)} or {largest}"
    near = suggestions(card)
    hint = (
        f"did you mean {' or '.join(near[:3])}?" if near else "`memlint cards` lists the cards; a size (24GiB) is one"
    )
    return f"unknown GPU {name!r}: {hint}"
