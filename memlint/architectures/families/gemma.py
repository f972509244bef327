"""Gemma 1 to 3: scaled embeddings, (1 + w) norms, from Gemma 2 on post-norms and sliding windows."""

from __future__ import annotations

from memlint.architectures.assemble import decoder
from memlint.architectures.blocks import gated, grouped_query, layer, norms
from memlint.architectures.config import ModelConfig
from memlint.architectures.families.llama import two_norms
from memlint.architectures.model import Architecture
from memlint.architectures.windows import alternating

FOUR_NORMS = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)


def gemma(c: ModelConfig) -> Architecture:
    bias = c.flag("attention_bias")
    return decoder(
        c,
        "GemmaForCausalLM",
        lambda _: layer(
            "GemmaDecoderLayer",
            grouped_query(c, bias=bias, out_bias=bias),
            gated(c),
            two_norms(c),
            norm="rms_gemma",
        ),
        embedding_scale=True,
    )


def _post_normed(
    c: ModelConfig, class_name: str, layer_class: str, every: int, qk_norm: str, softcap: bool
) -> Architecture:
    bias, hidden = c.flag("attention_bias"), c.integer("hidden_size")
    return decoder(
        c,
        class_name,
        lambda window: layer(
            layer_class,
            grouped_query(c, bias=bias, out_bias=bias, qk_norm=qk_norm, window=window, softcap=softcap),
            gated(c),
            norms(hidden, *FOUR_NORMS),
            norm="rms_gemma",
            norms=4,
        ),
        alternating(c, every),
        embedding_scale=True,
        logits_softcap=c.get("final_logit_softcapping") is not None,
    )


def gemma2(c: ModelConfig) -> Architecture:
    softcap = c.get("attn_logit_softcapping") is not None
    return _post_normed(c, "Gemma2ForCausalLM", "Gemma2DecoderLayer", 2, "none", softcap)


def gemma3_text(c: ModelConfig) -> Architecture:
    every = c.integer("sliding_window_pattern", 6)
    return _post_normed(c, "Gemma3ForCausalLM", "Gemma3DecoderLayer", every, "head", False)


FAMILIES = {"gemma": gemma, "gemma2": gemma2, "gemma3_text": gemma3_text}
