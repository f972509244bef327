"""Whether a run is over the card at its full length alone: a warning about the longest batch, not a verdict."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.expressions.derived_facts import READERS
from memlint.expressions.facts import Facts
from memlint.memory.unknown.full_length import is_loose_bound, is_over_at_full_length_alone
from memlint.memory.values import Estimate, Phase, ReadingEstimate
from memlint.run import UNKNOWN, Origin, Run, replace

RUN = replace(Run("trainer", "a.yaml"), {"sequence.length": 4096, "batch.micro_batch_size": 8})
LARGE: dict[str, Any] = {}
SMALL = {"sequence.length": 2048, "batch.micro_batch_size": 1}
LONG = {"sequence.length": 16_384, "batch.micro_batch_size": 1}
GIB = 2**30


def over(low: float, growing: float, step: float, peak: str = "backward", **more: Any) -> Estimate:
    """An estimate for a card of 20 GiB. `low`: of the card's figure; `growing`: activations and logits of the peak."""
    components = {"weights": 0, "activations": int(growing * GIB) - GIB, "logits": GIB}
    phases = (Phase(peak, int(low * GIB), components), Phase("optimizer_step", int(step * GIB), {}))
    figures = (int(low * GIB),) * 4
    found = Estimate(phases, peak, int(low * GIB), *figures, None, "out_of_memory", budget_bytes=20 * GIB)
    return found._replace(**more)


@pytest.mark.parametrize(
    ("changes", "loose"),
    [
        (LARGE, True),
        (SMALL, False),
        (LONG, True),
        ({"sequence.length": 512}, True),  # 8 samples
        ({"sequence.length": 512, "batch.micro_batch_size": 3}, False),
        ({**SMALL, "sequence.length": 4095}, False),
        ({**SMALL, "sequence.length": 4096}, True),
        ({**SMALL, "method.stage": "grpo"}, True),
        ({**SMALL, "method.stage": "dpo"}, True),  # two of each pair
        ({**SMALL, "sequence.source_length": 512}, True),
        ({**LARGE, "sequence.length_is_bound": False}, False),
        ({**LONG, "sequence.length_is_bound": False}, False),
        ({"sequence.length": UNKNOWN}, False),
        ({"batch.micro_batch_size": UNKNOWN}, False),
    ],
)
def test_a_loose_bound_is_long_or_of_several_samples(changes: dict[str, Any], loose: bool) -> None:
    assert is_loose_bound(replace(RUN, changes)) == loose


def test_a_default_is_loose() -> None:
    run = replace(RUN, SMALL)
    by_default = run._replace(origins={"sequence.length": Origin("default")})
    assert is_loose_bound(by_default) and not is_loose_bound(run)


@pytest.mark.parametrize(
    ("changes", "estimate", "alone"),
    [
        (LARGE, over(30, 20, 10), True),
        (SMALL, over(30, 20, 10), False),
        (LARGE, over(40, 20, 10), False),  # a quarter of the length needs 25 GiB
        (LONG, over(40, 20, 10), True),
        ({**SMALL, "sequence.length": 8192}, over(40, 20, 10), False),  # as above: a quarter needs 25 GiB
        ({**SMALL, "sequence.length": 8192}, over(30, 20, 10), True),
        ({**SMALL, "sequence.length": 8192}, over(36, 20, 10), True),  # 1,024 tokens need 18.5 GiB, a quarter 21 GiB
        ({**LARGE, "sequence.length": 8192}, over(30, 20, 10, peak="log_probabilities"), True),
        (LONG, over(40, 20, 25), False),  # nor is there room for the optimizer's step
        (LARGE, over(30, 20, 10, peak="load"), False),
        (LARGE, over(30, 20, 10, device_low_bytes=None), False),
        (LARGE, over(30, 20, 10)._replace(phases=()), False),
    ],
)
def test_over_at_full_length_alone(changes: dict[str, Any], estimate: Estimate, alone: bool) -> None:
    run = replace(RUN, changes)
    assert is_over_at_full_length_alone(run, estimate) == alone
    assert READERS["estimate.is_over_at_full_length_alone"](Facts(run, estimate)) == alone


def test_the_reading_that_needs_least_counts() -> None:
    """What its optimizer's step takes is what no shorter sequence does without."""
    least = 15 * GIB
    reading = ReadingEstimate("sharded", least, least, least, "fits", 5 * GIB)
    assert not is_over_at_full_length_alone(replace(RUN, LONG), over(40, 20, 25))
    assert is_over_at_full_length_alone(replace(RUN, LONG), over(40, 20, 25, readings=(reading,)))
    longest = ReadingEstimate("sharded", 38 * GIB, 38 * GIB, 38 * GIB, "out_of_memory", 18 * GIB)
    assert is_over_at_full_length_alone(replace(RUN, LONG), over(40, 20, 25, readings=(longest,)))
    whole = longest._replace(step_bytes=21 * GIB)
    assert not is_over_at_full_length_alone(replace(RUN, LONG), over(40, 20, 25, readings=(whole,)))


@pytest.mark.parametrize(
    ("source", "length", "words"), [(0, 4096, "4096"), (2048, 128, "2048 -> 128"), (0, UNKNOWN, UNKNOWN)]
)
def test_lengths_in_words(source: int, length: object, words: object) -> None:
    run = replace(RUN, {"sequence.source_length": source, "sequence.length": length})
    assert READERS["sequence.lengths"](Facts(run)) == words
