"""What vLLM and SGLang take of a card and how many requests they hold, beside the engines' own arithmetic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memlint.architectures.resolve import resolve
from memlint.hardware.named import named_gpu
from memlint.question import Answer, answer, question_of

REQUESTS = Path(__file__).parents[3] / "benchmarks" / "data" / "vllm_requests.jsonl"
MODELS = {
    "NousResearch/Meta-Llama-3-8B": (1, 2, 8, 16),
    "meta-llama/Llama-2-7b-hf": (1, 4),
    "meta-llama/Llama-3.1-70B": (4, 8),
    "Qwen/Qwen2.5-7B": (1, 2, 4),
    "Qwen/Qwen2.5-0.5B": (1, 2),
    "Qwen/Qwen3-8B": (1, 2),
    "mistralai/Mistral-7B-v0.1": (1, 2),
    "mistralai/Mixtral-8x7B-v0.1": (4, 8),
    "google/gemma-2-9b": (1, 8),
    "microsoft/phi-2": (1,),
    "deepseek-ai/DeepSeek-V2-Lite": (1, 2, 8),
}
CASES = [(model, cards) for model, counts in MODELS.items() for cards in counts]


def served(model: str, engine: str, cards: int, **more: Any) -> Answer:
    asked = {"model": model, "inference": True, "engine": engine, "gpu": "H100", "gpus": cards, **more}
    return answer(question_of(asked))


def dimensions(model: str) -> dict[str, Any]:
    config = dict(resolve(model).config or {})
    config.setdefault("num_key_value_heads", config["num_attention_heads"])
    config["head_dim"] = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return config


def windows(config: dict[str, Any]) -> list[int]:
    """The window of each layer, 0 for none. Gemma 2: every other layer, beginning with the first (transformers 5.23.0
    models/gemma2/configuration_gemma2.py)."""
    window = config.get("sliding_window") or 0
    count = config["num_hidden_layers"]
    if config["model_type"] == "gemma2":
        return [window if index % 2 == 0 else 0 for index in range(count)]
    return [window if config["model_type"] == "mistral" else 0] * count


def heads_on_a_card(config: dict[str, Any], cards: int) -> int:
    """Copied where there are fewer (vLLM 0.33.0 config/model.py:1663, SGLang 0.5.23 configs/model_config.py:1700)."""
    return int(max(1, config["num_key_value_heads"] // cards))


def a_state(config: dict[str, Any], cards: int, width: int) -> int:
    """Bytes of one token in one layer on one card: AttentionSpec.state_content_size_bytes x heads; MLA's latent is
    whole on each card (v1/kv_cache_interface.py:590, :729)."""
    if config.get("kv_lora_rank"):
        return int(config["kv_lora_rank"] + config["qk_rope_head_dim"]) * width
    return int(heads_on_a_card(config, cards) * 2 * config["head_dim"] * width)


@pytest.mark.parametrize("kv_dtype", ["auto", "fp8"])
@pytest.mark.parametrize(("model", "cards"), CASES)
def test_a_request_takes_what_vllms_own_classes_say(model: str, cards: int, kv_dtype: str) -> None:
    """vLLM 0.33.0 v1/kv_cache_interface.py, max_memory_usage_bytes, recorded by
    benchmarks/referee/vllm_requests.py."""
    rows = [json.loads(line) for line in REQUESTS.read_text(encoding="utf-8").splitlines()]
    mine = [row for row in rows if (row["model"], row["cards"], row["kv_dtype"]) == (model, cards, kv_dtype)]
    assert len(mine) == 2
    for row in mine:
        found = served(model, "vllm", cards, context=row["length"], kv_dtype=kv_dtype).run.estimate
        assert found.details["cache_request_bytes"] == row["bytes"]


@pytest.mark.parametrize(("model", "cards"), [one for one in CASES if not any(windows(dimensions(one[0])))])
def test_a_request_takes_sglangs_cells(model: str, cards: int) -> None:
    """cell_size x tokens (SGLang 0.5.23 srt/model_executor/pool_configurator.py, _compute_cell_size). Layers with a
    window have a pool of their own."""
    config = dimensions(model)
    length = min(4096, config["max_position_embeddings"])
    found = served(model, "sglang", cards, context=length).run.estimate
    cell = config["num_hidden_layers"] * a_state(config, cards, 2)
    assert found.details["cache_request_bytes"] == cell * length


@pytest.mark.parametrize("share", [0.5, 0.8, 0.9])
@pytest.mark.parametrize("model", ["NousResearch/Meta-Llama-3-8B", "Qwen/Qwen2.5-7B", "google/gemma-2-9b"])
def test_vllm_fills_its_share(model: str, share: float) -> None:
    """requested_memory less weights and the activations of the profile (v1/worker/gpu_worker.py:737, utils.py:725)."""
    found = served(model, "vllm", 1, memory_share=share).run.estimate
    gpu, _ = named_gpu("H100")
    assert gpu is not None
    parts = found.phases[-1].components
    rest = int(share * gpu.usable_bytes) - parts["weights"] - parts["activations"] - parts["logits"]
    assert parts["kv_cache"] == rest
    assert found.details["cache_requests"] == rest // found.details["cache_request_bytes"]
    assert found.device_bytes is not None and found.device_bytes >= int(share * gpu.usable_bytes)


def test_more_cards_than_heads_copy_them() -> None:
    """Eight heads of keys and values on 16 cards: one on each, no less."""
    eight, sixteen = (served("NousResearch/Meta-Llama-3-8B", "vllm", cards).run.estimate for cards in (8, 16))
    assert eight.details["cache_request_bytes"] == sixteen.details["cache_request_bytes"]


def test_tokens_are_of_whole_requests_and_more() -> None:
    found = served("Qwen/Qwen2.5-7B", "vllm", 1, context=8192).run.estimate.details
    assert found["cache_requests"] == found["cache_tokens"] // 8192
