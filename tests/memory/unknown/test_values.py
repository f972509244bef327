"""Fields that a command leaves open (`--use_dora $DORA`): no figure takes them for off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import memlint.memory.unknown.values as unknown_values
from memlint.memory.estimate import estimate
from memlint.memory.estimate import estimate_uncached as uncached
from memlint.run import UNKNOWN, get, replace
from tests.memory.runs import LORA, run


def _fields(record: Any, name: str) -> Iterator[str]:
    for field, value in zip(record._fields, record):
        if hasattr(value, "_fields"):
            yield from _fields(value, f"{name}{field}.")
        elif not isinstance(value, tuple):
            yield f"{name}{field}"


PARTS = ("method", "precision", "batch", "sequence", "attention", "checkpointing", "loss", "rollout", "optimizer")
OTHER_PARTS = ("parallelism", "offload")
SHARDED: dict[str, Any] = {"parallelism.world_size": 4, "parallelism.data_parallel_size": 4}
RUNS = {
    "alone": run(**LORA),
    "FSDP": replace(run(), {**SHARDED, "parallelism.engine": "fsdp", "parallelism.fsdp.version": 1}),
    "ZeRO-3": replace(run(), {**SHARDED, "parallelism.engine": "deepspeed", "parallelism.zero.stage": 3}),
    "GRPO": replace(run(), {"method.stage": "grpo", "rollout.generator": "vllm_colocate", "rollout.share": 0.3}),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_estimator_never_fails_for_a_field_that_nobody_knows(name: str) -> None:
    known = RUNS[name]
    for part in (*PARTS, *OTHER_PARTS):
        for field in _fields(getattr(known, part), f"{part}."):
            uncached(replace(known, {field: UNKNOWN}))


def test_a_flag_that_nobody_sets_is_estimated_both_ways() -> None:
    known = run()
    on, off = (estimate(replace(known, {"loss.liger_kernels": value})) for value in (True, False))
    found = estimate(replace(known, {"loss.liger_kernels": UNKNOWN}))
    assert on.device_bytes != off.device_bytes
    assert found.device_bytes == max(on.device_bytes or 0, off.device_bytes or 0)
    assert found.device_low_bytes == min(on.device_low_bytes or 0, off.device_low_bytes or 0)
    assert [one.label for one in found.readings] == ["with `loss.liger_kernels` on", "with `loss.liger_kernels` off"]


def test_a_flag_that_decides_nothing_leaves_the_figure() -> None:
    known = run()
    found = estimate(replace(known, {"precision.tf32": UNKNOWN}))
    assert found.device_bytes == estimate(known).device_bytes and not found.readings and not found.unknown


def test_a_field_without_a_reading_is_named() -> None:
    found = estimate(replace(RUNS["FSDP"], {"parallelism.sequence_parallel_size": UNKNOWN}))
    (missing,) = found.unknown
    assert missing.field == "parallelism.sequence_parallel_size"
    assert found.allocated_low_bytes and "sequences that all GPUs share" in missing.reason


def test_a_field_is_open_if_no_annotation_lets_it_be_unknown() -> None:
    known = RUNS["FSDP"]
    assert not list(unknown_values._open_fields(known))
    for part in (*PARTS, *OTHER_PARTS):
        for field in _fields(getattr(known, part), f"{part}."):
            group, _, name = field.rpartition(".")
            kind = type(get(known, group)).__annotations__[name]
            found = [field] if kind in ("bool", "int", "float", "str") or name == "value_model" else []
            assert [one for one, _ in unknown_values._open_fields(replace(known, {field: UNKNOWN}))] == found, field
