"""GPU memory of a run in closed form."""

from memlint.memory.estimate import estimate

__all__ = ["estimate"]
