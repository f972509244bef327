"""The values that the expressions of rules read: one run, its estimate, and the keys of the files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.memory.values import Estimate, StagedEstimate, TensorEstimate
from memlint.run import Run

MAX_STEPS = 10_000
MAX_TEXT = 256  # a longer text is not searched for a pattern: the answer is unknown

Evaluate = Callable[["Facts"], Any]
Under = Callable[[Mapping[str, tuple[int, ...]]], "Estimate | None"]


class StepLimit(Exception):
    """An evaluation took more than MAX_STEPS steps."""


class Advice(NamedTuple):
    """Advice for a run whose engine is unknown: the end of a sentence, and a launch file that may belong to the run."""

    text: str = ""
    file: str = ""


class Facts:
    """The values of one run. `raw`: section -> the files' keys. `variables`: of the current rule, computed when read.

    `estimate` may take much longer to compute than `tensors`, the part of it without the card's figures.

    `under`: estimates the run under other framework versions (None: the run does not exist then). `advice`: the advice
    if the run's engine is unknown; it may search the tree. `local`: the variable of the current loop. `steps`: how many
    steps the evaluation may still take.
    """

    __slots__ = ("advice", "estimated", "local", "raw", "run", "steps", "under", "values", "variables")

    def __init__(
        self,
        run: Run,
        estimated: StagedEstimate | Estimate | None = None,
        raw: Mapping[str, Any] | None = None,
        under: Under | None = None,
        advice: Callable[[], Advice] = Advice,
    ) -> None:
        self.run = run
        self.under = under
        self.advice = advice
        self.estimated = StagedEstimate(estimated) if isinstance(estimated, Estimate) else estimated
        self.raw = raw or {}
        self.variables: Mapping[str, Evaluate] = {}
        self.values: dict[str, Any] = {}
        self.local: Any = None
        self.steps = MAX_STEPS

    @property
    def estimate(self) -> Estimate | None:
        return None if self.estimated is None else self.estimated.whole

    @property
    def verdict(self) -> str | None:
        return None if self.estimated is None else self.estimated.verdict

    @property
    def tensors(self) -> TensorEstimate | Estimate | None:
        return None if self.estimated is None else self.estimated.tensors

    def begin(self, variables: Mapping[str, Evaluate]) -> None:
        """Prepares for another rule: sets its variables, and resets the number of steps."""
        self.variables = variables
        self.values = {}
        self.steps = MAX_STEPS

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise StepLimit(f"more than {MAX_STEPS} steps")
