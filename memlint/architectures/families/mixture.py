"""Mixtures of experts with ordinary attention: Mixtral, Qwen-MoE and relatives."""

from __future__ import annotations

from memlint.architectures.assemble import decoder
from memlint.architectures.blocks import gated, grouped_query, layer, linear, mixture
from memlint.architectures.config import ModelConfig
from memlint.architectures.families.llama import two_norms
from memlint.architectures.model import Architecture, DecoderLayer
from memlint.architectures.windows import windows


def mixtral(c: ModelConfig) -> Architecture:
    experts = c.integer("num_local_experts")
    per_token, size = c.integer("num_experts_per_tok"), c.integer("intermediate_size")
    return decoder(
        c,
        "MixtralForCausalLM",
        lambda window: layer(
            "MixtralDecoderLayer",
            grouped_query(c, window=window),
            mixture(c, experts=experts, per_token=per_token, size=size),
            two_norms(c),
        ),
        windows(c),
    )


def sparse_layers(c: ModelConfig, experts: int) -> list[bool]:
    """Which layers are mixtures: `decoder_sparse_step` and `mlp_only_layers` (Qwen)."""
    step, dense = c.integer("decoder_sparse_step", 1), set(map(str, c.items("mlp_only_layers")))
    return [experts > 0 and str(i) not in dense and (i + 1) % step == 0 for i in range(c.layers())]


def qwen2_moe(c: ModelConfig) -> Architecture:
    experts, shared = c.integer("num_experts", 0, 0), c.integer("shared_expert_intermediate_size")
    gate = linear("mlp.shared_expert_gate", 1, c.integer("hidden_size"))

    def make(key: tuple[bool, int]) -> DecoderLayer:
        moe = mixture(
            c,
            experts=experts,
            per_token=c.integer("num_experts_per_tok"),
            size=c.integer("moe_intermediate_size"),
            shared=shared,
            shared_name="shared_expert",
            extra=gate,
        )
        attention = grouped_query(c, bias=c.flag("qkv_bias", True), window=key[1])
        return layer("Qwen2MoeDecoderLayer", attention, moe if key[0] else gated(c), two_norms(c))

    return decoder(c, "Qwen2MoeForCausalLM", make, list(zip(sparse_layers(c, experts), windows(c))))


def qwen3_moe(c: ModelConfig) -> Architecture:
    experts, bias = c.integer("num_experts", 0, 0), c.flag("attention_bias")

    def make(key: tuple[bool, int]) -> DecoderLayer:
        moe = mixture(
            c, experts=experts, per_token=c.integer("num_experts_per_tok"), size=c.integer("moe_intermediate_size")
        )
        attention = grouped_query(c, bias=bias, out_bias=bias, qk_norm="head", window=key[1])
        return layer("Qwen3MoeDecoderLayer", attention, moe if key[0] else gated(c), two_norms(c))

    return decoder(c, "Qwen3MoeForCausalLM", make, list(zip(sparse_layers(c, experts), windows(c))))


FAMILIES = {"mixtral": mixtral, "qwen2_moe": qwen2_moe, "qwen3_moe": qwen3_moe}
