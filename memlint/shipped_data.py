"""Finds the shipped data: the wheel's copy, else the folders of the checkout.

`importlib.resources` would take longer at start-up than reading all the data.
"""

from __future__ import annotations

import os

PACKAGE = os.path.dirname(os.path.abspath(__file__))


def folder(kind: str) -> str:
    """The folder of `rules` or `schemas`.

    :raises FileNotFoundError: when neither the wheel's nor the checkout's copy is there.
    """
    for parent in (os.path.join(PACKAGE, "_shipped"), os.path.dirname(PACKAGE)):
        candidate = os.path.join(parent, kind)
        if os.path.isdir(candidate):
            return candidate
    raise FileNotFoundError(f"memlint was installed without its {kind}; install it again")
