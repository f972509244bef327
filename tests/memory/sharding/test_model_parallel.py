"""Which tensors and activations model parallelism divides."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.memory.sharding.model_parallel import activation_divisors, in_compute_dtype, shard_units, stages
from memlint.memory.state.parameters import total
from memlint.memory.values import Tensor, Unit
from memlint.run import Parallelism, Run, replace
from tests.memory.sharding.models import model, tensor

UNITS = model()


def run(engine: str = "single", **degrees: int) -> Run:
    return replace(
        Run("test", "test.yaml", parallelism=Parallelism(8, 8, 1, engine=engine, **degrees)),
        {"batch.gradient_accumulation_steps": 8},
    )


def named(units: tuple[Unit, ...], name: str) -> Tensor:
    return next(t for unit in units for t in unit.tensors if t.name == name)


def test_without_degrees_nothing_changes() -> None:
    assert shard_units(run(), UNITS) == UNITS
    assert set(activation_divisors(run())) == {1}


def test_layers_that_share_their_tensors_still_do_in_another_dtype() -> None:
    layer = Unit("layer", (tensor("mlp.up_proj.weight", 64, 64),), 2, 0)
    half = replace(run("fsdp"), {"precision.compute": "float16"})
    found = in_compute_dtype(half, (layer, layer._replace(layer_index=2)))
    assert found[0].tensors is found[1].tensors and found[1].layer_index == 2


def test_tensor_parallelism_splits_matrices_not_norms() -> None:
    found = shard_units(run(tensor_parallel_size=4), UNITS)
    assert named(found, "mlp.up_proj.weight").numel == 4 * 64 * 64 // 4
    assert named(found, "mlp.up_proj.weight").stored_bytes == 2 * 4 * 64 * 64 // 4
    assert named(found, "input_layernorm.weight").numel == 64
    assert named(found, "lm_head.weight").numel == 512 * 64 // 4


@pytest.mark.parametrize(
    ("engine", "split"), [("single", False), ("fsdp", False), ("deepspeed", True), ("megatron", True)]
)
def test_who_splits_the_embedding(engine: str, split: bool) -> None:
    found = shard_units(run(engine, tensor_parallel_size=2), UNITS)
    assert named(found, "embed_tokens.weight").numel == 512 * 64 // (2 if split else 1)


def test_experts_spread_over_expert_parallel_gpus() -> None:
    stacked = tensor("mlp.experts.gate_up_proj", 8, 100, "experts")
    separate = tensor("mlp.experts.*.up_proj.weight", 10, 10, copies=8)
    units = (Unit("layer", (stacked, separate, tensor("mlp.gate.weight", 8, 64, "router"))),)
    found = shard_units(run(expert_parallel_size=4), units)
    assert [(t.numel, t.copies) for t in found[0].tensors] == [(200, 1), (100, 2), (512, 1)]


def test_the_ends_of_a_pipeline() -> None:
    pipeline = run("megatron", pipeline_parallel_size=2)
    assert stages(pipeline) == (0, 1)
    first, last = (shard_units(pipeline, UNITS, stage) for stage in stages(pipeline))
    assert [unit.repeat for unit in first] == [1, 2, 1]
    assert first[0].tensors and not first[-1].tensors
    assert last[-1].tensors and not last[0].tensors
    assert activation_divisors(pipeline, 0).in_flight == 2
    assert activation_divisors(pipeline, 1).in_flight == 1


def test_sequence_and_context_parallelism_divide_tokens() -> None:
    assert activation_divisors(run("deepspeed", sequence_parallel_size=4)).tokens == 4
    assert activation_divisors(run("fsdp", context_parallel_size=2)).tokens == 2
    assert activation_divisors(run("fsdp", tensor_parallel_size=2)).logits == 1
    assert activation_divisors(run("megatron", tensor_parallel_size=2)).logits == 2


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 4))
def test_the_stages_of_a_pipeline_hold_the_model_once(layers: int, size: int) -> None:
    units: Any = model(layers=layers)
    pipeline = run("megatron", pipeline_parallel_size=size)
    held = [total(shard_units(pipeline, units, stage)) for stage in range(size)]
    assert sum(held) == total(units)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([2, 3, 4, 7]))
def test_tensor_parallel_shards_cover_the_model(size: int) -> None:
    shard = total(shard_units(run("megatron", tensor_parallel_size=size), UNITS))
    assert total(UNITS) / size <= shard < total(UNITS)


def test_operations_see_the_engines_dtype() -> None:
    units = model(dtype="float32")
    mixed = replace(run("fsdp"), {"precision.compute": "bfloat16", "precision.autocast": True})
    half = replace(run("deepspeed"), {"precision.compute": "float16", "precision.autocast": False})
    assert {t.dtype for unit in in_compute_dtype(mixed, units) for t in unit.tensors} == {"bfloat16"}
    assert {t.dtype for unit in in_compute_dtype(half, units) for t in unit.tensors} == {"float16"}
    assert in_compute_dtype(run(), units) == units
    packed = tensor("q", 8, 8)._replace(dtype="nf4", stored_bytes=32)
    assert in_compute_dtype(mixed, (Unit("layer", (packed,)),))[0].tensors == (packed,)


def test_frozen_weights_of_the_other_half_act_as_fp32_ones() -> None:
    """bf16 + fp16 is fp32, and every product casts its weight; trainable ones keep their gradients' dtype, and stacked
    experts compute in their own."""
    frozen = (tensor("mlp.up_proj.weight", 8, 8), tensor("mlp.experts.up_proj", 8, 64, "experts"))
    trained = tensor("input_layernorm.weight", 8, 1, "norm")
    units = (Unit("layer", tuple(one._replace(dtype="bfloat16", trainable=False) for one in frozen) + (trained,)),)
    half = {"model.weights_dtype": "bfloat16", "precision.compute": "float16", "precision.autocast": True}
    seen = in_compute_dtype(replace(run(), half), units)
    assert [one.dtype for one in seen[0].tensors] == ["float32", "bfloat16", trained.dtype]
    assert [one.stored_bytes for one in seen[0].tensors] == [one.stored_bytes for one in units[0].tensors]
    for same in ({"precision.compute": "bfloat16"}, {"precision.autocast": False}):
        assert in_compute_dtype(replace(run(), {**half, **same}), units) == units
