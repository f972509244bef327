"""Nothing that memlint does may stop a training."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch

from memlint.errors import Error

logger = logging.getLogger("memlint.train")


class DoesNotFit(Error):
    """The training does not fit its card, and whoever started it asked to be stopped then."""


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` that never raises but DoesNotFit: what fails is logged once, and not called again.

    It does nothing inside of a compiled model, whose hooks are compiled with it: under `fullgraph=True` the compiler
    would refuse what they do.
    """
    failed: list[bool] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or failed:
            return None
        try:
            return function(*args, **kwargs)
        except DoesNotFit:
            raise
        except Exception as error:
            failed.append(True)
            logger.warning("memlint stops watching this training: %s: %s", type(error).__name__, error)
            return None

    return call


def attempted(make: Callable[[], Any]) -> Any:
    """What `make` returns; None where it fails, with one line in the log. A training goes on without memlint. Raises
    DoesNotFit alone."""
    try:
        return make()
    except DoesNotFit:
        raise
    except Exception as error:
        logger.warning("memlint goes on without it: %s: %s", type(error).__name__, error)
        return None
