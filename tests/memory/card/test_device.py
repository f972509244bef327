"""From tensors to the card: laws of the interval, and runs that were measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.hardware import common
from memlint.hardware.model import Gpu
from memlint.memory.card import device
from memlint.memory.estimate import estimate
from memlint.memory.state.parameters import units
from memlint.run import (
    Amount,
    Attention,
    Hardware,
    Loss,
    Method,
    Model,
    Parallelism,
    Quantization,
    Run,
    Stack,
    Zero,
    replace,
)
from tests.memory.runs import run as small_run

GIB = 1 << 30
A100 = Gpu("A100-80GB", 80 * GIB, int(79.15 * GIB), context_bytes=1268 << 20)
T4 = Gpu("T4", 16 * GIB, int(14.56 * GIB), context_bytes=141 << 20)

runs = st.builds(
    lambda gpu, method, loss, upcast, engine, world, attention, quantized, expandable: Run(
        "test",
        "test.yaml",
        model=Model(quantization=Quantization(quantized)),
        method=Method(method),
        loss=Loss(loss, upcast_logits=upcast),
        attention=Attention(attention),
        parallelism=Parallelism(world_size=world, engine=engine),
        stack=Stack(expandable_segments=expandable),
        hardware=Hardware(gpu),
    ),
    st.sampled_from([A100, T4, None]),
    st.sampled_from(["full", "lora", "freeze"]),
    st.sampled_from(["plain", "liger"]),
    st.booleans(),
    st.sampled_from(["single", "ddp", "fsdp", "deepspeed"]),
    st.integers(1, 16),
    st.sampled_from(["eager", "sdpa"]),
    st.sampled_from(["none", "bnb"]),
    st.booleans(),
)
details = st.fixed_dictionaries(
    {
        "resident_bytes": st.integers(0, 200 * GIB),
        "whole_logits_bytes": st.integers(0, 60 * GIB),
        "attention_scores_bytes": st.integers(0, 60 * GIB),
    }
)


@given(runs, st.integers(1, 300 * GIB), details)
def test_the_card_shows_more_than_its_tensors(run: Run, allocated: int, terms: dict[str, int]) -> None:
    reserved, shown, low, high = device.to_card(allocated, run, terms)
    assert allocated <= reserved <= shown
    assert low <= shown <= high
    assert shown >= allocated + device.context_bytes(run)


@given(runs, st.integers(1, 300 * GIB), details)
def test_running_out_is_certain_only_from_tensors_and_context(run: Run, allocated: int, terms: dict[str, int]) -> None:
    _, _, low, high = device.to_card(allocated, run, terms)
    usable = device.usable_bytes(run)
    answer = device.verdict(low, high, usable)
    needed = allocated + device.context_bytes(run) + device.nccl_bytes(run)
    if answer == "out_of_memory":
        assert needed > usable
    if answer == "fits":
        assert needed <= usable


@given(runs, st.integers(1, 100 * GIB), st.integers(0, 50 * GIB), details)
def test_more_tensors_never_need_less_of_the_card(run: Run, allocated: int, more: int, terms: dict[str, int]) -> None:
    assert device.card(allocated + more, run, terms).high >= device.card(allocated, run, terms).high
    assert device.card(allocated + more, run, terms).minimum >= device.card(allocated, run, terms).minimum


@given(runs, st.integers(GIB, 60 * GIB), details)
def test_expandable_segments_waste_no_more(run: Run, allocated: int, terms: dict[str, int]) -> None:
    plain = device.card(allocated, run._replace(stack=Stack(expandable_segments=False)), terms)
    expandable = device.card(allocated, run._replace(stack=Stack(expandable_segments=True)), terms)
    assert expandable.reserved <= plain.reserved


@given(runs, st.integers(1, 300 * GIB), details)
def test_the_cards_that_hold_a_run_are_those_where_its_verdict_is_fits(
    run: Run, allocated: int, terms: dict[str, int]
) -> None:
    found = device.cards_that_fit(device.steady_state(allocated, run, terms), run, common())
    for gpu in common():
        there = run._replace(hardware=Hardware(gpu))
        _, _, low, high = device.to_card(allocated, there, terms)
        fits = allocated <= gpu.usable_bytes and device.verdict(low, high, gpu.usable_bytes) == "fits"
        assert (gpu.name in found) == (fits and device.supports(gpu, run))


@pytest.mark.parametrize(
    ("changes", "left_out"),
    [
        ({}, set()),
        ({"precision.compute": "bfloat16"}, {"T4", "V100-16GB", "V100-32GB"}),
        ({"precision.tf32": True}, {"T4", "V100-16GB", "V100-32GB"}),
        ({"attention.implementation": "sdpa"}, set()),
        ({"attention.implementation": "flash_attention_2"}, {"T4", "V100-16GB", "V100-32GB"}),
        ({"attention.implementation": "flash_attention_3"}, {card.name for card in common()} - {"H100-80GB", "H200"}),
    ],
)
def test_no_card_is_named_that_lacks_what_the_run_computes_with(changes: dict[str, object], left_out: set[str]) -> None:
    run = replace(Run("t", "t"), changes)

    assert {card.name for card in common() if not device.supports(card, run)} == left_out


def _lora(gpu: Gpu, loss: Loss) -> Run:
    return Run("t", "t", method=Method("lora"), loss=loss, parallelism=Parallelism(1), hardware=Hardware(gpu))


def test_measured_run_with_a_fused_loss() -> None:
    # fms-acceleration a100_80gb, Llama-3-8B LoRA 4 x 4096 with fused linear CE: 23.20 allocated, 24.87 on the card
    card = device.card(int(23.20 * GIB), _lora(A100, Loss("liger")), {"resident_bytes": int(15.126 * GIB)})
    assert card.low <= 24.87 * GIB <= card.high
    assert card.high - card.low < 0.16 * card.device


@pytest.mark.parametrize(("share", "gave_back"), [(0.90, False), (0.97, True), (1.03, True)])
def test_near_the_end_of_the_card_cached_blocks_may_have_gone_back(share: float, gave_back: bool) -> None:
    """fms-liger-102 and fms-liger-43 showed 68.6 and 59.3 GiB, hardly more than their tensors, where a card with room
    would show 76 and 74."""
    run = replace(_lora(A100, Loss("plain")), {"hardware.fragmentation": Amount(share=0.4)})
    allocated = int((share * A100.usable_bytes - device.context_bytes(run)) / 1.4)

    card = device.card(allocated, run, {"whole_logits_bytes": 4 * GIB})

    assert (card.low == card.minimum) == gave_back


@given(st.integers(5 * GIB, 30 * GIB), st.integers(GIB, 8 * GIB), st.integers(GIB, 8 * GIB))
def test_larger_logits_make_the_interval_wider(allocated: int, logits: int, more: int) -> None:
    run = _lora(A100, Loss("plain"))
    terms = {"resident_bytes": allocated // 2}
    small = device.card(allocated, run, {**terms, "whole_logits_bytes": logits})
    large = device.card(allocated, run, {**terms, "whole_logits_bytes": logits + more})
    assert large.unclamped_high - large.device >= small.unclamped_high - small.device


def test_measured_run_with_copies_of_the_logits() -> None:
    # the same model, 8 x 4096, GPTQ base, logits upcast, fused cross entropy: 45.32 allocated, 73.58 on the card
    run = _lora(A100, Loss("fused_ce", upcast_logits=True))._replace(stack=Stack(transformers=(4, 45)))
    terms = {"resident_bytes": int(5.51 * GIB), "whole_logits_bytes": int(15.656 * GIB)}
    card = device.card(int(45.32 * GIB), run, terms)
    assert card.low <= 73.58 * GIB <= card.high
    assert device.verdict(card.low, card.high, A100.usable_bytes) == "fits"


def test_full_fine_tuning_that_filled_its_card_is_not_called_dead() -> None:
    # fms-acceleration, Llama-3-8B pure bf16 on one A100: 74.80 allocated, 75.87 on the card; it ran
    run = Run("t", "t", method=Method("full"), parallelism=Parallelism(1), hardware=Hardware(A100))
    card = device.card(int(74.80 * GIB), run, {"whole_logits_bytes": int(7.83 * GIB)})
    assert device.verdict(card.low, card.high, A100.usable_bytes) == "tight"


def test_every_constant_has_a_source() -> None:
    constants = device.constants()
    assert constants
    for name, entry in constants.items():
        found = entry.values() if name in ("terms", "slack") else [entry]
        assert all(one["source"] for one in found), name


def test_every_class_has_terms() -> None:
    table = device.constants()
    assert {entry["terms"] for entry in table["slack"].values()} == set(table["terms"])


def test_gradients_stay_beside_activations() -> None:
    # fms-acceleration, PowerLM-3B pure bf16 on one A100, 4 x 4096: 32.72 allocated, 46.56 on the card
    run = Run("t", "t", method=Method("full"), parallelism=Parallelism(1), hardware=Hardware(A100))
    moments = {"resident_bytes": 19.62, "forward_bytes": 31.71, "backward_bytes": 31.71, "gradients_bytes": 6.54}
    moments["freed_gradients_bytes"] = 6.54
    terms = {name: int(size * GIB) for name, size in moments.items()} | {"optimizer_step_temporary_bytes": 7022000000}
    card = device.card(int(32.72 * GIB), run, terms)
    assert card.low <= 46.56 * GIB <= card.high


def test_copies_of_a_step_under_zero_3_may_be_split_for_activations() -> None:
    """ms-swift 11a345d41 examples/train/packing/liger_kernel.sh: 42 GiB on each of 4 cards, 7.5 of them copies."""
    one = Run("t", "t", method=Method("full"), parallelism=Parallelism(4, engine="deepspeed"), hardware=Hardware(A100))
    moments = {"resident_bytes": 24.83, "forward_bytes": 36.14, "backward_bytes": 37.6, "gradients_bytes": 3.55}
    terms = {name: int(size * GIB) for name, size in moments.items()}
    zero3 = replace(one, {"parallelism.zero.stage": 3})
    plain, kept = (
        device.card(int(37.6 * GIB), zero3, {**terms, "optimizer_step_temporary_bytes": size}) for size in (0, 8 * GIB)
    )
    assert plain.device == kept.device
    assert kept.high > plain.high
    assert kept.low <= 42 * GIB <= kept.high


def test_a_rank_keeps_more_of_what_it_gathers_the_less_it_owns() -> None:
    two, four = (
        device.card(
            20 * GIB,
            Run(
                "t", "t", method=Method("lora"), parallelism=Parallelism(ranks, engine="fsdp"), hardware=Hardware(A100)
            ),
            {"resident_bytes": 2 * GIB, "layer_bytes": GIB // 2, "whole_logits_bytes": 0},
        )
        for ranks in (2, 4)
    )
    assert two.kind == four.kind == "sharded_fused"
    assert four.reserved > two.reserved


def test_a_run_whose_slack_does_not_fit_shows_anything_from_its_tensors_to_the_card() -> None:
    # fms-acceleration, Llama-3-8B LoRA under FSDP on 2 GPUs, 8 x 4096: 49.34 allocated, 59.26 on a card of 79.15
    run = Run(
        "t",
        "t",
        method=Method("lora"),
        loss=Loss("fused_ce", upcast_logits=True),
        parallelism=Parallelism(2, engine="fsdp"),
        stack=Stack(transformers=(4, 45)),
        hardware=Hardware(A100),
    )
    terms = {"resident_bytes": int(7.55 * GIB), "whole_logits_bytes": int(15.66 * GIB), "layer_bytes": 436 << 20}
    card = device.card(int(49.34 * GIB), run, terms)
    assert card.low <= 59.26 * GIB <= card.high
    assert card.low < 50 * GIB
    assert device.verdict(card.low, card.high, A100.usable_bytes) == "tight"


def test_slack_that_goes_back_to_the_driver_does_not_make_a_run_tight() -> None:
    # fms-acceleration, Llama-3-8B GPTQ on one A100, 8 x 4096, fused cross entropy: 45.32 allocated, 73.58 on the card
    run = _lora(A100, Loss("fused_ce", upcast_logits=True))
    run = run._replace(model=Model(quantization=Quantization("gptq")), stack=Stack(transformers=(4, 45)))
    terms = {"resident_bytes": int(5.49 * GIB), "whole_logits_bytes": int(15.656 * GIB), "layer_bytes": 436 << 20}
    card = device.card(int(45.32 * GIB), run, terms)
    assert card.low <= 73.58 * GIB <= card.high == A100.usable_bytes


def test_all_kernels_are_resident_before_lazy_loading() -> None:
    old = Run("test", "test.yaml", stack=Stack(torch=(1, 12)), hardware=Hardware(A100))
    new = Run("test", "test.yaml", stack=Stack(torch=(2, 4)), hardware=Hardware(A100))
    assert device.context_bytes(old) == 1200 << 20
    assert device.context_bytes(new) == 480 << 20


@pytest.mark.parametrize(
    ("version", "changes", "is_whole"),
    [
        ((4, 57), {}, False),
        ((5, 0), {}, True),
        ((5, 3), {}, True),
        ((5, 4), {}, False),
        ((), {}, False),
        ((5, 3), {"model.quantization.prequantized": True}, False),
        ((5, 3), {"parallelism.engine": "deepspeed", "parallelism.zero.stage": 3}, False),
    ],
)
def test_threads_may_load_all_weights_before_one_is_quantised(
    version: tuple[int, ...], changes: dict[str, object], is_whole: bool
) -> None:
    """transformers 5.0 to 5.3; huggingface/transformers#43032."""
    packed = {"model.quantization": Quantization("bnb", 4, "nf4"), "method.kind": "lora", "method.rank": 8}
    wide = {"hidden_size": 2048, "intermediate_size": 8192, "vocab_size": 100}
    one = replace(small_run(wide), {**packed, "method.targets": ("q_proj",), "stack.transformers": version, **changes})
    found = estimate(one)
    whole = 2 * sum(t.numel * u.repeat for u in units(one) for t in u.tensors if t.kind != "adapter")
    assert ((found.allocated_high_bytes or 0) >= whole) == is_whole


ASLEEP = {"rollout.generator": "vllm_colocate", "rollout.sleep_level": 2, "rollout.tensor_parallel_size": 2}


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({}, 400),
        ({"rollout.tensor_parallel_size": 1}, 0),
        ({"rollout.tensor_parallel_size": 8}, 700),
        ({"rollout.generator": "vllm"}, 0),
    ],
)
def test_an_engine_over_several_gpus_keeps_its_communicator_asleep(changes: dict[str, object], kept: int) -> None:
    """NVIDIA-NeMo/RL#223; awake it counts it in its share."""
    assert device.sleeping_engine_bytes(replace(small_run(), {**ASLEEP, **changes})) == kept << 20


def test_a_card_that_is_named_holds_the_context_of_the_engine_too() -> None:
    own, shared = (replace(small_run(), {**ASLEEP, "rollout.own_process": value}) for value in (True, False))
    gpu = common()[0]
    on_card = replace(own, {"hardware.gpu": gpu})
    outside = device._outside_of(gpu, own, device.constants())
    assert outside == device.outside_allocator(on_card)
    assert outside > device._outside_of(gpu, shared, device.constants())


def test_copies_of_a_zero_3_step_are_doubtful_where_the_allocator_may_keep_them() -> None:
    """Not with segments that grow, and not where a measurement says what stays reserved."""
    sharded = Parallelism(8, engine="deepspeed", zero=Zero(stage=3))
    run = _lora(A100, Loss("plain"))._replace(method=Method("full"), parallelism=sharded)
    details = {"forward_bytes": 30 * GIB, "backward_bytes": 30 * GIB, "optimizer_step_temporary_bytes": 8 * GIB}

    def upper(run: Run, copies: bool) -> int:
        return device.card(30 * GIB, run, details if copies else {**details, "optimizer_step_temporary_bytes": 0}).high

    grown = run._replace(stack=Stack(expandable_segments=True))
    measured = replace(run, {"hardware.fragmentation": Amount(share=0.4)})
    assert upper(run, True) > upper(run, False) + 4 * GIB
    assert [upper(one, True) - upper(one, False) for one in (grown, measured)] == [0, 0]
