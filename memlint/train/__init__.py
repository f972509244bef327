"""Compares a training's memory with memlint's estimate: a callback for transformers and TRL, a context manager for any
loop.

Needs PyTorch and transformers (the extra `train`). Nothing here stops a training, except with `on_misfit="stop"`.
"""

from memlint.train.callback import MemoryCallback, watch
from memlint.train.guard import DoesNotFit
from memlint.train.loop import measure

__all__ = ["DoesNotFit", "MemoryCallback", "measure", "watch"]
