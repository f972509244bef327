"""What changes cost: counted where it can be, else from rows with a source; one price for one change."""

from __future__ import annotations

import pytest

from memlint.architectures.model import Weight
from memlint.fixes.costs import QUALITIES, Cost, between
from memlint.fixes.step_time import ParameterCounts, _computing_share, seconds_per_sequence, table
from memlint.hardware import find
from memlint.run import Hardware, Parallelism, Run, Zero, get, replace
from tests.memory.runs import run

FULL = ParameterCounts(7_000_000_000, 7_000_000_000)
ADAPTER = FULL._replace(trainable=20_000_000)
BASE: Run = run(
    batch__micro_batch_size=4,
    batch__gradient_accumulation_steps=4,
    sequence__length=2048,
    checkpointing__mode="full",
    hardware=Hardware(find("A100-80GB")),
)


def price(
    changes: dict[str, object], start: Run = BASE, models: tuple[ParameterCounts, ParameterCounts] = (FULL, FULL)
) -> Cost:
    return between(start, replace(start, changes), models)


def test_every_row_names_a_field_a_risk_and_a_source() -> None:
    for row in (*table()["kernels"], *table()["qualities"]):
        get(BASE, row["field"])
        assert row["quality"] in QUALITIES and len(row["source"]) > 20
    for row in (*table()["constants"], *table()["cards"]):
        assert row["source"]


def test_nothing_costs_nothing() -> None:
    assert price({}) == Cost(1.0, "none")


def test_of_experts_those_compute_that_are_chosen() -> None:
    """Offloaded weights cross the bus whole, so that they weigh more beside fewer FLOPs."""
    architecture = BASE.model.architecture
    layers = tuple(
        layer._replace(
            mlp=layer.mlp._replace(kind="moe", experts=8, experts_per_token=2),
            weights=(*layer.weights, Weight("mlp.experts.gate_up_proj", (8, 4096, 4096), "experts")),
        )
        for layer in architecture.layer_types
    )
    mixture = replace(BASE, {"model.architecture": architecture._replace(layer_types=layers)})

    assert _computing_share(architecture) == 1
    assert 0.25 < _computing_share(mixture.model.architecture) < 1
    assert seconds_per_sequence(mixture, FULL) < seconds_per_sequence(BASE, FULL)


def test_checkpointing_is_one_more_forward() -> None:
    off = replace(BASE, {"checkpointing.mode": "none"})
    assert price({"checkpointing.mode": "full"}, off).speed == pytest.approx(4 / 3, rel=0.02)


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpointing.mode": "none"},
        {"attention.implementation": "eager"},
        {"model.quantization.bits": 4},
        {"offload.optimizer": "cpu"},
    ],
)
def test_the_way_back_costs_the_inverse(changes: dict[str, object]) -> None:
    start = replace(BASE, {"attention.implementation": "sdpa", "model.quantization.bits": 16})
    there, back = replace(start, changes), between(replace(start, changes), start, (FULL, FULL))
    assert between(start, there, (FULL, FULL)).speed * back.speed == pytest.approx(1, abs=0.01)
    assert back.quality == "none"


def test_offload_weighs_less_the_more_tokens_a_step_has() -> None:
    sharded = replace(BASE, {"parallelism.engine": "deepspeed", "parallelism.zero.stage": 2})
    speeds = [
        price({"offload.optimizer": "cpu"}, replace(sharded, {"batch.gradient_accumulation_steps": steps})).speed
        for steps in (1, 4, 64)
    ]
    assert speeds == sorted(speeds, reverse=True)
    assert speeds[0] > 1.2 and speeds[-1] < 1.05
    assert price({"offload.optimizer": "cpu"}, sharded, (ADAPTER, ADAPTER)).speed < 1.02


def test_zero_2_moves_as_much_as_an_all_reduce() -> None:
    """Rajbhandari et al. 2020, arXiv 1910.02054, section 7.2.1; nothing hides either beside 256 tokens."""
    slow = {"parallelism": Parallelism(8, 8, 8, engine="ddp"), "hardware.gpu": find("RTX4090")}
    small = replace(BASE, {**slow, "batch.micro_batch_size": 1, "batch.gradient_accumulation_steps": 1})
    small = replace(small, {"sequence.length": 256})
    stage = {"parallelism.engine": "deepspeed", "parallelism.zero.stage": 2}
    assert price(stage, small).speed == pytest.approx(1, abs=0.02)


def test_gathering_hides_behind_large_batches_and_not_behind_small_ones() -> None:
    eight = Parallelism(8, 8, 8, engine="deepspeed", zero=Zero(2))
    slow = replace(BASE, {"parallelism": eight, "hardware.gpu": find("RTX4090")})
    small = replace(slow, {"batch.micro_batch_size": 1, "sequence.length": 256})
    stage = {"parallelism.zero.stage": 3}
    assert price(stage, small).speed > 1.5 > 1.05 > price(stage, slow).speed


def test_a_smaller_micro_batch_reads_the_weights_more_often() -> None:
    halves = [price({"batch.micro_batch_size": 4 // n, "batch.gradient_accumulation_steps": 4 * n}) for n in (1, 2, 4)]
    assert [cost.speed for cost in halves] == sorted(cost.speed for cost in halves)
    assert all(cost.quality == "none" for cost in halves)


def test_another_global_batch_is_a_risk() -> None:
    assert price({"batch.gradient_accumulation_steps": 2}).quality == "low"
    assert price({"batch.gradient_accumulation_steps": 1}).quality == "medium"


def test_what_steps_in_each_backward_accumulates_nothing() -> None:
    four = {"batch.micro_batch_size": 4, "batch.gradient_accumulation_steps": 8}
    fused = replace(BASE, {"optimizer.name": "adalomo", **four})
    assert price({"batch.gradient_accumulation_steps": 1}, fused).quality == "none"
    assert price({"batch.micro_batch_size": 2, "batch.gradient_accumulation_steps": 16}, fused).quality == "low"


def test_half_weights_are_a_risk_without_masters_alone() -> None:
    mixed = replace(BASE, {"precision.trainable_dtype": "float32"})
    half = {"precision.trainable_dtype": "bfloat16"}
    assert price(half, mixed).quality == "medium"
    assert price({**half, "precision.master_weights": True}, mixed).quality == "none"


def test_a_base_in_half_precision_is_a_low_risk_for_adapters_which_keep_their_own_dtype() -> None:
    adapted = replace(BASE, {"method.kind": "lora", "model.weights_dtype": "float32"})
    half = {"model.weights_dtype": "bfloat16", "precision.trainable_dtype": "bfloat16"}
    assert price(half, replace(adapted, {"precision.trainable_dtype": "float32"})).quality == "low"


def test_4_bit_weights_cross_the_bus_and_the_link_as_they_are_packed() -> None:
    eight = replace(BASE, {"parallelism": Parallelism(8, 8, 8, engine="fsdp"), "batch.micro_batch_size": 1})
    offloaded = {"parallelism.fsdp.cpu_offload": True}
    packed = {"model.quantization.method": "bnb", "model.quantization.bits": 4, "method.kind": "lora"}
    small = {**packed, "hardware.gpu": find("RTX4090"), "sequence.length": 128}
    whole = replace(eight, {**small, "model.quantization.method": "none"})
    shared = replace(eight, small)
    assert seconds_per_sequence(shared, ADAPTER) < seconds_per_sequence(whole, ADAPTER)
    assert seconds_per_sequence(replace(shared, offloaded), ADAPTER) < seconds_per_sequence(
        replace(whole, offloaded), ADAPTER
    )


def test_a_run_of_unknown_size_has_no_counted_price() -> None:
    assert seconds_per_sequence(run(), FULL) >= 0
    assert price({"checkpointing.mode": "none"}, BASE, (ParameterCounts(0, 0), ParameterCounts(0, 0))).speed == 1.0


def test_fsdp_reduces_once_a_step_unless_it_is_asked_for_more() -> None:
    eight = Parallelism(8, 8, 8, engine="fsdp")
    slow = {"parallelism": eight, "hardware.gpu": find("RTX4090"), "batch.micro_batch_size": 1, "sequence.length": 256}
    several = replace(BASE, slow)
    each = {"parallelism.fsdp.reduces_each_backward": True}
    assert 1.1 < price(each, several).speed < 4 / 3
    assert price(each, replace(several, {"batch.gradient_accumulation_steps": 1})).speed == 1
