"""Llama and its close relatives: separate projections, RMSNorm, gated MLP, two norms a layer."""

from __future__ import annotations

from typing import Any

from memlint.architectures.assemble import decoder
from memlint.architectures.blocks import Weights, gated, grouped_query, layer, norms
from memlint.architectures.config import ModelConfig
from memlint.architectures.model import Architecture
from memlint.architectures.windows import windows


def two_norms(c: ModelConfig, bias: bool = False) -> Weights:
    return norms(c.integer("hidden_size"), "input_layernorm", "post_attention_layernorm", bias=bias)


def dense(
    c: ModelConfig,
    class_name: str,
    layer_class: str,
    *,
    attention: dict[str, Any] | None = None,
    mlp_bias: bool = False,
    keys: list[int] | None = None,
    **traits: Any,
) -> Architecture:
    """A Llama-shaped model; `keys` are sliding windows per layer (0 = full attention)."""
    return decoder(
        c,
        class_name,
        lambda window: layer(
            layer_class, grouped_query(c, window=window, **(attention or {})), gated(c, bias=mlp_bias), two_norms(c)
        ),
        windows(c) if keys is None else keys,
        **traits,
    )


# What a model counts as of which nobody says more than its dimensions.
PLAIN_NAME = "Llama"
PLAIN_CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}


def llama(c: ModelConfig) -> Architecture:
    bias = c.flag("attention_bias")
    attention = {"bias": bias, "out_bias": bias}
    return dense(c, "LlamaForCausalLM", "LlamaDecoderLayer", attention=attention, mlp_bias=c.flag("mlp_bias"))


def mistral(c: ModelConfig) -> Architecture:
    return dense(c, "MistralForCausalLM", "MistralDecoderLayer")


def ministral(c: ModelConfig) -> Architecture:
    return dense(c, "MinistralForCausalLM", "MinistralDecoderLayer")


def ministral3(c: ModelConfig) -> Architecture:
    return dense(c, "Ministral3ForCausalLM", "Ministral3DecoderLayer")


def qwen2(c: ModelConfig) -> Architecture:
    return dense(c, "Qwen2ForCausalLM", "Qwen2DecoderLayer", attention={"bias": True})


def qwen3(c: ModelConfig) -> Architecture:
    bias = c.flag("attention_bias")
    attention = {"bias": bias, "out_bias": bias, "qk_norm": "head"}
    return dense(c, "Qwen3ForCausalLM", "Qwen3DecoderLayer", attention=attention)


def granite(c: ModelConfig) -> Architecture:
    bias = c.flag("attention_bias")
    return dense(
        c,
        "GraniteForCausalLM",
        "GraniteDecoderLayer",
        attention={"bias": bias, "out_bias": bias},
        mlp_bias=c.flag("mlp_bias"),
        embedding_scale=True,
        logits_scale=True,
    )


FAMILIES = {
    "llama": llama,
    "internlm3": llama,
    "iquestcoder": llama,
    "mistral": mistral,
    "ministral": ministral,
    "ministral3": ministral3,
    "qwen2": qwen2,
    "qwen3": qwen3,
    "granite": granite,
}
