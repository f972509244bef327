"""Unsloth's runs: an interval over what its releases do, and no figure where its code is not modelled."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memlint.memory.unsloth as unsloth
from memlint.hardware import find
from memlint.lint.assumptions import assumptions
from memlint.memory import estimate
from memlint.memory.families.lookup import every
from memlint.memory.segments.of_model import segments
from memlint.memory.segments.step import training_step
from memlint.memory.state.parameters import frozen_bytes, units
from memlint.memory.values import Estimate, ModelState, UnitState
from memlint.run import UNKNOWN, Hardware, Origin, Run
from tests.frameworks import LLAMAFACTORY
from tests.memory.runs import LORA, run

UNSLOTH: dict[str, object] = {
    **LORA,
    "precision__autocast": True,
    "precision__trainable_dtype": "float32",
    "precision__outputs_to_fp32": True,
    "stack__use_unsloth": True,
    **LLAMAFACTORY,
    "sequence__length": 1024,
}
BNB: dict[str, object] = {"model__quantization__method": "bnb", "model__quantization__bits": 4}
COMPILED = ["phi3", "gemma3_text", "qwen3_moe", "gpt_oss"]  # families without a forward of Unsloth's
# A layer of Llama 3.1 8B.
LAYER = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
}


def span(found: Estimate) -> tuple[int, int, int]:
    assert found.allocated_bytes is not None
    assert found.allocated_low_bytes is not None and found.allocated_high_bytes is not None
    return found.allocated_low_bytes, found.allocated_bytes, found.allocated_high_bytes


def high(**changes: object) -> int:
    return span(estimate(run({"vocab_size": 32768}, **{**UNSLOTH, **changes})))[2]


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([name for row in every() if row.unsloth.own_forward for name in row.model_types] + COMPILED),
    st.sampled_from([(), (2024, 11), (2025, 4), (2025, 9)]),
    st.sampled_from([0.0, 0.1]),
    st.sampled_from([{}, BNB]),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from(["none", "full"]),
)
def test_the_central_figure_lies_between_the_ends(
    family: str,
    release: tuple[int, ...],
    dropout: float,
    base: dict[str, object],
    batch: int,
    offloads: bool,
    mode: str,
) -> None:
    changes = {
        **UNSLOTH,
        **base,
        "stack__unsloth": release,
        "method__dropout": dropout,
        "checkpointing.unsloth_offloads": offloads,
    }
    made = run({"model_type": family}, **{**changes, "batch__micro_batch_size": batch, "checkpointing__mode": mode})
    low, central, top = span(estimate(made))
    assert low <= central <= top
    assert low < top


def _layer(made: Run, **kernels: bool) -> tuple[float, float]:
    """KiB a token of a layer's forward and of its backward."""
    run_ = unsloth.as_patched(made)
    found = units(run_)
    step = training_step(run_, found)
    step = step._replace(kernels=step.kernels._replace(**kernels))
    state = ModelState(0, 0, 0, 0, tuple(UnitState() for _ in found), 0, 0)
    layer = segments(step, found, state)[1]
    each = 1024 * made.sequence.length  # type: ignore[operator]
    return tuple(layer.sizes.peak(one) / each for one in (layer.profile.forward, layer.profile.backward))


@pytest.mark.parametrize(
    ("base", "kernels", "expected"),
    [
        ({}, {}, (116.1, 160.8)),  # 2025.9.11 on 16 bits
        (BNB, {}, (117.8, 164.2)),
        ({}, {"adapter_output_is_separate": True, "expands_kv_heads": True}, (124.1, 200.7)),  # 2024.8 with xformers
    ],
    ids=["in 16 bits", "in 4 bits", "before addmm"],
)
def test_layers_keep_what_unsloths_functions_keep(
    base: dict[str, object], kernels: dict[str, bool], expected: tuple[float, float]
) -> None:
    """kernels/fast_lora.py of these releases ran on fake tensors: LoRA_QKV, LoRA_W and LoRA_MLP with stand-ins for
    Triton's kernels, layers checkpointed as UnslothCheckpointFunction does, 65,536 tokens, rank 32."""
    made = run(
        LAYER, **{**UNSLOTH, **base, "method__rank": 32, "sequence__length": 65536, "batch__micro_batch_size": 1}
    )
    assert _layer(made, **kernels) == pytest.approx(expected, rel=0.02)


def test_checkpoints_wait_on_the_host_or_stay() -> None:
    """Four layers' inputs of 2 x 1024 x 256 in bfloat16 lie between the ends; pinned, they are a power of two."""
    found = estimate(run(**UNSLOTH))
    assert found.details["kept_activations_bytes"] < 4 * 2 * 1024 * 256 * 2
    assert found.host_bytes == 4 * 2 * 1024 * 256 * 2


def test_llamafactory_checkpoints_whatever_the_file_says() -> None:
    none, full = (estimate(run(**UNSLOTH, checkpointing__mode=mode)) for mode in ("none", "full"))
    assert span(none) == span(full)


def test_a_script_without_checkpointing_may_go_without() -> None:
    script = {**UNSLOTH, "checkpointing.unsloth_offloads": False}
    none, full = (span(estimate(run(**script, checkpointing__mode=mode))) for mode in ("none", "full"))
    assert none[0] == full[0]
    assert none[2] > full[2]


def test_releases_that_chunk_the_loss_return_no_logits_for_accelerate() -> None:
    """bf16 logits at most, not fp32 ones beside them; up to 1,024 tokens they were whole for longer."""
    logits = 2 * 1024 * 32768
    before, since = high(stack__unsloth=(2025, 8, 4)), high(stack__unsloth=(2025, 8, 5))
    assert before - since == pytest.approx(4 * logits, rel=0.1)
    short: dict[str, object] = {"sequence__length": 512}
    assert high(stack__unsloth=(2025, 8, 4), **short) == high(stack__unsloth=(2025, 8, 5), **short)


def test_the_release_follows_transformers_where_nobody_said_it() -> None:
    assert high(stack__transformers=(4, 53)) == high(stack__unsloth=(2024, 11))
    assert high(stack__transformers=(4, 57)) == high() == high(stack__unsloth=(2025, 9))


def test_a_chunk_of_the_loss_takes_half_of_what_is_free() -> None:
    long: dict[str, object] = {"sequence__length": 65536}
    small = high(**long, hardware__memory_budget_bytes=4 << 30)
    assert small < high(**long) - (2 << 30)


def test_dynamic_copies_hold_a_quarter_of_the_layers_in_16_bits() -> None:
    names = ("meta-llama/Llama-3.1-8B", "/models/Llama-3.1-8B", "unsloth/Llama-3.1-8B-bnb-4bit", "Qwen/QwQ-32B")
    dynamic, folder, plain, most = (high(**BNB, model__name=name) for name in names)
    assert folder == plain < dynamic < most
    assert high(model__name=names[0]) == high(model__name=names[1])


def test_biases_keep_pefts_code_for_queries_keys_and_values() -> None:
    assert unsloth.as_patched(run({"model_type": "qwen2"}, **UNSLOTH)).method.fused_adapters == ("o", "mlp")
    assert unsloth.as_patched(run({"model_type": "qwen3"}, **UNSLOTH)).method.fused_adapters == ("qkv", "o", "mlp")


def test_a_mask_at_evaluation_brings_scores() -> None:
    evaluates: dict[str, object] = {"evaluation__enabled": True, "evaluation__batch_size": 8}
    assert high(**evaluates) > high() + 4 * 8 * 4 * 1024 * 1024


GRPO: dict[str, object] = {
    **UNSLOTH,
    "method__stage": "grpo",
    "batch__micro_batch_size": 4,
    "sequence__max_prompt_length": 256,
    "sequence__max_new_tokens": 768,
    "hardware": Hardware(find("T4")),
}
WORDS = 131072


def test_grpo_keeps_half_precision_logits_of_the_completions() -> None:
    """As AOTAutograd keeps them of the function that Unsloth compiles (benchmarks/referee/unsloth_grpo.py)."""
    found = estimate(run({"vocab_size": WORDS}, **GRPO))
    backward = next(one for one in found.phases if one.name == "backward")
    assert backward.components["logits"] == pytest.approx(2 * 4 * 768 * WORDS, rel=0.01)
    low, central, top = span(found)
    assert low < central <= top
    assert central - low > 0.9 * 2 * 4 * 768 * WORDS  # one row in a forward, its logits in chunks


def test_weights_of_unsloths_engine_are_on_the_card_once() -> None:
    changes = {**GRPO, **BNB, "rollout__generator": "vllm_colocate", "rollout__share": 0.5}
    own, shared = (estimate(run({**LAYER}, **changes, rollout__shares_weights=shares)) for shares in (False, True))
    frozen = frozen_bytes(units(unsloth.as_patched(run({**LAYER}, **changes))))
    assert frozen > 1 << 27
    assert (own.device_bytes or 0) - (shared.device_bytes or 0) == pytest.approx(frozen, rel=0.01)
    asleep = {**changes, "rollout__sleep_level": 2}
    awake = [
        next(
            one
            for one in estimate(run({**LAYER}, **asleep, rollout__shares_weights=shares)).phases
            if one.name == "rollout"
        )
        for shares in (False, True)
    ]
    assert awake[0].allocated_bytes - awake[1].allocated_bytes == frozen


@pytest.mark.parametrize(
    ("config", "changes", "reason"),
    [
        ({"model_type": "mamba2"}, {}, "Mamba"),
        ({}, {"method__stage": "rm"}, "stage rm"),
        ({}, {"method__kind": "full", "method__stage": "dpo"}, "stage dpo with all weights"),
        ({}, {"method__kind": "full", **BNB}, "16 bits or more"),
        ({}, {"method__kind": "freeze"}, "plain LoRA"),
        ({}, {"method__use_dora": True}, "plain LoRA"),
        ({}, {"model__quantization__method": "gptq", "model__quantization__bits": 4}, "gptq"),
        ({}, {"model__quantization__method": "bnb", "model__quantization__bits": 8}, "8 bits"),
        ({}, {"parallelism__engine": "fsdp", "parallelism__world_size": 2}, "under fsdp"),
        ({}, {"precision__compute": "float32"}, "full precision"),
    ],
)
def test_what_is_not_modelled_is_unknown(config: dict[str, object], changes: dict[str, object], reason: str) -> None:
    found = estimate(run(config, **{**UNSLOTH, **changes}))
    assert found.allocated_bytes is None
    assert found.unknown[0].field == "stack.use_unsloth"
    assert reason in found.unknown[0].reason


def test_bits_that_nobody_says_are_unknown() -> None:
    found = estimate(run({}, **{**UNSLOTH, **BNB, "model__quantization__bits": UNKNOWN}))
    assert [one.field for one in found.unknown] == ["model.quantization.bits"]


FULL: dict[str, object] = {"method__kind": "full", "method__targets": (), "batch__micro_batch_size": 1}
STATES = ("weights", "gradients", "optimizer_states")


@pytest.mark.parametrize("model_type", ["llama", "gemma3_text", "phi3"])
def test_full_training_in_bfloat16_holds_everything_in_it(model_type: str) -> None:
    """unsloth 2026.10.9 models/rl.py:2682: `Both False since bfloat16 full finetuning doesn't do any autocasting`."""
    config = {**LAYER, "model_type": model_type, "vocab_size": 32768}
    half, mixed = (
        estimate(run(config, **{**UNSLOTH, **FULL, "precision__compute": compute}))
        for compute in ("bfloat16", "float16")
    )
    step = next(one for one in half.phases if one.name == "optimizer_step")
    parts = [step.components[name] for name in STATES]
    assert parts == pytest.approx([parts[0], parts[0], 2 * parts[0]], rel=0.01)
    assert parts[0] == pytest.approx(2 * half.parameters, rel=0.01)
    wide = next(one for one in mixed.phases if one.name == "optimizer_step")
    assert wide.components["weights"] == pytest.approx(2 * parts[0], rel=0.01)


def test_full_training_lies_between_chunked_and_whole_logits() -> None:
    config = {"vocab_size": WORDS, "model_type": "gemma3_text"}
    found = estimate(run(config, **{**UNSLOTH, **FULL, "sequence__length": 65536, "stack__unsloth": (2025, 4)}))
    low, central, top = span(found)
    assert low <= central < top
    assert top - low > 1.8 * 65536 * WORDS  # logits in half precision


@pytest.mark.parametrize("model_type", ["llama", "phi3"])
@pytest.mark.parametrize("stage", ["dpo", "orpo", "kto"])
def test_preferences_read_whole_logits_or_score_them_in_chunks(model_type: str, stage: str) -> None:
    """A forward without labels returns logits (unsloth 2026.10.9 models/llama.py:2070-2185), unless models/dpo.py is
    asked for chunks of hidden states."""
    config = {"model_type": model_type, "vocab_size": WORDS}
    found = estimate(run(config, **{**UNSLOTH, "method__stage": stage, "batch__micro_batch_size": 2}))
    low, central, top = span(found)
    sequences = 2 if stage == "kto" else 4
    assert central - low > 2 * 2 * sequences * 1024 * WORDS  # logits and their log-softmax, in half precision
    assert top >= central


def test_grpo_of_compiled_families_may_get_logits() -> None:
    """A forward that was not rewritten returns logits instead of hidden states."""
    own, compiled = (
        span(estimate(run({"model_type": model_type, "vocab_size": WORDS}, **GRPO))) for model_type in ("llama", "phi3")
    )
    assert compiled[0] == pytest.approx(own[0], rel=0.1)
    assert compiled[2] - own[2] > 2 * 4 * 768 * WORDS


MOE: dict[str, object] = {"model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2}


def test_experts_in_one_stack_may_be_packed_or_not() -> None:
    """transformers 5 stacks a layer's experts, and releases of Unsloth differ in whether they pack the stack."""
    changes = {**UNSLOTH, **BNB}
    stacked, apart = (estimate(run(MOE, **changes, stack__transformers=version)) for version in ((5, 5), (4, 57)))
    packed = [
        (unit.repeat * tensor.copies, tensor)
        for unit in units(unsloth.as_patched(run(MOE, **changes, stack__transformers=(5, 5))))
        for tensor in unit.tensors
        if tensor.kind == "experts"
    ]
    saved = sum(count * (2 * tensor.numel - tensor.stored_bytes) for count, tensor in packed)
    assert saved > 20 << 20
    assert span(stacked)[2] - span(stacked)[0] > saved
    assert span(stacked)[2] - span(apart)[2] > saved / 2


def test_eager_code_is_the_upper_end_of_compiled_code() -> None:
    """In float16 some families compute in fp32."""
    half, full = (
        span(estimate(run({"model_type": "gemma3_text"}, **{**UNSLOTH, "precision__compute": compute})))[2]
        for compute in ("bfloat16", "float16")
    )
    assert full > half


def test_flex_attention_keeps_no_scores() -> None:
    """gpt-oss has no sdpa in transformers."""
    short, long = (
        span(estimate(run({"model_type": "gpt_oss"}, **{**UNSLOTH, "sequence__length": n})))[0] for n in (4096, 8192)
    )
    assert long < 2.2 * short


def test_the_interval_says_why() -> None:
    said = {one.field: one for one in assumptions(run(**UNSLOTH))}["stack.unsloth"]
    assert said.value == "any release"
    assert "4-bit copy" in said.origin
    told = run(**UNSLOTH, stack__unsloth=(2025, 9))._replace(origins={"stack.unsloth": Origin("command_line")})
    [said] = [one for one in assumptions(told) if one.field == "stack.unsloth"]
    assert said.value == "2025.9"
    assert said.origin.startswith("command line; ")


def test_the_published_length_fits_and_longer_ones_do_not() -> None:
    """Llama 3.1 8B in 4 bits, rank 32, one sequence, 24 GB: 78,475 tokens (docs.unsloth.ai, Unsloth Benchmarks)."""
    config = {**LAYER, "num_hidden_layers": 32, "vocab_size": 128256}
    card: dict[str, object] = {**UNSLOTH, **BNB, "method__rank": 32, "hardware__gpu": find("RTX4090")}
    card |= {"optimizer__name": "adamw_8bit", "batch__micro_batch_size": 1}
    verdicts = [
        estimate(run(config, **{**card, "sequence__length": length})).verdict for length in (2048, 78475, 300000)
    ]
    assert verdicts == ["fits", "tight", "out_of_memory"]
