"""Features that keep less than the operations say: an interval, or no figure with the reason."""

from __future__ import annotations

import pytest

from memlint.memory import estimate
from memlint.run import replace
from tests.memory.runs import LORA, run

LONG: dict[str, object] = {**LORA, "sequence__length": 1024, "loss__kind": "liger"}


@pytest.mark.parametrize(
    "changes",
    [{"stack__compile": True}, {"checkpointing__mode": "selective"}, {"offload__activations": "cpu"}],
    ids=["torch.compile", "selective checkpointing", "offloaded activations"],
)
def test_what_keeps_less_by_an_unknown_amount_is_an_interval(changes: dict[str, object]) -> None:
    plain, softer = estimate(run(**LONG)), estimate(run(**LONG, **changes))
    assert softer.allocated_high_bytes == softer.allocated_bytes == plain.allocated_bytes
    checkpointed = estimate(run(**{**LONG, "checkpointing__mode": "full"}))
    assert softer.allocated_low_bytes is not None and checkpointed.allocated_bytes is not None
    assert softer.allocated_low_bytes <= checkpointed.allocated_bytes


def test_offload_with_checkpointing_moves_the_inputs_of_layers() -> None:
    """All but the first: a hook makes what comes from the frozen embedding a leaf, which the graph holds."""
    kept = estimate(run(**LONG, checkpointing__mode="full"))
    moved = estimate(run(**LONG, checkpointing__mode="full", offload__activations="cpu"))
    inputs = (4 - 1) * 2 * 1024 * 256 * 2
    assert kept.details["kept_activations_bytes"] - moved.details["kept_activations_bytes"] == inputs


@pytest.mark.parametrize("backend", ["msamp", "deepspeed"])
def test_fp8_copies_that_nobody_modelled_are_unknown(backend: str) -> None:
    assert estimate(run(precision__fp8=backend)).unknown[0].field == "precision.fp8"


def test_every_second_layer_checkpointed_is_half_way() -> None:
    """transformers 5.23 modeling_utils.py:3237."""
    none, every, full = (
        estimate(run(**LONG, checkpointing__mode=mode, checkpointing__every=2)).details["kept_activations_bytes"]
        for mode in ("none", "every_n", "full")
    )
    assert abs(every - (none + full) / 2) < 0.1 * none


def test_norms_in_fp32_are_counted_as_such() -> None:
    half = estimate(run(**LONG))
    single = estimate(run(**LONG, precision__upcast_layernorm=True))
    norms = (4 * 2 + 1) * 256
    assert single.details["weights_bytes"] - half.details["weights_bytes"] == 2 * norms


def test_logits_turned_to_fp32_by_a_hook_cost_their_copy() -> None:
    plain = estimate(run({"vocab_size": 16000}, **LORA))
    wide = estimate(run({"vocab_size": 16000}, **LORA, precision__upcast_lmhead_output=True))
    assert plain.allocated_bytes is not None and wide.allocated_bytes is not None
    assert wide.allocated_bytes >= plain.allocated_bytes


@pytest.mark.parametrize("family", ["qwen", "baichuan"])
def test_code_that_was_eager_at_first_reaches_to_what_eager_attention_keeps(family: str) -> None:
    """Which revision of the repository's code runs, a config does not say."""
    llama = run(attention__implementation="sdpa", sequence__length=2048)
    own = replace(llama, {"model.architecture": llama.model.architecture._replace(family=family)})
    eager = estimate(replace(own, {"attention.implementation": "eager"})).allocated_bytes
    flash = estimate(replace(own, {"attention.implementation": "flash_attention_2"}))
    found = estimate(own)
    assert found.allocated_bytes == flash.allocated_bytes
    assert (found.allocated_high_bytes or 0) >= eager > 1.2 * found.allocated_bytes
    assert (flash.allocated_high_bytes or flash.allocated_bytes) < eager


def test_the_first_qwen_scores_logits_in_the_dtype_that_its_head_returns() -> None:
    """The repository's own QWenLMHeadModel: no copy of them in fp32."""
    llama = run(sequence__length=2048)
    qwen = replace(llama, {"model.architecture": llama.model.architecture._replace(family="qwen")})
    logits_in_fp32 = 4 * 2 * 2048 * 4000
    assert estimate(qwen).allocated_bytes <= estimate(llama).allocated_bytes - logits_in_fp32
