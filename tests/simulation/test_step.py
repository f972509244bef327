"""One simulated step: figures recorded from real code, and what must hold between settings."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from memlint.architectures import from_config
from memlint.memory import estimate
from memlint.memory.card.allocator import replay
from memlint.run import (
    UNKNOWN,
    Attention,
    Batch,
    Checkpointing,
    Loss,
    Method,
    Model,
    Optimizer,
    Precision,
    Quantization,
    Run,
    Sequence,
    replace,
)
from memlint.simulation import Adapter, SimulatedStep, StepSettings, UnsupportedRun, simulate, simulate_settings
from memlint.simulation.as_estimate import estimate_of, tensor_lines
from memlint.simulation.precision import CudaOperators, GroupedProduct, autocast
from memlint.simulation.replay import first_two_steps
from memlint.simulation.sharding import Sharding
from memlint.simulation.tracker import Tracker
from tests.memory.runs import run as small_run

LLAMA: dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "vocab_size": 4096,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LORA = StepSettings(micro_batch_size=2, sequence_length=256, trained="lora", adapter=Adapter(rank=8), frozen="bfloat16")
FULL = StepSettings(micro_batch_size=2, sequence_length=256)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")


def simulated(settings: StepSettings, config: dict[str, Any] = LLAMA, kind: str = "LlamaConfig") -> SimulatedStep:
    return simulate_settings(kind, config, settings)


def test_reentrant_checkpointing_holds_the_gradient_of_a_layers_output() -> None:
    """The engine adds to a gradient in place unless something holds it: torch's CheckpointFunction holds that of the
    layer's output, beside the output itself."""
    pure = FULL._replace(
        sequence_length=2048, attention="eager", trainable="bfloat16", autocast="", outputs_to_fp32=False
    )
    once, never = (simulated(pure._replace(checkpointing=kind)) for kind in ("reentrant", "non_reentrant"))
    hidden = 2 * 2 * 2048 * LLAMA["hidden_size"]
    assert once.backward - never.backward == 2 * hidden


def test_a_tracker_counts_each_storage_once() -> None:
    tracker = Tracker()
    tracker.begin("forward")
    with tracker:
        first = torch.zeros(1000)
        view = first[10:20]
        second = first + 1
        assert tracker.current == 2 * 4096
        del first
        assert tracker.current == 2 * 4096  # the view keeps it
        del view
        assert tracker.current == 4096
    del second
    assert tracker.current == 0
    assert len(tracker.events) == 4


def test_autograd_adds_gradients_in_place_as_on_a_gpu() -> None:
    tracker = Tracker()
    leaf = torch.zeros(1 << 20, requires_grad=True)
    with tracker:
        tracker.begin("forward")
        loss = (leaf * 2).sum() + (leaf * 3).sum()
        base = tracker.current
        tracker.begin("backward")
        loss.backward()
    most, current = 0, base
    for event in tracker.events[tracker.marks[1][0] :]:
        current += tracker.allocations[event].bytes if event >= 0 else -tracker.allocations[~event].bytes
        most = max(most, current)
    assert most - base <= 2 * (4 << 20) + 4096


def test_a_published_model_as_recorded() -> None:
    # simulated with torch 2.13.0 and transformers 5.23.0 by an independent script: SmolLM2-135M, eager, 4 x 2048
    config = {
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "vocab_size": 49152,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    settings = StepSettings(micro_batch_size=4, sequence_length=2048, attention="eager", checkpointing="none")
    step = simulated(settings, config)
    assert (step.parameters, step.base) == (134515008, 538076672)
    assert (step.end_forward, step.forward, step.backward) == (38556323328, 40991182848, 41777483264)
    assert step.peak_phase == "backward"


def test_kinds_at_the_peak_add_up() -> None:
    for settings in (LORA, FULL, FULL._replace(checkpointing="none", attention="eager")):
        step = simulated(settings)
        assert sum(step.by_kind().values()) == step.peak
        assert sum(step.by_kind("forward").values()) == step.forward
        assert sum(line.bytes for line in step.live_at_end_forward) == step.end_forward


def test_events_replay_to_the_peak_and_end_where_they_began() -> None:
    step = simulated(LORA)
    current = highest = 0
    for event in step.events:
        current += step.sizes[event] if event >= 0 else -step.sizes[~event]
        highest = max(highest, current)
    assert highest >= step.peak
    assert current < step.base + step.optimizer_states + (1 << 20)


def test_the_first_step_makes_the_states_when_activations_are_freed() -> None:
    step = simulated(FULL)
    events, sizes = first_two_steps(step)
    at = step.moments
    before = sum(sizes[event] if event >= 0 else -sizes[~event] for event in events[: at.states])
    current, peaks = 0, []
    for event in events:
        current += sizes[event] if event >= 0 else -sizes[~event]
        peaks.append(current)
    assert max(peaks) == step.peak
    turn = at.states + at.optimizer - at.step
    assert max(peaks[:turn]) < step.peak
    assert current == pytest.approx(before + step.optimizer_states, abs=1 << 20)


def test_states_in_blocks_of_activations_reserve_less_than_states_apart() -> None:
    settings = FULL._replace(trainable="bfloat16", micro_batch_size=8, sequence_length=2048)
    step = simulated(settings, {**LLAMA, "hidden_size": 1024, "vocab_size": 32000})
    events, sizes = first_two_steps(step)
    assert step.peak <= replay(events, sizes).reserved < replay(step.events, step.sizes).reserved


def test_weights_and_states_are_counted_exactly() -> None:
    step = simulated(FULL)
    model = 4 * (256 * 256 * 2 + 2 * 256 * 128 + 3 * 256 * 704 + 2 * 256) + 256 + 2 * 4096 * 256
    assert step.parameters == step.trainable_parameters == model
    assert 8 * model <= step.optimizer_states <= 8 * model + 512 * 60


def test_knobs_move_the_peak_the_way_they_must() -> None:
    plain = simulated(FULL._replace(checkpointing="none"))
    assert simulated(FULL).peak < plain.peak
    assert simulated(FULL._replace(checkpointing="none", attention="eager")).peak > plain.peak
    assert simulated(FULL._replace(loss="liger", checkpointing="none")).backward < plain.backward
    assert simulated(FULL._replace(optimizer="adamw_torch")).optimizer_step > simulated(FULL).optimizer_step
    assert simulated(FULL._replace(accumulates=True)).forward > simulated(FULL).forward
    assert simulated(LORA).peak < simulated(FULL).peak


def test_quantised_bases_shrink_by_what_they_store() -> None:
    half = simulated(LORA)
    linear = 4 * (256 * 256 * 2 + 2 * 256 * 128 + 3 * 256 * 704)
    four = simulated(LORA._replace(quantized_bits=4))
    saved = half.base - four.base
    assert saved == pytest.approx(linear * (2 - 0.5 - 4 / 64), rel=0.02)
    double = simulated(LORA._replace(quantized_bits=4, double_quant=True))
    assert double.base < four.base
    eight = simulated(LORA._replace(quantized_bits=8))
    assert four.base < eight.base < half.base


@pytest.mark.parametrize("bits", [4, 8])
def test_dora_over_a_quantised_base_works_in_the_adapters_dtype_without_autocast(bits: int) -> None:
    wide = {**LLAMA, "hidden_size": 1024, "intermediate_size": 2816, "model_type": "llama"}
    run = run_of(
        **{
            "model.architecture": from_config({**wide, "architectures": ["LlamaForCausalLM"]}),
            "sequence.length": 64,
            "model.quantization": Quantization("bnb", bits),
            "method.use_dora": True,
            "method.adapter_dtype": "float32",
            "precision.autocast": False,
            "precision.outputs_to_fp32": False,
        }
    )
    peak = max(phase.allocated_bytes for phase in estimate(run).phases if phase.name in ("forward", "backward"))
    assert peak == pytest.approx(simulate(run).peak, rel=0.01)


def test_norms_in_fp32_hand_fp32_to_the_projections() -> None:
    run = run_of(**{"precision.upcast_layernorm": True, "checkpointing": Checkpointing("none")})
    backward = next(phase.allocated_bytes for phase in estimate(run).phases if phase.name == "backward")
    found = simulate(run)
    assert found.backward == pytest.approx(backward, rel=0.01)
    assert found.base - simulated(LORA).base == 2 * 256 * (2 * 4 + 1)


def test_kernels_of_eager_attention_need_more_than_their_outputs() -> None:
    settings = FULL._replace(attention="eager", sequence_length=1024, micro_batch_size=1, checkpointing="none")
    small = {**LLAMA, "vocab_size": 64, "num_hidden_layers": 1}
    with_them = simulated(settings, small)
    without = simulated(settings._replace(kernel_temporaries=False), small)
    assert with_them.backward - without.backward == 4 * 8 * 1024 * 1024


def run_of(**changes: object) -> Run:
    config = {**LLAMA, "model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    run = Run(
        "test",
        "test.yaml",
        model=Model(architecture=from_config(config), weights_dtype="bfloat16"),
        method=Method("lora", rank=8, targets=("all-linear",)),
        precision=Precision("bfloat16", True, outputs_to_fp32=True),
        batch=Batch(2, 1),
        sequence=Sequence(256),
        attention=Attention("flash_attention_2"),
        checkpointing=Checkpointing("full"),
        loss=Loss("plain"),
        optimizer=Optimizer("adamw_torch_fused"),
    )
    return replace(run, changes)


def test_a_run_is_simulated_as_its_settings_say() -> None:
    found, expected = simulate(run_of()), simulated(LORA)
    assert found[:10] == expected[:10]
    assert found.live_by_phase == expected.live_by_phase


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sequence.length": UNKNOWN}, "length"),
        ({"method.kind": "prefix"}, "method.kind"),
        ({"method.stage": "kto"}, "method.stage"),
        ({"model.quantization": Quantization("gptq", 4)}, "gptq"),
        ({"parallelism.engine": "deepspeed"}, "engine"),
        ({"checkpointing.mode": "selective"}, "selective"),
        ({"optimizer.name": "lomo"}, "lomo"),
        ({"stack.use_unsloth": True}, "Unsloth"),
        ({"precision.upcast_layernorm": True, "precision.autocast": False}, "norm in fp32"),
    ],
)
def test_what_cannot_be_simulated_says_so(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(UnsupportedRun, match=reason):
        simulate(run_of(**changes))


def test_fsdp2_holds_four_shards_at_the_step_and_gathers_in_between() -> None:
    settings = FULL._replace(checkpointing="non_reentrant")
    whole = simulated(settings)
    shard = Sharding(4, "bfloat16", "bfloat16")
    split = simulated(settings._replace(sharding=shard))
    assert split.optimizer_step == pytest.approx(whole.optimizer_step / 4, rel=0.02)
    assert split.base == pytest.approx(whole.base / 4, rel=0.02)
    kept = simulated(settings._replace(sharding=shard._replace(reshard_after_forward=False)))
    assert kept.end_forward > split.end_forward
    assert split.backward > split.base + split.optimizer_states


@pytest.mark.parametrize("accumulation", [1, 4])
@pytest.mark.parametrize(
    "engine",
    [
        {"parallelism.engine": "ddp"},
        {"parallelism.engine": "fsdp", "parallelism.fsdp.version": 2},
        {"parallelism.engine": "fsdp", "parallelism.fsdp.version": 2, "parallelism.fsdp.reduces_each_backward": True},
    ],
)
def test_several_gpus_step_as_the_closed_form_says(engine: dict[str, object], accumulation: int) -> None:
    """DDP's buckets are whole gradients beside the gradients; without reduction, FSDP2 accumulates whole ones."""
    ranks = {"parallelism.world_size": 4, "parallelism.data_parallel_size": 4}
    full = {"method.kind": "full", "precision.trainable_dtype": "float32"}
    run = run_of(**full, **engine, **ranks, **{"batch.gradient_accumulation_steps": accumulation})
    found, phases = simulate(run), {phase.name: phase.allocated_bytes for phase in estimate(run).phases}
    for name in ("forward", "backward"):
        assert phases[name] == pytest.approx(getattr(found, name), rel=0.005)


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("transformers", [(4, 45), (4, 48), (4, 51)])
def test_a_loss_of_the_logits_as_they_are(transformers: tuple[int, int], autocast: bool) -> None:
    config = {
        "model_type": "gpt_neox",
        "architectures": ["GPTNeoXForCausalLM"],
        "vocab_size": 16384,
        "hidden_size": 128,
        "intermediate_size": 512,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    one = small_run(
        config,
        sequence__length=512,
        precision__autocast=autocast,
        precision__outputs_to_fp32=autocast,
        attention__implementation="sdpa",
        stack__transformers=transformers,
    )
    step, closed = simulate(one), {phase.name: phase for phase in estimate(one).phases}
    assert closed["forward"].allocated_bytes == pytest.approx(step.forward, rel=0.01)
    assert closed["backward"].allocated_bytes == pytest.approx(step.backward, rel=0.01)
    # logits, the copy of the shifted ones and their log-softmax in bfloat16; before, each of them was float32
    words = 2 * 512 * 16384
    if not autocast and transformers < (4, 49):
        assert closed["forward"].components["logits"] == pytest.approx(3 * 2 * words, rel=0.01)


def test_the_same_tensors_are_the_same_figure_on_the_card() -> None:
    one = run_of()
    closed, answer = estimate(one), estimate_of(simulate(one), one)
    for name in ("device_bytes", "device_low_bytes", "device_high_bytes"):
        assert getattr(answer, name) == pytest.approx(getattr(closed, name), rel=0.02)


def test_a_step_reads_as_an_estimate() -> None:
    run, step = run_of(), simulated(LORA)
    answer = estimate_of(step, run)
    assert answer.allocated_bytes == step.peak
    assert {phase.name for phase in answer.phases} == {"forward", "backward", "optimizer_step"}
    for phase in answer.phases:
        assert sum(phase.components.values()) == phase.allocated_bytes
    backward = next(phase for phase in answer.phases if phase.name == "backward")
    assert backward.components["logits"] >= 2 * 512 * 4096 * 4
    assert answer.details["replayed_reserved_bytes"] >= step.peak
    lines = list(tensor_lines(step, 5))
    assert len(lines) == 6
    assert lines[-1].endswith("smaller groups")


def test_a_grouped_product_gives_gradients_the_strides_of_the_real_one() -> None:
    """Else autograd copies the gradient of a transposed weight, which the real operator's is taken without."""
    weight, rows = torch.ones(4, 32, 16, requires_grad=True), torch.ones(64, 16, requires_grad=True)
    ends = torch.tensor([16, 32, 48, 64], dtype=torch.int32)
    seed = torch.ones(64, 32)
    real = torch.nn.functional.grouped_mm(rows, weight.transpose(-2, -1), offs=ends)
    stand_in = GroupedProduct.apply(rows, weight.transpose(-2, -1))
    expected = torch.autograd.grad(real, (rows, weight), seed)
    found = torch.autograd.grad(stand_in, (rows, weight), seed)
    assert [one.stride() for one in found] == [one.stride() for one in expected]


def test_code_that_asks_for_autocast_without_a_device_means_that_of_cuda() -> None:
    """Also where a checkpointed layer is recomputed, outside of the model's own autocast."""
    before = torch.is_autocast_enabled
    with CudaOperators():
        with autocast(torch.bfloat16):
            assert torch.is_autocast_enabled()
            assert torch.is_autocast_enabled("cpu")
        with autocast(None), CudaOperators():
            assert not torch.is_autocast_enabled()
        assert torch.is_autocast_enabled is not before
    assert torch.is_autocast_enabled is before
