"""Laws that hold for every run."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.memory import estimate
from memlint.memory.estimate import estimate_unless_over, least_bytes
from memlint.run import Parallelism, Run, Zero, replace
from tests.memory.runs import LORA, run

CASES = st.fixed_dictionaries(
    {
        "batch__micro_batch_size": st.integers(1, 8),
        "sequence__length": st.integers(16, 4096),
        "attention__implementation": st.sampled_from(["eager", "sdpa", "flash_attention_2"]),
        "checkpointing__mode": st.sampled_from(["none", "full"]),
        "optimizer__name": st.sampled_from(
            ["adamw_torch", "adamw_torch_fused", "adafactor", "paged_adamw_8bit", "lomo"]
        ),
        "batch__gradient_accumulation_steps": st.sampled_from([1, 4]),
        "loss__kind": st.sampled_from(["plain", "liger", "chunked", "cut", "fused_ce", "fused_head"]),
        "method__stage": st.sampled_from(["sft", "dpo", "rm", "kto"]),
    }
)
MODELS = st.fixed_dictionaries(
    {
        "num_hidden_layers": st.integers(1, 12),
        "vocab_size": st.integers(64, 50000),
        "tie_word_embeddings": st.booleans(),
        "model_type": st.sampled_from(["llama", "qwen2", "qwen3", "gemma2", "olmo2"]),
    }
)
METHODS = st.sampled_from([{}, LORA])


def allocated(case: Run) -> int:
    found = estimate(case)
    assert found.allocated_bytes is not None, found.unknown
    return found.allocated_bytes


@settings(max_examples=60, deadline=None)
@given(CASES, MODELS, METHODS)
def test_components_sum_to_what_is_allocated(changes: dict[str, Any], model: dict[str, Any], method: Any) -> None:
    for phase in estimate(run(model, **changes, **method)).phases:
        assert sum(phase.components.values()) == phase.allocated_bytes
        assert min(phase.components.values()) >= 0


@settings(max_examples=40, deadline=None)
@given(CASES, MODELS, METHODS, st.sampled_from(["batch.micro_batch_size", "sequence.length"]), st.integers(1, 3))
def test_more_tokens_never_take_less(
    changes: dict[str, Any], model: dict[str, Any], method: Any, field: str, more: int
) -> None:
    case = run(model, **changes, **method)
    value = case.batch.micro_batch_size if field.startswith("batch") else case.sequence.length
    assert isinstance(value, int)
    assert allocated(replace(case, {field: value + more})) >= allocated(case)


@settings(max_examples=40, deadline=None)
@given(CASES, MODELS, METHODS)
def test_checkpointing_never_takes_more(changes: dict[str, Any], model: dict[str, Any], method: Any) -> None:
    """Beyond the layer inputs that it keeps beside one layer's recomputation."""
    case = run(model, **changes, **method)
    without = allocated(replace(case, {"checkpointing.mode": "none"}))
    with_it = allocated(replace(case, {"checkpointing.mode": "full"}))
    length, batch = case.sequence.length, case.batch.micro_batch_size
    assert isinstance(length, int) and isinstance(batch, int)
    inputs = 4 * 2 * batch * length * 256 * (case.model.architecture.layer_type_ids.__len__() + 2)
    mask = 4 * 2 * batch * length * length
    assert with_it <= without + inputs + mask


@settings(max_examples=40, deadline=None)
@given(CASES, MODELS)
def test_lora_never_takes_more_optimizer_state_than_full(changes: dict[str, Any], model: dict[str, Any]) -> None:
    changes = {**changes, "optimizer__name": "adamw_torch"}  # factored states of adapters are as large as of weights
    full, lora = estimate(run(model, **changes)), estimate(run(model, **changes, **LORA))
    assert lora.details["optimizer_state_bytes"] <= full.details["optimizer_state_bytes"]
    assert lora.details["gradients_bytes"] <= full.details["gradients_bytes"]


PARALLELISM = st.sampled_from(
    [
        Parallelism(),
        Parallelism(4, 4, 4, engine="ddp"),
        *(Parallelism(4, 4, 4, engine="deepspeed", zero=Zero(stage)) for stage in (0, 1, 2, 3)),
        Parallelism(8, 8, 8, engine="fsdp"),
    ]
)


@settings(max_examples=60, deadline=None)
@given(CASES, MODELS, METHODS, PARALLELISM)
def test_what_a_card_needs_at_least_is_no_more_than_it_shows(
    changes: dict[str, Any], model: dict[str, Any], method: Any, parallelism: Parallelism
) -> None:
    case = run(model, **changes, **method, parallelism=parallelism)
    shown = estimate(case).device_unclamped_high_bytes

    assert shown is None or 0 < least_bytes(case) <= shown


@settings(max_examples=100, deadline=None)
@given(CASES, MODELS, METHODS, PARALLELISM, st.booleans(), st.floats(0.2, 1.3))
def test_an_estimate_ends_early_only_where_the_run_does_not_fit(
    changes: dict[str, Any], model: dict[str, Any], method: Any, parallelism: Parallelism, evaluates: bool, share: float
) -> None:
    """The bounds at which it ends are never more than the figure of the whole estimate."""
    evaluation = {"evaluation__enabled": evaluates, "evaluation__batch_size": 8}
    case = run(model, **changes, **method, **evaluation, parallelism=parallelism)
    budget = int(share * (estimate(case).device_unclamped_high_bytes or 1 << 30))
    case = replace(case, {"hardware.memory_budget_bytes": budget})

    found = estimate_unless_over(case)

    whole = estimate(case)
    assert found == whole if found is not None else (whole.device_high_bytes or budget + 1) > budget
