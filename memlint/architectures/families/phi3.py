"""Phi-3 and Phi-4: fused qkv and gate/up projections."""

from __future__ import annotations

from memlint.architectures.assemble import decoder
from memlint.architectures.blocks import fused_gated, fused_qkv, layer
from memlint.architectures.config import ModelConfig
from memlint.architectures.families.llama import two_norms
from memlint.architectures.model import Architecture
from memlint.architectures.windows import windows


def phi3(c: ModelConfig) -> Architecture:
    kv = c.integer("num_key_value_heads", c.integer("num_attention_heads"))
    mlp, weights = fused_gated(c)
    return decoder(
        c,
        "Phi3ForCausalLM",
        lambda window: layer(
            "Phi3DecoderLayer",
            fused_qkv(c, "self_attn.qkv_proj", "self_attn.o_proj", kv=kv, sliding_window=window),
            (mlp._replace(dropout=c.number("resid_pdrop")), weights),
            two_norms(c),
        ),
        windows(c),
        embedding_dropout=c.number("embd_pdrop"),
    )


FAMILIES = {"phi3": phi3}
