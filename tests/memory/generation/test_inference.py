"""Runs that train nothing: layers spread over cards, the key-value cache, a server's share of the card."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.hardware import find
from memlint.memory.estimate import estimate
from memlint.memory.generation.device_map import spread
from memlint.memory.sharding.unsharded import weight_bytes
from memlint.memory.state.parameters import units
from memlint.memory.values import Estimate
from memlint.run import UNKNOWN, Hardware, Parallelism, Run
from tests.memory.runs import LLAMA_8B, TINY, run

CHAT = {"purpose": "inference", "method__kind": "none", "batch__micro_batch_size": 1}


def of(found: Estimate, name: str) -> Any:
    return next(phase for phase in found.phases if phase.name == name).components


@pytest.mark.parametrize("cards", [2, 3, 5])
@pytest.mark.parametrize(
    "config",
    [{"num_hidden_layers": 20}, {"num_hidden_layers": 33, "vocab_size": 400}, {"vocab_size": 40_000}],
    ids=["even", "many layers", "large head"],
)
def test_layers_are_spread_as_accelerate_spreads_them(config: dict[str, Any], cards: int) -> None:
    """The fullest card's weights, beside accelerate's own device map of the same model."""
    accelerate = pytest.importorskip("accelerate")
    transformers = pytest.importorskip("transformers")
    from accelerate.utils import compute_module_sizes, get_balanced_memory

    whole = {**TINY, **config}
    settings = transformers.LlamaConfig(**{k: v for k, v in whole.items() if k not in ("model_type", "architectures")})
    with accelerate.init_empty_weights():
        model = transformers.LlamaForCausalLM(settings).bfloat16()
    kept = ["LlamaDecoderLayer"]
    room = get_balanced_memory(model, dict.fromkeys(range(cards), 1 << 40), no_split_module_classes=kept)
    placed = accelerate.infer_auto_device_map(model, room, no_split_module_classes=kept)
    sizes = compute_module_sizes(model)
    theirs = [sum(sizes[name] for name, card in placed.items() if card == index) for index in range(cards)]
    ours = [sum(map(weight_bytes, card)) for card in spread(units(run(config)), cards)]
    assert max(ours) == pytest.approx(max(theirs), rel=0.01)


def test_together_the_cards_hold_the_model() -> None:
    whole = units(run())
    for cards in (1, 2, 7):
        parts = spread(whole, cards)
        assert sum(weight_bytes(unit) for card in parts for unit in card) == sum(
            weight_bytes(unit) * unit.repeat for unit in whole
        )


def test_a_spread_model_needs_a_share_of_each_card() -> None:
    many = {"num_hidden_layers": 40}
    alone = estimate(run(many, **CHAT))
    shared = estimate(run(many, **CHAT, parallelism=Parallelism(4, 4, 4, engine="device_map")))
    assert of(shared, "load")["weights"] < 0.35 * of(alone, "load")["weights"]
    assert of(shared, "decode")["kv_cache"] < 0.35 * of(alone, "decode")["kv_cache"]
    assert shared.parameters == alone.parameters


def test_the_cache_grows_with_what_is_generated_and_with_beams() -> None:
    """2 x layers x kv heads x head size x tokens, in the compute dtype."""
    beams = {**CHAT, "evaluation__num_beams": 3, "sequence__max_new_tokens": 100}
    found = estimate(run(**beams))
    token = 2 * 4 * 2 * 64 * 2
    assert of(found, "prefill")["kv_cache"] == 3 * 256 * token
    assert of(found, "decode")["kv_cache"] == 3 * 356 * token


def test_without_a_cache_each_token_runs_the_whole_sequence() -> None:
    long = {**CHAT, "sequence__max_new_tokens": 4000}
    cached, anew = estimate(run(**long)), estimate(run(**long, serving__uses_cache=False))
    assert "kv_cache" not in of(anew, "decode")
    assert of(anew, "decode")["activations"] > 10 * of(cached, "decode")["activations"]


def test_an_evaluation_alone_builds_all_logits_and_no_cache() -> None:
    found = estimate(run(**CHAT, evaluation__enabled=True, evaluation__batch_size=4))
    assert [phase.name for phase in found.phases] == ["load", "evaluation"]
    assert of(found, "evaluation")["logits"] >= 4 * 256 * 4000 * 2
    assert of(found, "evaluation")["optimizer_states"] == 0


def served(engine: str, gpu: str = "RTX4090", **changes: object) -> Run:
    world = changes.pop("world", 1)
    parallelism = Parallelism(world, world, 1, engine=engine, tensor_parallel_size=world)  # type: ignore[arg-type]
    hardware = Hardware(gpu=find(gpu))
    defaults = {"serving__memory_share": 0.7, "hardware": hardware, "parallelism": parallelism}
    return run(LLAMA_8B, **{**CHAT, "sequence__length": 4096, **defaults, **changes})


def test_vllm_fills_its_share_with_weights_and_cache() -> None:
    """Llama-3-8B keeps 128 KiB a token: 2 x 32 layers x 8 heads x 128 x 2 bytes."""
    found = estimate(served("vllm"))
    usable = find("RTX4090").usable_bytes  # type: ignore[union-attr]
    assert found.allocated_bytes == pytest.approx(0.7 * usable, rel=1e-6)
    assert found.details["cache_request_bytes"] == 4096 * 131072
    assert found.details["cache_tokens"] == found.details["cache_bytes"] // 131072
    assert found.details["cache_requests"] == found.details["cache_tokens"] // 4096 == 2
    assert found.verdict == "fits"


def test_a_server_without_room_for_one_request_does_not_start() -> None:
    assert estimate(served("vllm", sequence__length=65536)).verdict == "out_of_memory"
    assert estimate(served("vllm", serving__memory_share=0.5)).verdict == "out_of_memory"
    assert estimate(served("vllm", gpu="A100-80GB", sequence__length=65536)).verdict == "fits"


def test_sglang_has_activations_beside_its_share() -> None:
    vllm, sglang = estimate(served("vllm")), estimate(served("sglang"))
    assert sglang.details["cache_bytes"] > vllm.details["cache_bytes"] - (1 << 29)
    assert sglang.device_high_bytes == sglang.budget_bytes


def test_cards_that_share_layers_share_the_cache_by_heads() -> None:
    one, two, many = (estimate(served("vllm", gpu="A100-80GB", world=count)).details for count in (1, 2, 16))
    assert two["cache_request_bytes"] == one["cache_request_bytes"] // 2
    assert many["cache_request_bytes"] == one["cache_request_bytes"] // 8  # keys of 8 heads, each on two cards
    assert two["weights_bytes"] == pytest.approx(one["weights_bytes"] / 2, rel=0.01)


def test_what_a_server_fills_is_unknown_without_a_card() -> None:
    found = estimate(served("vllm", hardware=Hardware()))
    assert [field for field, _ in found.unknown] == ["hardware.gpu"]
    assert found.parameters == pytest.approx(8.03e9, rel=0.001)
    assert estimate(served("vllm", serving__memory_share=UNKNOWN)).unknown[0].field == "serving.memory_share"


def test_no_move_and_no_zero_is_offered_to_what_trains_nothing() -> None:
    from memlint.fixes.moves.catalog import steps
    from memlint.fixes.moves.hardware import advice

    chat = run(LLAMA_8B, **CHAT, hardware=Hardware(gpu=find("T4")))
    assert steps(chat) == ()
    assert not any("ZeRO" in fix.title for fix in advice(chat, estimate(chat), estimate))
    spread_over = chat._replace(parallelism=Parallelism(1, 1, 1, engine="device_map"))
    assert advice(spread_over, estimate(spread_over), estimate)[0].title == "use 2 of these cards"
