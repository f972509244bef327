"""The estimate as a whole: components, unknown inputs, stages, the cost of one call."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from memlint.memory import estimate
from memlint.memory.segments.step import kernel_config
from memlint.memory.values import Estimate
from memlint.run import UNKNOWN, Parallelism, Quantization, replace
from tests.memory.runs import LORA, TINY, run


def peak(found: Estimate) -> int:
    assert found.allocated_bytes is not None, found.unknown
    return found.allocated_bytes


def phase(found: Estimate, name: str) -> int:
    return next(phase.allocated_bytes for phase in found.phases if phase.name == name)


@pytest.mark.parametrize(
    "field",
    [
        "batch__micro_batch_size",
        "sequence__length",
        "precision__compute",
        "precision__autocast",
        "precision__trainable_dtype",
        "model__weights_dtype",
        "model__architecture",
        "attention__implementation",
        "loss__kind",
        "optimizer__name",
        "checkpointing__mode",
    ],
)
def test_what_is_unknown_is_named_and_never_guessed(field: str) -> None:
    found = estimate(run(**{field: UNKNOWN}))
    assert found.allocated_bytes is None
    assert [entry.field for entry in found.unknown] == [field.replace("__", ".")]
    assert found.unknown[0].reason


def test_an_optimizer_nobody_knows_is_unknown() -> None:
    assert estimate(run(optimizer__name="wonder")).unknown[0].field == "optimizer.name"


def test_a_mixer_that_is_not_modelled_leaves_a_lower_bound() -> None:
    found = estimate(run({"model_type": "mamba", "architectures": ["MambaForCausalLM"], "state_size": 16}))
    assert found.allocated_bytes is None
    assert found.allocated_low_bytes is not None
    assert found.parameters is not None and found.allocated_low_bytes >= 8 * found.parameters


def test_an_adapter_of_unknown_rank_leaves_what_the_smallest_needs() -> None:
    filled = {**LORA, "sequence__length_is_bound": False}
    found, least = (estimate(run(**{**filled, "method__rank": rank})) for rank in (UNKNOWN, 1))
    assert found.allocated_bytes is None
    assert found.allocated_low_bytes == (least.allocated_low_bytes or least.allocated_bytes)
    assert re.search(r"at least [\d.]+ GiB with rank 1", found.unknown[0].reason)


def test_short_sequences_peak_in_the_optimizer_step_at_five_times_the_weights() -> None:
    """Weights 2, gradients 2, moments 4, foreach temporary 2 bytes a parameter (Mistral-7B: 67.46 GiB measured)."""
    found = estimate(run(sequence__length=8, batch__micro_batch_size=1))
    assert found.peak_phase == "optimizer_step"
    assert found.parameters is not None
    assert peak(found) == pytest.approx(10 * found.parameters, rel=0.01)


def test_gradients_are_resident_when_steps_accumulate() -> None:
    once = estimate(run(sequence__length=1024))
    often = estimate(run(sequence__length=1024, batch__gradient_accumulation_steps=4))
    gradients = once.details["gradients_bytes"]
    assert phase(often, "forward") - phase(once, "forward") == gradients


def test_lora_keeps_optimizer_states_for_adapters_only() -> None:
    found = estimate(run(**LORA))
    assert found.trainable_parameters is not None
    assert found.details["optimizer_state_bytes"] == pytest.approx(8 * found.trainable_parameters, rel=0.01)


def test_plain_logits_cost_twelve_bytes_each_and_fused_loss_none() -> None:
    """fp32 log-softmax, its gradient, the gradient of the logits."""
    wide: dict[str, Any] = {"config": {"vocab_size": 128000}}
    lora = {**LORA, "sequence__length": 1024, "checkpointing__mode": "full"}
    plain = estimate(run(**wide, **lora))
    fused = estimate(run(**wide, **lora, loss__kind="liger"))
    logits = 2 * 1024 * 128000
    assert phase(plain, "backward") - phase(fused, "backward") == pytest.approx(12 * logits, rel=0.06)
    assert fused.details["whole_logits_bytes"] == 0


def test_preference_stages_see_two_sequences_for_each_sample() -> None:
    single, pairs = estimate(run(**LORA)), estimate(run(**LORA, method__stage="dpo"))
    assert pairs.details["whole_logits_bytes"] == 2 * single.details["whole_logits_bytes"]


def test_a_copied_reference_model_adds_its_weights() -> None:
    shared = estimate(run(**LORA, method__stage="dpo", method__reference_model="shared"))
    copied = estimate(run(**LORA, method__stage="dpo", method__reference_model="copy"))
    assert shared.parameters is not None and shared.trainable_parameters is not None
    base = shared.parameters - shared.trainable_parameters
    assert peak(copied) - peak(shared) == pytest.approx(2 * base, rel=0.001)


TWO = {"parallelism__world_size": 2, "parallelism__gpus_per_node": 2}
ZERO3 = {**TWO, "parallelism__engine": "deepspeed", "parallelism__zero__stage": 3}
FSDP = {**TWO, "parallelism__engine": "fsdp"}


@pytest.mark.parametrize(
    ("sharded", "offload"),
    [(ZERO3, {"offload__parameters": "cpu"}), (FSDP, {"parallelism__fsdp__cpu_offload": True})],
)
def test_a_copied_reference_is_on_the_host_where_the_trained_weights_are(
    sharded: dict[str, Any], offload: dict[str, Any]
) -> None:
    """Its engine takes their settings (trl 1.16 models/utils.py, prepare_deepspeed and prepare_fsdp)."""

    def added(**changes: Any) -> tuple[int, int]:
        shared, copied = (
            estimate(run(**LORA, **sharded, **changes, method__stage="dpo", method__reference_model=one))
            for one in ("shared", "copy")
        )
        assert shared.parameters is not None and shared.trainable_parameters is not None
        weights = 2 * (shared.parameters - shared.trainable_parameters)
        return round(2 * (peak(copied) - peak(shared)) / weights), round(
            (copied.host_bytes - shared.host_bytes) / weights
        )

    assert added() == (1, 0)
    assert added(**offload) == (0, 1)


def test_evaluation_uses_its_own_batch_of_eight() -> None:
    found = estimate(run(**LORA, evaluation__enabled=True, evaluation__batch_size=UNKNOWN))
    wider = estimate(run(**LORA, evaluation__enabled=True, evaluation__batch_size=16))
    assert phase(wider, "evaluation") > phase(found, "evaluation") > 0


def test_inference_holds_the_cache_by_key_value_heads() -> None:
    short = estimate(run(purpose="inference", sequence__max_new_tokens=0))
    long = estimate(run(purpose="inference", sequence__max_new_tokens=1000))
    cache = 2 * 1000 * 4 * 2 * 2 * 64 * 2  # sequences, tokens, layers, k and v, key-value heads, head size, bytes
    caches = [one.phases[-1].components["kv_cache"] for one in (short, long)]
    assert caches[1] - caches[0] == cache
    old_keys = cache // 4 // 2  # of one layer of four, while its new ones are written
    assert phase(long, "decode") - phase(short, "decode") == cache + old_keys


def test_quantised_weights_shrink_but_not_the_head() -> None:
    whole = estimate(run(**LORA))
    packed = estimate(run(**LORA, model__quantization=Quantization("bnb", 4, "nf4", True)))
    saved = whole.details["weights_bytes"] - packed.details["weights_bytes"]
    linear = 4 * (256 * 256 * 2 + 256 * 128 * 2 + 3 * 256 * 704)
    assert saved == pytest.approx(1.5 * linear, rel=0.03)


def test_freezing_all_but_the_last_layer_keeps_nothing_below_it() -> None:
    one = estimate(run(method__kind="freeze", method__freeze_trainable_layers=1, sequence__length=2048))
    deep = estimate(
        run({"num_hidden_layers": 8}, method__kind="freeze", method__freeze_trainable_layers=1, sequence__length=2048)
    )
    layers = 4 * 2 * (256 * 256 * 2 + 256 * 128 * 2 + 3 * 256 * 704 + 512)
    assert peak(deep) - peak(one) == pytest.approx(layers, rel=0.01)


def test_kernels_own_memory_is_a_component_of_its_own() -> None:
    found = estimate(run({"vocab_size": 64}, attention__implementation="eager", sequence__length=1024))
    backward = next(phase for phase in found.phases if phase.name == "backward")
    assert backward.components["temporaries"] >= 4 * 2 * 4 * 1024 * 1024


def test_one_estimate_is_fast() -> None:
    case = run(TINY, **LORA)
    estimate(case)
    fastest = min(_seconds(case) for _ in range(20))
    assert fastest < 0.003


def _seconds(case: Any) -> float:
    start = time.perf_counter()
    estimate(case)
    return time.perf_counter() - start


def test_offloaded_checkpoints_leave_the_card() -> None:
    kept = estimate(run(**LORA, checkpointing__mode="full", sequence__length=4096))
    moved = estimate(run(**LORA, checkpointing__mode="full", sequence__length=4096, checkpointing__offload=True))
    inputs = 2 * 4096 * 256 * 2
    assert kept.details["kept_activations_bytes"] - moved.details["kept_activations_bytes"] == 3 * inputs


def test_the_embeddings_that_a_hook_makes_a_leaf_stay_on_the_card() -> None:
    """Autograd's graph holds a leaf: the first layer's input where the embedding is frozen, else none."""
    checkpoints = {"checkpointing__mode": "full", "sequence__length": 4096}
    held = []
    for method in ({}, LORA):
        kept, moved = (estimate(run(**method, **checkpoints, checkpointing__offload=one)) for one in (False, True))
        saved = kept.details["kept_activations_bytes"] - moved.details["kept_activations_bytes"]
        held.append(4 - saved / (2 * 4096 * 256 * 2))
    assert held == [0, 1]


@pytest.mark.parametrize("changes", [{}, LORA, {"checkpointing__mode": "full"}, {"purpose": "inference"}])
def test_details_are_the_figures_of_the_table(changes: dict[str, object]) -> None:
    found = estimate(run(**changes))
    shown = next(phase.components for phase in found.phases if phase.name == found.peak_phase)
    for name in ("activations", "logits"):
        assert found.details[f"{name}_bytes"] == shown[name]


@pytest.mark.parametrize(
    ("version", "eager"), [((4, 45), True), ((4, 48), False), ((4, 57), False), ((5, 20), False), ((5, 23), True)]
)
def test_gemma_2_ran_sdpa_for_a_while(version: tuple[int, ...], eager: bool) -> None:
    """`_supports_sdpa` of transformers' Gemma2PreTrainedModel by release."""
    config = {"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "head_dim": 64}
    found = estimate(run(config, attention__implementation="sdpa", stack__transformers=version))
    assert (found.details["attention_scores_bytes"] > 0) is eager


@pytest.mark.parametrize(
    ("family", "version", "eager"),
    [
        *(("llama", (4, 35), True), ("llama", (4, 36), False), ("llama", (), False)),
        *(("mistral", (4, 36), True), ("phi3", (4, 44), True), ("phi3", (4, 45), False), ("qwen2", (4, 37), False)),
        *(("gpt_neox", (4, 41), True), ("gpt_neox", (4, 42), False), ("opt", (4, 45), True), ("opt", (4, 46), False)),
    ],
)
def test_models_ran_eager_before_sdpa_came_to_them(family: str, version: tuple[int, ...], eager: bool) -> None:
    base = run(attention__implementation="sdpa", stack__transformers=version)
    found = estimate(replace(base, {"model.architecture": base.model.architecture._replace(family=family)}))
    assert (found.details["attention_scores_bytes"] > 0) is eager


def test_the_eager_attention_of_old_gpt_neox_and_opt_keeps_no_fp32_scores() -> None:
    def kept(family: str, version: tuple[int, ...], **changes: object) -> int:
        base = run(attention__implementation="eager", stack__transformers=version, loss__kind="liger", **changes)
        found = estimate(replace(base, {"model.architecture": base.model.architecture._replace(family=family)}))
        return next(phase.components["activations"] for phase in found.phases if phase.name == "forward")

    for family, version in (("gpt_neox", (4, 42)), ("opt", (4, 46))):
        # four layers, two sequences, four heads
        assert kept(family, version) - kept(family, (4, 41)) == 4 * 2 * 4 * 256 * 256 * 4
        assert kept(family, (4, 41), precision__autocast=True) == kept(family, version, precision__autocast=True)
    half = {"precision__compute": "float16"}
    assert kept("opt", (4, 41), **half) == kept("opt", (4, 46), **half) > kept("gpt_neox", (4, 41), **half)


@pytest.mark.parametrize(
    ("family", "version", "bytes_each"),
    [
        # the logits in bfloat16, fp32 ones, their log-softmax
        ("llama", (4, 51), 2 + 4 + 4),
        ("gemma3", (5, 17), 2 + 4 + 4),
        ("paligemma", (4, 52), 2 + 4 + 4),
        # and a copy of the tokens that the attention mask has
        ("gemma3", (5, 16), 2 + 4 + 4 + 4),
        ("paligemma", (4, 51), 2 + 4 + 4 + 4),
        # the copy and its log-softmax in bfloat16
        ("llava", (4, 51), 2 + 2 + 2),
        ("llava", (4, 52), 2 + 4 + 4),
        ("gpt2", (4, 47), 2 + 2 + 2),
        # the language model's fp32 logits, the copy, its log-softmax
        ("llava", (4, 45), 4 + 4 + 4),
    ],
)
def test_losses_of_models_that_had_one_of_their_own(family: str, version: tuple[int, ...], bytes_each: int) -> None:
    base = run({"vocab_size": 32768}, stack__transformers=version)
    found = estimate(replace(base, {"model.architecture": base.model.architecture._replace(family=family)}))
    forward = next(phase.components for phase in found.phases if phase.name == "forward")
    assert forward["logits"] == pytest.approx(bytes_each * 2 * 256 * 32768, rel=0.01)


def test_transformers_4_copied_each_expert_of_gpt_oss_out_of_its_stack() -> None:
    config = {
        "model_type": "gpt_oss",
        "architectures": ["GptOssForCausalLM"],
        "head_dim": 64,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "intermediate_size": 512,
    }

    def phase(name: str, version: tuple[int, ...], **changes: object) -> int:
        found = estimate(run(config, loss__kind="liger", stack__transformers=version, **changes))
        return next(one.allocated_bytes for one in found.phases if one.name == name)

    experts = 8 * (256 * 1024 + 512 * 256) * 2  # a layer's, in bfloat16
    biases = 2 * 512 * 1024 * 2  # of the gates and inner products of each token's two experts, gathered in a layer
    for changes, gathered in (
        ({}, 0),
        (LORA, biases),
    ):  # the peak of the newer code with adapters is where it holds them
        more = phase("forward", (4, 57), **changes) - phase("forward", (5, 0), **changes)
        assert more == pytest.approx(4 * experts - gathered, rel=0.03)
    checkpointed = {**LORA, "checkpointing__mode": "full"}
    more = phase("backward", (4, 57), **checkpointed) - phase("backward", (5, 0), **checkpointed)
    assert more == pytest.approx(experts - biases, rel=0.15)  # other values that the newer code holds take some of it


def test_parameters_are_the_models_however_it_is_divided() -> None:
    """transformers' plan leaves the embedding and the norms whole."""
    divided = Parallelism(2, 2, 1, engine="ddp", tensor_parallel_size=2)
    alone, shared = estimate(run()), estimate(run(parallelism=divided))
    assert (shared.parameters, shared.trainable_parameters) == (alone.parameters, alone.trainable_parameters)
    assert "parameters_per_gpu" not in alone.details
    embedding = 4000 * 256
    assert shared.details["parameters_per_gpu"] == pytest.approx((alone.parameters + embedding) / 2, rel=0.001)


@pytest.mark.parametrize("stage", ["grpo", "ppo", "online_dpo"])
def test_prompts_without_a_bound_leave_what_completions_need(stage: str) -> None:
    written = {"method__stage": stage, "rollout__generator": "vllm", "sequence__max_new_tokens": 64}
    found = estimate(run(sequence__length=UNKNOWN, **written))
    shortest = estimate(run(sequence__length=1, **{**written, "sequence__max_new_tokens": 1}))
    assert found.allocated_bytes is None
    assert found.allocated_low_bytes == (shortest.allocated_low_bytes or shortest.allocated_bytes)
    assert re.search(r"at least [\d.]+ GiB where completions have 64 tokens", found.unknown[0].reason)


def test_scores_and_experts_in_different_half_precisions_multiply_in_float32() -> None:
    """What it makes of a step is in benchmarks/data/random_plans.jsonl: Qwen3-30B-A3B in fp16, 1.4 GiB more."""
    fp16 = {"precision.autocast": True, "precision.compute": "float16"}
    adapters = replace(run(**LORA), fp16)
    assert kernel_config(adapters, False).mixes_halves
    for changes in (
        {"model.weights_dtype": "float16"},
        {"precision.compute": "bfloat16"},
        {"precision.autocast": False},
        {"method.kind": "full", "precision.trainable_dtype": "float32"},
        {"parallelism.engine": "deepspeed"},
    ):
        assert not kernel_config(replace(adapters, changes), False).mixes_halves, changes
