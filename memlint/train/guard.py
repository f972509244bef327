"""Makes sure that an error in memlint never stops a training."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch

from memlint.errors import Error

logger = logging.getLogger("memlint.train")


class DoesNotFit(Error):
    """The training does not fit its card, and `on_misfit="stop"` asked to stop it then."""


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, changed to raise nothing but DoesNotFit: another error is logged, and the function never called
    again.

    It does nothing while a model is being compiled: its hooks are compiled with it, and with `fullgraph=True` the
    compiler would refuse what they do.
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
    """The result of `make`; None if it fails, with one line in the log: the training goes on without memlint. Raises
    only DoesNotFit."""
    try:
        return make()
    except DoesNotFit:
        raise
    except Exception as error:
        logger.warning("memlint goes on without it: %s: %s", type(error).__name__, error)
        return None
