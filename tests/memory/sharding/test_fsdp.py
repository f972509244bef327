"""What each FSDP knob does to the bytes, against torch 2.13 and accelerate 1.15."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.architectures.model import Architecture
from memlint.memory import estimate
from memlint.memory.sharding.fsdp import placement as fsdp
from memlint.memory.sharding.fsdp.plan import by_size, with_flat_gradients
from memlint.memory.state.parameters import MissingValue
from memlint.memory.state.parameters import total as parameters
from memlint.memory.values import ModelState, Unit, with_tensors
from memlint.run import UNKNOWN, Fsdp, Parallelism, Precision, Quantization, Run, replace
from memlint.simulation import simulate
from tests.memory.runs import TINY, run
from tests.memory.sharding.models import fsdp_run, model, tensor

UNITS = model(dtype="float32")
COUNT = parameters(UNITS)
LAYER = sum(t.numel for t in UNITS[1].tensors)
HEAD = UNITS[2].tensors[1].numel
OUTSIDE = COUNT - 4 * LAYER


def place(run: Run, units: tuple[Unit, ...] = UNITS) -> ModelState:
    return fsdp.place(run, units)


@pytest.mark.parametrize("version", [1, 2])
def test_shards_states_and_gradients_are_fp32_and_shared(version: int) -> None:
    state = place(fsdp_run(version, 4))
    assert state.weights == pytest.approx(4 * COUNT / 4, rel=0.01)
    assert state.optimizer_states == pytest.approx(8 * COUNT / 4, rel=0.05)
    assert state.gradients_at_step == pytest.approx(4 * COUNT / 4, rel=0.01)


def test_the_first_version_keeps_the_root_gathered_and_one_layer_in_flight() -> None:
    state = place(fsdp_run(1, backward_prefetch="NONE"))
    assert state.gathered_at_loss == 2 * OUTSIDE
    assert state.units[1].gathered_forward == pytest.approx(2 * (OUTSIDE + LAYER * 1.5), rel=0.01)  # its cast shard too
    assert state.units[1].gathered_backward == pytest.approx(2 * (OUTSIDE + LAYER), rel=0.01)


def test_backward_prefetch_adds_a_layer() -> None:
    without, ahead = place(fsdp_run(1, backward_prefetch="NONE")), place(fsdp_run(1))
    assert ahead.units[1].gathered_backward - without.units[1].gathered_backward == pytest.approx(2 * LAYER, rel=0.01)


def test_shard_grad_op_frees_layers_only_in_the_backward() -> None:
    state = place(fsdp_run(1, strategy="SHARD_GRAD_OP"))
    assert state.gathered_at_loss == pytest.approx(2 * COUNT, rel=0.01)
    assert state.units[1].gradient_kept == pytest.approx(4 * LAYER / 2 - 2 * LAYER, abs=64)


@pytest.mark.parametrize(
    ("version", "wrap", "reached"), [(1, "transformer", True), (1, "none", True), (2, "none", False)]
)
def test_a_frozen_weight_needs_a_gradient_in_a_flat_parameter_that_trains(
    version: int, wrap: str, reached: bool
) -> None:
    """mix51-006: without it, 12 % of a step with frozen layers is missing. The head trains here: the root's."""
    frozen = with_tensors(UNITS[:2], lambda one: one._replace(trainable=False))
    seen = with_flat_gradients(fsdp_run(version, wrap=wrap), (*frozen, UNITS[2]))
    assert [one.trainable for one in seen[0].tensors] == [reached] * len(seen[0].tensors)
    assert [one.trainable for one in seen[1].tensors] == [reached and wrap == "none"] * len(seen[1].tensors)


def test_no_shard_keeps_everything() -> None:
    state = place(fsdp_run(1, 8, strategy="NO_SHARD"))
    assert state.weights == 4 * COUNT


def test_hybrid_sharding_divides_by_the_node() -> None:
    run = replace(fsdp_run(1, 8, strategy="HYBRID_SHARD"), {"parallelism.gpus_per_node": 2})
    assert place(run).weights == pytest.approx(4 * COUNT / 2, rel=0.01)


@pytest.mark.parametrize("version", [1, 2])
def test_no_sync_keeps_whole_gradients(version: int) -> None:
    run = replace(fsdp_run(version, 8), {"batch.gradient_accumulation_steps": 4})
    assert place(run).gradients_resident == pytest.approx(2 * COUNT, rel=0.01)
    assert place(fsdp_run(version, 8)).gradients_resident == 0


@pytest.mark.parametrize(("accelerate", "whole"), [((1, 10), False), ((1, 11), True), ((), True)])
def test_before_accelerate_1_11_the_second_version_reduced_each_backward(accelerate: Any, whole: bool) -> None:
    """Its `no_sync` looked for a method that FSDP2's modules do not have."""
    changes = {"batch.gradient_accumulation_steps": 4, "stack.accelerate": accelerate}
    assert bool(place(replace(fsdp_run(2), changes)).gradients_resident) == whole
    assert place(replace(fsdp_run(1), changes)).gradients_resident


def test_the_heads_gradient_waits_for_the_embeddings() -> None:
    assert place(fsdp_run(1)).units[-1].gradient_kept >= 2 * HEAD


def test_the_second_version_holds_the_buffer_it_gathers_through() -> None:
    state = place(fsdp_run(2))
    assert state.units[1].gathered_forward >= 2 * 2 * LAYER
    assert state.gathered_at_loss == 2 * state.gathered_at_loss_backward


def test_without_resharding_everything_is_gathered_at_the_loss() -> None:
    assert place(fsdp_run(2, reshard_after_forward=False)).gathered_at_loss_backward >= 2 * COUNT


def test_offload_leaves_what_is_gathered() -> None:
    for version in (1, 2):
        state = place(fsdp_run(version, cpu_offload=True))
        assert state.weights == state.optimizer_states == state.gradients_at_step == 0
        assert state.host_bytes >= (4 + 8 + 4) * COUNT


def test_first_dimensions_are_padded_in_the_second_version() -> None:
    units = (Unit("layer", (tensor("bias", 3, 1, "bias", "float32"),)),)
    assert place(fsdp_run(2, 8), units).weights == 4
    assert place(fsdp_run(2, 2), units).weights == 8


def test_frozen_half_weights_stay_half() -> None:
    frozen = model(trainable=False)
    adapter = tensor("lora_A", 8, 64, "adapter", "float32")
    units = (frozen[0], frozen[1]._replace(tensors=(*frozen[1].tensors, adapter)), frozen[2])
    state = place(fsdp_run(2), units)
    assert state.weights == pytest.approx(2 * COUNT / 2 + 4 * 4 * 8 * 64 / 2, rel=0.01)
    assert state.gradients_at_step == 4 * 4 * 8 * 64 // 2


def test_size_wrapping_goes_innermost_first() -> None:
    """torch.distributed.fsdp.wrap: a parent is wrapped when what its children left is still large enough."""
    sizes = {"a.x.weight": 50, "a.y.weight": 10, "b.weight": 45, "c": 5}
    tensors = [tensor(name, numel, 1) for name, numel in sizes.items()]
    groups, rest = by_size(tensors, 40)
    assert [[t.name for t in group] for group in groups] == [["a.x.weight"], ["b.weight"]]
    assert {t.name for t in rest} == {"a.y.weight", "c"}
    groups, rest = by_size(tensors, 55)
    assert [[t.name for t in group] for group in groups] == [["a.x.weight", "a.y.weight"]]


def test_what_is_not_known_is_said() -> None:
    unknown = {"parallelism.data_parallel_size": UNKNOWN, "parallelism.world_size": UNKNOWN}
    with pytest.raises(MissingValue) as caught:
        place(replace(fsdp_run(1), unknown))
    assert caught.value.field == "parallelism.world_size"
    with pytest.raises(MissingValue):
        place(replace(fsdp_run(1), {"precision.compute": UNKNOWN}))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("offload", [False, True])
def test_scales_of_4_bit_weights_are_whole_on_each_rank(version: int, offload: bool) -> None:
    """bitsandbytes 0.50.2 nn/modules.py:237: `quant_state` is an attribute of the parameter that is divided."""
    packed = tensor("mlp.gate_proj.weight", 64, 64, trainable=False)._replace(dtype="nf4", stored_bytes=2048 + 640)
    frozen = model(trainable=False)
    units = (frozen[0], frozen[1]._replace(tensors=(*frozen[1].tensors, packed)), frozen[2])
    stored = Quantization("bnb", 4, "nf4", storage_dtype="bfloat16")
    run = replace(fsdp_run(version, 8, cpu_offload=offload), {"model.quantization": stored})
    more = place(run, units).weights - place(run, frozen).weights
    assert more == pytest.approx(4 * (640 if offload else 2048 / 8 + 640), abs=8)


@pytest.mark.parametrize(("release", "share"), [((), 1), ((1, 14), 1), ((1, 13), 8)])
@pytest.mark.parametrize("offload", [False, True])
def test_4_bit_weights_in_integers_stay_whole_under_the_second_version(
    release: tuple[int, ...], share: int, offload: bool
) -> None:
    """accelerate 1.14 utils/fsdp_utils.py:799 gives them to `ignored_params`, so that offload does not move them."""
    packed = tensor("mlp.gate_proj.weight", 64, 64, trainable=False)._replace(dtype="nf4", stored_bytes=2048 + 640)
    frozen = model(trainable=False)
    units = (frozen[0], frozen[1]._replace(tensors=(*frozen[1].tensors, packed)), frozen[2])
    changes = {"model.quantization": Quantization("bnb", 4, "nf4"), "stack.accelerate": release}
    run = replace(fsdp_run(2, 8, cpu_offload=offload), changes)
    more = place(run, units).weights - place(run, frozen).weights
    divided = 640 if offload else 2048 / 8 + 640
    assert more == pytest.approx(4 * (2048 + 640 if share == 1 else divided), abs=8)


def test_a_layer_of_many_is_prefetched_beside_tied_embeddings_too() -> None:
    """Before the first layer there is nothing to gather, as its embedding is the head's; before others there is."""
    units = UNITS[:2] + (UNITS[2]._replace(tensors=UNITS[2].tensors[:1]),)
    alone = (units[0], units[1]._replace(repeat=1), units[2])
    tied = Architecture("llama", "LlamaForCausalLM", 64, 512, (), (), (), tied_embeddings=True)
    run = replace(fsdp_run(2, 4), {"model.architecture": tied})
    many, one = (place(run, layers).units[1].gathered_backward for layers in (units, alone))
    assert many - one == pytest.approx(2 * LAYER, rel=0.01)


@pytest.mark.parametrize("checkpointing", ["none", "full"])
@pytest.mark.parametrize("reshards", [True, False])
@pytest.mark.parametrize(("accumulation", "each"), [(1, True), (4, True), (4, False)])
@pytest.mark.parametrize(("tied", "apart"), [(False, False), (True, False), (False, True), (True, True)])
def test_a_root_with_the_embedding_and_the_head_beside_the_real_code(
    tied: bool, apart: bool, accumulation: int, each: bool, reshards: bool, checkpointing: str
) -> None:
    """`fully_shard` of each layer, of an untied embedding if it is `apart`, and then of the model: fp32 shards,
    gathered in bf16, reduced in fp32."""
    config = {**TINY, "tie_word_embeddings": tied}
    fsdp = Fsdp(
        2,
        reshard_after_forward=reshards,
        strategy="FULL_SHARD" if reshards else "SHARD_GRAD_OP",
        param_dtype="bfloat16",
        reduce_dtype="float32",
        upcasts_trainable=False,
        reduces_each_backward=each,
        root_holds_ends=True,
        embedding_apart=apart,
    )
    found = run(
        config,
        model__weights_dtype="float32",
        precision=Precision("bfloat16", False, "float32", False, outputs_to_fp32=False),
        parallelism=Parallelism(4, 4, 4, engine="fsdp", fsdp=fsdp),
        batch__gradient_accumulation_steps=accumulation,
        checkpointing__mode=checkpointing,
        checkpointing__reentrant=False,
        sequence__length=512,
    )
    real, phases = simulate(found, config), {one.name: one.allocated_bytes for one in estimate(found).phases}
    assert phases["forward"] == pytest.approx(real.forward, rel=0.001)
    assert phases["backward"] == pytest.approx(real.backward, rel=0.001)
