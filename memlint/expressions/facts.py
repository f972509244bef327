"""What the expressions of rules read: one run, its estimate, and the files' own keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.memory.values import Estimate
from memlint.run import Run

MAX_STEPS = 10_000
MAX_TEXT = 256  # a longer text is not searched for a pattern: the answer is unknown

Evaluate = Callable[["Facts"], Any]
Under = Callable[[Mapping[str, tuple[int, ...]]], "Estimate | None"]


class StepLimit(Exception):
    """An evaluation took more than MAX_STEPS steps."""


class Advice(NamedTuple):
    """What to say of a run whose engine nobody gave: the end of a sentence, and a launch file that may be its own."""

    text: str = ""
    file: str = ""


class Facts:
    """`raw`: section -> the files' own keys. `variables`: of the rule at work, computed when first read.

    `under`: the run's estimate if other framework versions were in use (None: there is no such run). `advice`: what to
    say where nothing tells the run's engine; it may search the tree.
    `local` holds the variable of the loop that runs, `steps` what an evaluation may still spend.
    """

    __slots__ = ("advice", "estimate", "local", "raw", "run", "steps", "under", "values", "variables")

    def __init__(
        self,
        run: Run,
        estimate: Estimate | None = None,
        raw: Mapping[str, Any] | None = None,
        under: Under | None = None,
        advice: Callable[[], Advice] = Advice,
    ) -> None:
        self.run = run
        self.under = under
        self.advice = advice
        self.estimate = estimate
        self.raw = raw or {}
        self.variables: Mapping[str, Evaluate] = {}
        self.values: dict[str, Any] = {}
        self.local: Any = None
        self.steps = MAX_STEPS

    def begin(self, variables: Mapping[str, Evaluate]) -> None:
        """Starts on another rule: its variables, and a full budget."""
        self.variables = variables
        self.values = {}
        self.steps = MAX_STEPS

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise StepLimit(f"more than {MAX_STEPS} steps")
