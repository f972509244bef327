"""TorchTitan's models (0.2.2 torchtitan/models/*/__init__.py): by name and flavor, the one on the Hugging Face hub
whose shapes each has."""

from __future__ import annotations

from collections.abc import Mapping

_LLAMA = "meta-llama/Llama-3.1"
MODELS: Mapping[str, Mapping[str, str]] = {
    "llama2": {size: f"meta-llama/Llama-2-{size.lower()}-hf" for size in ("7B", "13B", "70B")},
    "llama3": {size: f"{_LLAMA}-{size}" for size in ("8B", "70B", "405B")},
    "llama4": {
        "17bx16e": "meta-llama/Llama-4-Scout-17B-16E",
        "17bx128e": "meta-llama/Llama-4-Maverick-17B-128E",
    },
    "qwen3": {size: f"Qwen/Qwen3-{size}" for size in ("0.6B", "1.7B", "4B", "8B", "14B", "32B")}
    | {size: f"Qwen/Qwen3-{size}" for size in ("30B-A3B", "235B-A22B")},
    "deepseek_v3": {
        "16B": "deepseek-ai/DeepSeek-V2-Lite",
        "236B": "deepseek-ai/DeepSeek-V2",
        "671B": "deepseek-ai/DeepSeek-V3",
    },
}
_VARIANTS = ("_flex_attn", "_varlen_attn", "_flex", "_varlen", "_irope")
_DENSE = ("llama2", "llama3", "qwen3")


def named(name: str, flavor: str) -> str:
    """The model on the hub; "" for one that is not known, such as the small ones for tests."""
    plain = flavor
    for end in _VARIANTS:
        plain = plain.removesuffix(end)
    return MODELS.get(name.removesuffix("_ft"), {}).get(plain, "")


def has_experts(name: str, flavor: str) -> bool:
    """Whether it is a mixture of experts, as far as the names say: `30B-A3B`."""
    return name.removesuffix("_ft") not in _DENSE or "-A" in flavor


def attention(flavor: str) -> str:
    return "flex_attention" if "_flex" in flavor or flavor.endswith("_irope") else "sdpa"
