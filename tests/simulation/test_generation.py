"""A batch of requests on fake tensors."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from memlint.simulation.generation import GenerationSettings, simulate_generation

LAYERS, HEADS, KV_HEADS, SIZE, HIDDEN, WORDS = 3, 4, 2, 16, 64, 512
CONFIG = {
    "model_type": "mistral",
    "architectures": ["MistralForCausalLM"],
    "hidden_size": HIDDEN,
    "intermediate_size": 160,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": SIZE,
    "vocab_size": WORDS,
    "sliding_window": None,
}
TOKEN = 2 * LAYERS * KV_HEADS * SIZE * 2  # bytes of keys and values in 16 bits


def simulated(window: int | None = None, **settings: object) -> object:
    defaults = {"sequences": 2, "prompt": 100, "new_tokens": 20}
    config = {**CONFIG, "sliding_window": window}
    return simulate_generation("MistralConfig", config, GenerationSettings(**{**defaults, **settings}))


def test_the_cache_holds_keys_and_values_of_every_token() -> None:
    found = simulated()
    assert (found.cached_prompt, found.cached) == (2 * 100 * TOKEN, 2 * 120 * TOKEN)
    assert found.load >= 2 * found.parameters
    assert found.prefill > found.load + found.cached_prompt and found.decode > found.load + found.cached


def test_layers_with_a_window_hold_the_whole_prompt_until_the_first_token() -> None:
    found = simulated(window=32)
    assert (found.cached_prompt, found.cached) == (2 * 100 * TOKEN, 2 * 32 * TOKEN)
    assert found.decode > found.load + found.cached_prompt


def test_eager_attention_copies_keys_for_every_head() -> None:
    fused, eager = simulated(), simulated(attention="eager")
    assert eager.decode - fused.decode >= 2 * 120 * HEADS * SIZE * 2
    assert eager.cached == fused.cached


@pytest.mark.parametrize(("bits", "share"), [(4, 0.45), (8, 0.6)])
def test_quantised_layers_take_less(bits: int, share: float) -> None:
    whole, small = simulated(), simulated(quantized_bits=bits)
    vocabulary = 2 * WORDS * HIDDEN * 2
    assert small.load - vocabulary < share * (whole.load - vocabulary)
    assert small.cached == whole.cached
