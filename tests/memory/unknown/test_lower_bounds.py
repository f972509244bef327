"""Estimates without a central figure: what a run allocates at least where fields of it are not known."""

from __future__ import annotations

import re
from typing import Any

import pytest

from memlint.hardware import find
from memlint.memory.estimate import estimate, estimate_as_it_stands
from memlint.memory.unknown.lower_bounds import _of_one_token
from memlint.run import UNKNOWN, Hardware, Model, Parallelism, Run, Zero, replace
from tests.comparisons.families import Step, members, run_of
from tests.memory.runs import LORA, run

FIELDS = (
    *("sequence.length", "batch.micro_batch_size", "optimizer.name"),
    *("attention.implementation", "precision.compute"),
)


FILLED = {"sequence.length_is_bound": False}


def run_without(*fields: str) -> Run:
    return replace(run(), dict.fromkeys(fields, UNKNOWN))


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_that_nobody_knows_takes_its_least_value(field: str) -> None:
    found, whole = estimate(run_without(field)), estimate(run())
    assert (found.verdict, found.device_bytes, found.unknown[0].field) == ("unknown", None, field)
    assert re.search(r"at least [\d.]+ GiB with ", found.unknown[0].reason)
    assert 0 < (found.allocated_low_bytes or 0) <= (whole.allocated_bytes or 0)


def test_a_bound_of_nothing_is_not_said() -> None:
    tiny = run_of(members()["llama"], Step("lora", False, "sdpa"))
    number = {"parallelism.world_size": UNKNOWN, "parallelism.data_parallel_size": UNKNOWN}
    found = estimate_as_it_stands(
        replace(tiny, {**number, "parallelism.engine": "fsdp", "hardware.gpu": find("A100-80GB")})
    )
    assert found.allocated_low_bytes is None
    assert found.unknown[0].field == "parallelism.world_size"
    assert "at least" not in found.unknown[0].reason


def test_an_adapter_on_weights_of_unknown_bits_is_bounded_by_4_bits() -> None:
    """A whole model trains in 16 bits or more in any case."""
    bits = {"model.quantization.bits": UNKNOWN, **FILLED}
    found = estimate(replace(run(**LORA), bits))
    assert found.unknown[0].field == "model.quantization.bits"
    assert found.unknown[0].reason.endswith(" GiB with weights in 4 bits")
    in_4_bits = estimate(run(**LORA, model__quantization__method="bnb", model__quantization__bits=4))
    assert (found.allocated_low_bytes or 0) <= (in_4_bits.allocated_bytes or 0)
    assert not estimate(replace(run(), bits)).unknown


@pytest.mark.parametrize("stage", [2, 3])
def test_gpus_that_nobody_counts_hold_no_less_than_those_of_many(stage: int) -> None:
    shared = Parallelism(world_size=UNKNOWN, engine="deepspeed", zero=Zero(stage=stage))
    found = estimate_as_it_stands(replace(run(parallelism=shared, hardware=Hardware(find("A100-80GB"))), FILLED))
    assert found.unknown[0].field == "parallelism.world_size"
    assert found.unknown[0].reason.endswith(" GiB with 1,024 GPUs")
    for gpus in (1, 2, 8, 64):
        known = estimate_as_it_stands(run(parallelism=shared._replace(world_size=gpus)))
        assert 0 < (found.allocated_low_bytes or 0) <= (known.allocated_low_bytes or known.allocated_bytes or 0)


def test_gpus_that_nobody_counts_have_no_bound_where_no_card_is_named() -> None:
    """There is nothing to compare it with, and it takes as long as an estimate."""
    found = estimate(run(parallelism=Parallelism(UNKNOWN, engine="deepspeed", zero=Zero(3))))
    assert found.allocated_low_bytes is None
    assert "at least" not in found.unknown[0].reason
    assert found.parameters == estimate(run()).parameters


def test_several_are_named_together_and_the_first_is_the_reason() -> None:
    found = estimate(run_without("sequence.length", "batch.micro_batch_size"))
    (missing,) = found.unknown
    assert missing.reason.endswith(" and sequences of one token") or missing.reason.endswith(" and a batch of one")
    one = estimate(replace(run(), {"sequence.length": 1, "batch.micro_batch_size": 1}))
    assert found.allocated_low_bytes == (one.allocated_low_bytes or one.allocated_bytes)


def test_without_a_model_there_is_no_bound() -> None:
    found = estimate(run_without("model.architecture", "sequence.length"))
    assert found.allocated_low_bytes is None
    assert "at least" not in found.unknown[0].reason


def test_a_model_of_which_the_name_states_the_size_has_a_bound_of_weights_and_what_trains() -> None:
    named = {"model.name": "/own/merged-7B-sft", "model.architecture": UNKNOWN, "model.weights_dtype": UNKNOWN}
    found = estimate(replace(run(), named))
    assert "with the 7B that its name states" in found.unknown[0].reason
    assert (found.parameters, found.verdict) == (None, "unknown")
    assert (found.allocated_low_bytes or 0) > 0.83 * 7e9 * 2


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_stated_size_is_sharded(stage: int) -> None:
    named = {"model.name": "/own/merged-7B-sft", "model.architecture": UNKNOWN, "model.weights_dtype": UNKNOWN}
    sharded = {"parallelism": Parallelism(8, 8, 8, engine="deepspeed", zero=Zero(stage))}
    found = estimate(replace(run(), {**named, **sharded}))
    assert "with the 7B that its name states" in found.unknown[0].reason
    assert (found.allocated_low_bytes or 0) > 0.83 * 7e9 * 2 / 8


@pytest.mark.parametrize("engine", ["deepspeed", "fsdp", "ddp"])
@pytest.mark.parametrize("method", ["full", "lora"])
def test_a_model_of_a_stated_size_has_a_bound_of_its_shard(engine: str, method: str) -> None:
    named = {"model.name": "/own/merged-7B-sft", "model.architecture": UNKNOWN, "model.weights_dtype": UNKNOWN}
    engines = {"parallelism.engine": engine, "parallelism.zero.stage": 3, "parallelism.fsdp.version": 2}
    cards = {"parallelism.world_size": 8, "parallelism.gpus_per_node": 8, "parallelism.data_parallel_size": 8}
    trains = {"method.kind": method, "method.rank": 8, "method.targets": ("q_proj",)}
    found = estimate(replace(run(), {**named, **engines, **cards, **trains}))
    shard = 7e9 / 8 if engine != "ddp" else 7e9
    assert (found.allocated_low_bytes or 0) > 0.8 * shard * (2 if method == "full" else 0.5)


@pytest.mark.parametrize(
    ("method", "bytes_each"), [("full", 2), ("lora", 0.5)], ids=["all of it trains", "it may be in 4 bits"]
)
def test_weights_of_an_unknown_type(method: str, bytes_each: float) -> None:
    changes = {"method.kind": method, "method.rank": 8, "method.targets": ("q_proj",), "model.weights_dtype": UNKNOWN}
    found = estimate(replace(run(), changes))
    assert "16 bits" in found.unknown[0].reason if method == "full" else "or 4 bits" in found.unknown[0].reason
    assert (found.allocated_low_bytes or 0) > bytes_each * (found.parameters or 0)


def test_a_second_model_that_nobody_knows_is_left_out() -> None:
    found = estimate(replace(run(), {"method.extra_models": (Model("own/teacher"),)}))
    assert "with the trained model alone" in found.unknown[0].reason


@pytest.mark.parametrize(
    "change",
    [{"parallelism.expert_parallel_size": 4}, {"stack.use_ktransformers": True}, {"purpose": "inference"}],
    ids=lambda change: next(iter(change)),
)
def test_a_stated_size_bounds_nothing_where_cards_divide_what_nobody_knows(change: dict[str, Any]) -> None:
    named = {"model.name": "/own/merged-7B-sft", "model.architecture": UNKNOWN, "model.weights_dtype": UNKNOWN}
    plain = replace(run(), named)
    changed = plain._replace(**change) if "purpose" in change else replace(plain, change)
    assert estimate(changed).allocated_low_bytes is None


def test_adapters_on_unknown_stacked_parameters_leave_a_bound() -> None:
    mixture = {
        "model_type": "qwen3_moe",
        "architectures": ["Qwen3MoeForCausalLM"],
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 128,
        "head_dim": 64,
    }
    adapted = {"method.kind": "lora", "method.rank": 8, "method.targets": ("q_proj",)}
    found = estimate(replace(run(mixture), {**adapted, "method.target_parameters": UNKNOWN}))
    assert found.unknown[0].field == "method.target_parameters"
    assert "no adapters on stacked experts" in found.unknown[0].reason
    assert estimate(replace(run(), {**adapted, "method.target_parameters": UNKNOWN})).allocated_bytes


def test_every_gpu_gathers_the_logits_of_all() -> None:
    """transformers 5.23 trainer.py:3013: each batch is gathered, and kept where `eval_accumulation_steps` is null."""
    cards = {"parallelism.engine": "ddp", "parallelism.world_size": 2, "parallelism.data_parallel_size": 2}
    evaluates = {**cards, "evaluation.enabled": True, "evaluation.keeps_logits": True, "evaluation.batch_size": 4}
    found = {count: estimate(replace(run(), {**evaluates, "evaluation.samples": count})) for count in (8, 16, 24)}
    peaks = [next(one for one in each.phases if one.name == "evaluation").allocated_bytes for each in found.values()]
    assert peaks[2] - peaks[1] == peaks[1] - peaks[0] == 2 * 4 * 256 * 4000 * 2
    unknown = estimate(replace(run(), {**evaluates, **FILLED}))
    assert unknown.unknown[0].field == "evaluation.samples"
    assert unknown.allocated_low_bytes == found[8].allocated_bytes


@pytest.mark.parametrize(
    ("length", "is_bound", "loose"), [(32_768, True, True), (32_768, False, False), (1024, True, True)]
)
def test_a_maximum_that_samples_need_not_reach_bounds_nothing(length: int, is_bound: bool, loose: bool) -> None:
    """The words name the memory for samples of that length; rules hear that of one token."""
    shared = Parallelism(world_size=UNKNOWN, engine="deepspeed", zero=Zero(stage=2))
    whole = run(parallelism=shared, hardware=Hardware(find("A100-80GB")))
    whole = replace(whole, {"sequence.length": length, "sequence.length_is_bound": is_bound})
    found, one = estimate_as_it_stands(whole), estimate_as_it_stands(replace(whole, {"sequence.length": 1}))
    assert (f"samples of {length} tokens" in found.unknown[0].reason) is loose
    assert (found.allocated_low_bytes == one.allocated_low_bytes) is loose


def test_one_token_of_an_encoder_too() -> None:
    read = replace(run(), {"sequence.source_length": 1024, "sequence.length": 16})
    assert (_of_one_token(read).sequence.source_length, _of_one_token(read).sequence.length) == (1, 1)
    assert _of_one_token(run()).sequence.source_length == 0
