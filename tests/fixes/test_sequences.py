"""GPUs that share a sequence: where they may, and that the global batch stays."""

from __future__ import annotations

from memlint.fixes.consequences import consistent
from memlint.fixes.costs import global_batch
from memlint.fixes.moves.sequences import shared_sequences
from memlint.fixes.step_time import ParameterCounts, seconds_per_sequence
from memlint.memory import estimate
from memlint.run import Parallelism, Run, replace
from tests.memory.runs import run

FOUR = Parallelism(4, 4, 4, engine="fsdp")
LONG = {
    "batch__micro_batch_size": 1,
    "batch__gradient_accumulation_steps": 3,
    "sequence__length": 16384,
    "parallelism": FOUR,
    "planning__sequence_sharing": "parallelism.sequence_parallel_size",
}


def shared(**changes: object) -> list[Run]:
    one = run(**{**LONG, **changes})
    return [consistent(replace(one, step.changes), one) for step in shared_sequences(one)]


def test_degrees_divide_gpus_and_heads() -> None:
    (two,) = shared()  # of 2 heads of keys and values
    assert two.parallelism.sequence_parallel_size == two.parallelism.data_parallel_size == 2


def test_the_global_batch_stays() -> None:
    (two,) = shared()
    assert global_batch(two) == global_batch(run(**LONG))
    assert two.batch.gradient_accumulation_steps == 6


def test_it_saves_activations_and_takes_longer() -> None:
    before, (two,) = run(**LONG), shared()
    assert (estimate(two).allocated_bytes or 0) < (estimate(before).allocated_bytes or 0)
    counts = ParameterCounts(10**9, 10**9)
    assert seconds_per_sequence(two, counts) > seconds_per_sequence(before, counts)


def test_it_is_for_one_long_sequence_with_flash_attention() -> None:
    assert not shared(sequence__length=2048)
    assert not shared(batch__micro_batch_size=2)
    assert not shared(attention__implementation="sdpa")
    assert not shared(planning__sequence_sharing="")
    assert not shared(parallelism=Parallelism(1, 1, 1))
    sees = run().model.architecture._replace(towers=(object(),))
    assert not shared(model__architecture=sees) and shared(model__architecture=sees, planning__shares_images=True)
    assert not shared(method__stage="grpo")
    assert shared(method__stage="grpo", sequence__unpadded=True)


def test_where_all_gpus_have_to_share_no_part_of_them_does() -> None:
    """Axolotl's degrees make up all processes (0.19.0 monkeypatch/accelerate/parallelism_config.py:95)."""
    assert shared(planning__all_share_sequences=True) == []  # of 4 GPUs, and 2 heads of keys and values
    (two,) = shared(planning__all_share_sequences=True, parallelism=Parallelism(2, 2, 2, engine="fsdp"))
    assert two.parallelism.sequence_parallel_size == 2 and two.parallelism.data_parallel_size == 1
