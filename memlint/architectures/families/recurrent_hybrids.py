"""Decoders whose recurrent layers are not modelled: MiniMax Text 1 (linear attention and mixtures of experts) and
RecurrentGemma (Griffin's linear recurrence). The names are those of transformers 5.23.
"""

from __future__ import annotations

from memlint.architectures.assemble import decoder
from memlint.architectures.blocks import Weights, gated, grouped_query, head_size, layer, linear, mixture, norm, norms
from memlint.architectures.config import ModelConfig
from memlint.architectures.families.llama import two_norms
from memlint.architectures.model import Architecture, DecoderLayer, TokenMixer, Weight


def minimax(c: ModelConfig) -> Architecture:
    kinds = [str(kind) for kind in c.items("layer_types")] or ["full_attention", "linear_attention"] * c.layers()
    experts = mixture(
        c,
        experts=c.integer("num_local_experts"),
        per_token=c.integer("num_experts_per_tok", 2),
        size=c.integer("intermediate_size"),
    )
    return decoder(
        c,
        "MiniMaxForCausalLM",
        lambda kind: layer(
            "MiniMaxDecoderLayer",
            _lightning(c) if kind == "linear_attention" else grouped_query(c),
            experts,
            two_norms(c),
        ),
        kinds[: c.layers()],
        unmodelled="linear attention over blocks of tokens",
    )


def _lightning(c: ModelConfig) -> tuple[TokenMixer, Weights]:
    hidden, heads = c.integer("hidden_size"), c.integer("num_attention_heads")
    width = heads * head_size(c)
    return TokenMixer(kind="linear", heads=heads, kv_heads=heads, head_dim=head_size(c)), (
        *norm("self_attn.norm", width),
        *linear("self_attn.qkv_proj", 3 * width, hidden),
        *linear("self_attn.out_proj", hidden, width),
        *linear("self_attn.output_gate", width, hidden),
    )


def recurrent_gemma(c: ModelConfig) -> Architecture:
    """Blocks of two recurrences and one attention to a window. `intermediate_size` counts both halves of the MLP."""
    kinds = [str(kind) for kind in c.items("block_types")] or ["recurrent", "recurrent", "attention"]
    hidden, count = c.integer("hidden_size"), c.layers()
    mlp = gated(c, prefix="mlp_block", size=c.integer("intermediate_size") // 2, bias=True)

    def one(kind: str) -> DecoderLayer:
        mixer = _recurrence(c) if kind == "recurrent" else _attention(c)
        return layer(
            "RecurrentGemmaDecoderLayer",
            mixer,
            mlp,
            norms(hidden, "temporal_pre_norm", "channel_pre_norm"),
            norm="rms_gemma",
        )

    return decoder(
        c,
        "RecurrentGemmaForCausalLM",
        one,
        (kinds * count)[:count],
        final_norm="final_norm",
        embedding_scale=True,
        logits_softcap=True,
        unmodelled="a linear recurrence, token by token",
    )


def _attention(c: ModelConfig) -> tuple[TokenMixer, Weights]:
    hidden, heads, bias = c.integer("hidden_size"), c.integer("num_attention_heads"), c.flag("attention_bias")
    dim, kv = hidden // heads, c.integer("num_key_value_heads", heads)
    weights = (
        *linear("temporal_block.q_proj", heads * dim, hidden, bias),
        *linear("temporal_block.k_proj", kv * dim, hidden, bias),
        *linear("temporal_block.v_proj", kv * dim, hidden, bias),
        *linear("temporal_block.o_proj", hidden, heads * dim, True),
    )
    window = c.integer("attention_window_size", 2048)
    return TokenMixer(heads=heads, kv_heads=kv, head_dim=dim, sliding_window=window, rotary_fraction=0.5), weights


def _recurrence(c: ModelConfig) -> tuple[TokenMixer, Weights]:
    hidden, heads = c.integer("hidden_size"), c.integer("num_attention_heads")
    width = c.integer("lru_width", hidden)
    block, taps = width // heads, c.integer("conv1d_width", 4)
    weights: Weights = (
        *linear("temporal_block.linear_y", width, hidden, True),
        *linear("temporal_block.linear_x", width, hidden, True),
        *linear("temporal_block.linear_out", hidden, width, True),
        Weight("temporal_block.conv_1d.weight", (width, 1, taps), "conv"),
        Weight("temporal_block.conv_1d.bias", (width,), "bias"),
        Weight("temporal_block.rg_lru.recurrent_param", (width,), "other"),
    )
    for gate in ("input", "recurrent"):
        weights += (
            Weight(f"temporal_block.rg_lru.{gate}_gate_weight", (heads, block, block), "other"),
            Weight(f"temporal_block.rg_lru.{gate}_gate_bias", (heads, block), "other"),
        )
    return TokenMixer(kind="recurrence", heads=heads, head_dim=block), weights


FAMILIES = {"minimax": minimax, "recurrent_gemma": recurrent_gemma}
