"""What each ZeRO knob does to the bytes, against deepspeed 0.19.8's code."""

from __future__ import annotations

import pytest

from memlint.memory.sharding.zero import placement as zero
from memlint.memory.state.parameters import MissingValue
from memlint.memory.state.parameters import total as parameters
from memlint.memory.values import ModelState, Tensor, Unit
from memlint.run import UNKNOWN, Run, replace
from tests.memory.sharding.models import model, tensor, zero_run

UNITS = model()
COUNT = parameters(UNITS)


LIGER, PLAIN = {"loss.kind": "liger"}, {"loss.kind": "plain"}


def place(run: Run, units: tuple[Unit, ...] = UNITS) -> ModelState:
    return zero.place(run, units)


def backward(state: ModelState) -> int:
    """The most that the layers' backward adds."""
    return max(max(moment) for unit in state.units[:-1] for moment in unit.moments)


def test_stages_share_what_they_say() -> None:
    states = {stage: place(zero_run(stage, 4)) for stage in (0, 1, 2, 3)}
    assert states[0].optimizer_states == pytest.approx(12 * COUNT, rel=0.01)
    assert states[1].optimizer_states == pytest.approx(12 * COUNT / 4, rel=0.01)
    assert states[2].weights == 2 * COUNT
    assert states[3].weights == pytest.approx(2 * COUNT / 4, rel=0.01)
    assert states[3].gradients_resident == pytest.approx(2 * COUNT / 4, rel=0.01)


def test_a_model_that_loads_before_its_engine_is_known_is_whole_on_each_gpu_once() -> None:
    late, divided = place(zero_run(3, 4, shards_on_load=False)), place(zero_run(3, 4))
    assert late.load_peak == 2 * COUNT
    assert divided.load_peak < late.load_peak / 2
    assert late._replace(load_peak=0) == divided._replace(load_peak=0)


def test_the_bucket_of_stage_2_has_its_size_whatever_the_model() -> None:
    small, default = place(zero_run(2)), place(zero_run(2, reduce_bucket_size=500_000_000))
    assert backward(default) - backward(small) >= 2 * 499_000_000
    assert small.communication == default.communication == 0  # only while a backward runs


def test_overlapped_communication_takes_a_second_bucket() -> None:
    one = place(zero_run(2, reduce_bucket_size=10**6, overlap_comm=False))
    two = place(zero_run(2, reduce_bucket_size=10**6, overlap_comm=True))
    assert backward(two) - backward(one) == 2 * 10**6


def test_the_bucket_of_stage_3_is_there_all_the_time() -> None:
    state = place(zero_run(3, reduce_bucket_size=10**6, param_persistence_threshold=0))
    assert state.communication == state.communication_at_step == 2 * 10**6


def test_a_bucket_of_stage_3_that_is_reduced_in_fp32_is_twice_as_large() -> None:
    """DeepSpeed 0.18.5's own engine on fake tensors, Qwen3-4B on 4 GPUs: 33.265 GiB, and 34.197 where it divides
    sequences, with 5e8 elements in the bucket."""
    run = zero_run(3, reduce_bucket_size=1000)
    wide = replace(run, {"parallelism.zero.communication_dtype": "float32"})
    assert place(wide).communication - place(run).communication == 2 * 1000


def test_a_fused_step_still_converts_gradients() -> None:
    """fp32 gradients, half gradients and their flat copy: 8 bytes for each element of the rank's share."""
    state = place(zero_run(2, 2))
    assert state.gradients_at_step + state.step_temporaries == pytest.approx(8 * COUNT / 2, rel=0.01)


@pytest.mark.parametrize("optimizer", ["adamw_torch", "fused_adam"])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_half_master_weights_take_half_the_room(stage: int, optimizer: str) -> None:
    """`bf16_master_weights_and_grads` with `bf16_optimizer_states`: 6 bytes an element and not 12."""
    half = {"precision.master_dtype": "bfloat16", "optimizer.state_dtype": "bfloat16"}
    full = replace(zero_run(stage, 4), {"optimizer.name": optimizer})
    state, whole = place(replace(full, half)), place(full)
    assert whole.optimizer_states == pytest.approx(12 * COUNT / 4, rel=0.01)
    assert state.optimizer_states == pytest.approx(6 * COUNT / 4, rel=0.01)
    ends = [one.gradients_at_step + one.step_temporaries for one in (state, whole)]
    assert ends[0] <= ends[1]


def test_sub_groups_bound_the_step_of_stage_3() -> None:
    whole = place(zero_run(3, param_persistence_threshold=0))
    parts = place(zero_run(3, param_persistence_threshold=0, sub_group_size=10_000))
    assert parts.step_temporaries < whole.step_temporaries / 3
    assert parts.optimizer_states == pytest.approx(whole.optimizer_states, rel=0.01)  # rounding of each part


def test_persistent_parameters_are_whole_beside_their_share() -> None:
    everything = place(zero_run(3, param_persistence_threshold=10**9, reduce_bucket_size=0))
    nothing = place(zero_run(3, param_persistence_threshold=0, reduce_bucket_size=0))
    assert everything.communication - nothing.communication == 2 * COUNT
    assert everything.units[1].gathered_forward == 0 < nothing.units[1].gathered_forward


def test_max_live_parameters_bounds_prefetching_not_reuse() -> None:
    def gathered(**settings: int) -> int:
        run = zero_run(3, param_persistence_threshold=0, prefetch_bucket_size=10**9, **settings)
        return max(unit.gathered_forward for unit in place(run).units)

    assert gathered(max_live_parameters=50_000, max_reuse_distance=0) < gathered(
        max_live_parameters=10**9, max_reuse_distance=0
    )
    assert gathered(max_live_parameters=0, max_reuse_distance=10**9) >= 2 * COUNT


def test_one_gpu_gathers_nothing_and_keeps_everything() -> None:
    state = place(zero_run(3, 1))
    assert state.weights == 2 * COUNT
    assert {unit.gathered_forward for unit in state.units} == {0}


def test_optimizer_offload_moves_states_to_the_host() -> None:
    for stage in (1, 2, 3):
        here, there = place(zero_run(stage)), place(replace(zero_run(stage), {"offload.optimizer": "cpu"}))
        assert there.optimizer_states == 0
        assert there.host_bytes >= 2 * (here.optimizer_states + 4 * COUNT // 2)


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_cpu_optimizer_keeps_its_states_on_the_host(stage: int) -> None:
    """DeepSpeedCPUAdam allocates two fp32 states where the master weights are (deepspeed 0.19.8 ops/adam/cpu_adam.py,
    `torch.zeros_like(p.data, ..., device=device)`): as many bytes as any other Adam's."""
    offloaded = replace(zero_run(stage), {"offload.optimizer": "cpu"})
    torch_adam, cpu_adam = (replace(offloaded, {"optimizer.name": name}) for name in ("adamw_torch_fused", "cpu_adam"))
    assert place(cpu_adam).host_bytes == pytest.approx(place(torch_adam).host_bytes, abs=2 * 8 * 512)
    stateless = replace(offloaded, {"optimizer.name": "sgd"})
    assert place(cpu_adam).host_bytes - place(stateless).host_bytes >= 8 * COUNT
    assert place(cpu_adam).optimizer_states == 0


def test_what_is_on_nvme_needs_buffers_in_host_memory_alone() -> None:
    """deepspeed 0.19.8 runtime/swap_tensor/utils.py:192: `count` buffers of the largest sub-group; runtime/zero/
    stage3.py:791: the half-precision gradients stay in host memory."""
    knobs = {"offload.optimizer": "nvme", "optimizer.name": "cpu_adam", "offload.optimizer_buffer_count": 5}
    run = replace(zero_run(3, sub_group_size=10_000), knobs)
    largest = max(16_384, 10_000) + 20_000  # a sub-group ends with the tensor that fills it
    state = place(run)
    assert state.optimizer_states == 0
    assert 0 < state.host_bytes - 2 * COUNT <= 2 * 5 * 4 * largest
    whole = place(replace(zero_run(3), knobs)).host_bytes
    assert whole == pytest.approx(2 * COUNT + 5 * 4 * COUNT, rel=0.01)


def test_parameters_on_nvme_stay_in_host_memory_up_to_a_limit() -> None:
    """runtime/zero/stage3.py:897 (`max_in_cpu`), runtime/swap_tensor/partitioned_param_swapper.py:115 (buffers)."""
    knobs = {"offload.parameters": "nvme", "offload.parameters_buffer_size": 1000}
    there = place(replace(zero_run(3), knobs)).host_bytes
    nowhere = place(replace(zero_run(3), {**knobs, "offload.parameters_max_in_cpu": 0})).host_bytes
    assert nowhere == 2 * 2 * 5 * 1000
    assert there - nowhere >= 2 * COUNT


def test_parameter_offload_leaves_only_what_is_gathered() -> None:
    run = replace(zero_run(3, param_persistence_threshold=0), {"offload.parameters": "cpu"})
    state = place(run)
    assert state.weights == 0
    assert state.units[1].gathered_backward > 0


def test_stage_2_accumulates_its_share_twice_while_a_backward_runs() -> None:
    once, often = zero_run(2), replace(zero_run(2), {"batch.gradient_accumulation_steps": 4})
    assert place(once).gradients_resident == 0
    resident = place(often).gradients_resident
    assert COUNT <= resident <= 2 * COUNT
    assert backward(place(often)) == backward(place(once))


def test_stage_1_accumulates_everything() -> None:
    run = replace(zero_run(1, 8), {"batch.gradient_accumulation_steps": 4})
    assert place(run).gradients_resident == 2 * COUNT + 2 * 1000  # and the bucket, freed when they are reduced


def test_fp32_accumulation_in_stage_1_is_another_engine() -> None:
    run = replace(zero_run(1, 8), {"precision.grad_dtype": "float32"})
    assert place(run).gradients_resident == 4 * COUNT


def test_a_frozen_base_has_no_gradients() -> None:
    units = with_adapter()
    for stage in (2, 3):
        assert place(zero_run(stage), units).optimizer_states <= 12 * 8 * 64 * 4


def with_adapter(*more: Tensor) -> tuple[Unit, ...]:
    frozen = model(trainable=False)
    layer = frozen[1]._replace(tensors=(*frozen[1].tensors, tensor("lora_A", 8, 64, "adapter"), *more))
    return frozen[0], layer, frozen[2]


def test_zero_3_shares_4_bit_weights_but_not_their_constants() -> None:
    """`Init(module=...)` partitions parameters of every dtype (0.19.8 parameter_offload.py:270); in a run of two
    processes each held 16,384 of a packed tensor's 32,768 bytes. The engine has all of the model on the GPU before."""
    packed = tensor("mlp.gate_proj.weight", 64, 64, trainable=False)._replace(dtype="nf4", stored_bytes=2048 + 640)
    run = zero_run(3, 8, param_persistence_threshold=0)
    without, found = place(run, with_adapter()), place(run, with_adapter(packed))
    assert found.weights - without.weights == 4 * (2048 // 8 + 640)
    assert found.units[1].gathered_forward > without.units[1].gathered_forward
    assert found.load_peak == sum(t.stored_bytes * u.repeat for u in with_adapter(packed) for t in u.tensors)


@pytest.mark.parametrize("loss", ("liger", "cut"))
def test_a_head_that_a_fused_loss_reads_is_gathered_all_the_time(loss: str) -> None:
    settings = {"param_persistence_threshold": 0, "prefetch_bucket_size": 0, "max_reuse_distance": 0}
    run = replace(zero_run(3, **settings), {"loss.kind": loss})
    head = 2 * 512 * 64
    assert place(run).gathered_at_loss == place(run).gathered_at_loss_backward == head
    assert place(run).units[1].gathered_backward == head + place(replace(run, PLAIN)).units[1].gathered_backward


def test_ligers_loss_reads_nothing_where_the_head_is_persistent_or_labels_are_smoothed() -> None:
    whole = replace(zero_run(3, param_persistence_threshold=10**9), LIGER)
    smoothed = replace(zero_run(3), {**LIGER, "loss.label_smoothing": 0.1})
    assert place(whole).units[1].gathered_backward == 0
    assert place(smoothed) == place(replace(smoothed, PLAIN))


def test_ranks_that_share_a_sequence_share_the_states_too() -> None:
    """accelerate 1.15 accelerator.py:2394-2450 hands DeepSpeed no groups: it divides by all ranks."""
    ring = {"parallelism.data_parallel_size": 2, "parallelism.context_parallel_size": 4}
    for stage in (1, 2, 3):
        assert place(replace(zero_run(stage, 8), ring)).optimizer_states == place(zero_run(stage, 8)).optimizer_states


def test_what_is_not_known_is_said() -> None:
    for field in ("parallelism.zero.stage", "parallelism.zero.reduce_bucket_size"):
        with pytest.raises(MissingValue) as caught:
            place(replace(zero_run(2), {field: UNKNOWN}))
        assert caught.value.field == field
    with pytest.raises(MissingValue):
        place(replace(zero_run(2), {"parallelism.data_parallel_size": UNKNOWN, "parallelism.world_size": UNKNOWN}))


def test_pinned_host_buffers_are_rounded_to_a_power_of_two() -> None:
    offload = {"offload.optimizer": "cpu", "offload.parameters": "cpu"}
    pinned = {**offload, "offload.optimizer_pinned": True, "offload.parameters_pinned": True}
    for stage in (2, 3):
        loose, tight = (place(replace(zero_run(stage), settings)).host_bytes for settings in (offload, pinned))
        assert loose < tight <= 2 * loose


def test_a_partial_offload_leaves_the_first_sub_groups_on_the_gpu() -> None:
    half = replace(zero_run(3, sub_group_size=10_000), {"offload.optimizer": "cpu", "offload.optimizer_ratio": 0.5})
    whole = place(zero_run(3, sub_group_size=10_000)).optimizer_states
    assert 0.2 * whole < place(half).optimizer_states < 0.8 * whole


def test_expert_modules_are_gathered_one_by_one_unless_they_are_a_leaf() -> None:
    names = ("mlp.experts.*.up_proj.weight", "mlp.experts.*.down_proj.weight")
    experts = tuple(tensor(name, 64, 64, copies=8) for name in names)
    units = (UNITS[0], Unit("layer", experts, 4, 0), UNITS[2])
    settings = {"param_persistence_threshold": 0, "prefetch_bucket_size": 0, "max_reuse_distance": 0}
    alone = place(zero_run(3, **settings), units)
    together = place(zero_run(3, leaf_modules=("MoeBlock",), **settings), units)
    assert alone.units[1].gathered_forward == 2 * 64 * 64
    assert together.units[1].gathered_forward == 2 * 2 * 16 * 64 * 64  # the flat buffer and its copies


def test_an_absurd_model_is_refused_before_it_fills_memory() -> None:
    with pytest.raises(MissingValue):
        place(zero_run(2), (UNITS[0], UNITS[1]._replace(repeat=10**9), UNITS[2]))
