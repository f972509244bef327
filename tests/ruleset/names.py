"""A small vocabulary and facts for tests of the rule language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.expressions.facts import Facts
from memlint.expressions.language import compile_expression
from memlint.expressions.vocabulary import Vocabulary
from memlint.memory.values import Estimate, Phase
from memlint.run import Batch, Run, Stack

NAMES = Vocabulary()
ESTIMATE = Estimate(
    phases=(
        Phase("backward", 10 * 2**30, {"logits": 3 * 2**30, "weights": 7 * 2**30}),
        Phase("optimizer_step", 8 * 2**30, {"optimizer_states": 8 * 2**30}),
    ),
    peak_phase="backward",
    allocated_bytes=10 * 2**30,
    reserved_bytes=None,
    device_bytes=12 * 2**30,
    device_low_bytes=None,
    device_high_bytes=None,
    host_bytes=0,
    verdict="fits",
    details={"logits_bytes": 3 * 2**30},
)
RUN = Run("llamafactory", "train.yaml", batch=Batch(micro_batch_size=4), stack=Stack(transformers=(4, 57)))


def facts(config: Mapping[str, Any] | None = None, run: Run = RUN) -> Facts:
    return Facts(run, ESTIMATE, {"config": dict(config or {})})


def value(text: str, config: Mapping[str, Any] | None = None, run: Run = RUN) -> Any:
    return compile_expression(text, NAMES).evaluate(facts(config, run))
