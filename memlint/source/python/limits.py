"""The limits for following a Python script: enough for real ones, and low enough that none takes a second."""

from __future__ import annotations

MAX_STEPS = 40_000  # statements and expressions of one script with all that it calls
MAX_DEPTH = 30  # calls within calls
MAX_RECURSION = 2  # of one function in itself where it is in doubt whether it runs: each branch doubles what follows
MAX_ROUNDS = 16  # of one loop
MAX_ITEMS = 256  # of one list that is computed


class Budget:
    """Counts down; `StopReading` when nothing is left."""

    __slots__ = ("running", "steps")

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.steps = steps
        self.running: list[int] = []  # the functions that call each other, by the `id` of their nodes

    def may_enter(self, function: int, in_doubt: bool) -> bool:
        """Whether one more call may be followed within those that are running."""
        recursions = self.running.count(function) if in_doubt else 0
        return len(self.running) < MAX_DEPTH and recursions < MAX_RECURSION

    def spend(self) -> None:
        """One step. Raises StopReading."""
        self.steps -= 1
        if self.steps < 0:
            raise StopReading


class StopReading(Exception):
    """The script exceeds the limits. What was found so far is used."""
