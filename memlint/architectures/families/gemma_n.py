"""Gemma 3n and Gemma 4: per-layer embeddings, layers that share keys and values, mixtures beside the MLP."""

from __future__ import annotations

from memlint.architectures.assemble import decoder
from memlint.architectures.blocks import Weights, activation, gated, linear, norm, norms
from memlint.architectures.config import ModelConfig
from memlint.architectures.families.gemma import FOUR_NORMS
from memlint.architectures.model import Architecture, DecoderLayer, Mlp, TokenMixer, Weight


def _layer_kinds(c: ModelConfig, every: int) -> list[bool]:
    """Which layers attend fully; the last one always does."""
    kinds = c.items("layer_types")
    return [kind == "full_attention" for kind in kinds] or [(i + 1) % every == 0 for i in range(c.layers())]


def gemma3n_text(c: ModelConfig) -> Architecture:
    """Several residual streams, of which a layer runs one; late layers read earlier keys and values."""
    hidden, count, narrow = c.integer("hidden_size"), c.layers(), c.integer("hidden_size_per_layer_input")
    sharing = count - c.integer("num_kv_shared_layers", 0, 0)
    sizes = c.items("intermediate_size") or [c.integer("intermediate_size")] * count
    sparse = _sparse_layers(c, count)
    streams = tuple(
        weight
        for name in ("altup_projections", "altup_unembed_projections")
        for index in range(c.integer("altup_num_inputs") - 1)
        for weight in linear(f"model.{name}.{index}", hidden, hidden)
    )
    return decoder(
        c,
        "Gemma3nForCausalLM",
        lambda key: _gemma3n_layer(c, *key),
        [(full, index < sharing, int(sizes[index]), sparse[index]) for index, full in enumerate(_layer_kinds(c, 5))],
        extra=_embeddings_per_layer(c, narrow) + streams,
        embedding_scale=True,
        logits_softcap=True,
        per_layer_embedding_size=narrow,
    )


def _gemma3n_layer(c: ModelConfig, full: bool, owns: bool, size: int, sparse_gate: bool) -> DecoderLayer:
    """`full`: it attends to the whole sequence. `owns`: it has keys and values of its own."""
    hidden, narrow = c.integer("hidden_size"), c.integer("hidden_size_per_layer_input")
    streams = c.integer("altup_num_inputs")
    mixer, attention = _gemma3n_attention(c, full, owns)
    weights = (
        attention
        + gated(c, size=size)[1]
        + norms(hidden, *FOUR_NORMS)
        + _altup(hidden, streams, c.integer("laurel_rank"))
        + _per_layer(hidden, narrow)
    )
    return DecoderLayer(
        mixer,
        Mlp("gated", size, activation(c), sparse_gate=sparse_gate),
        "rms_gemma",
        4,
        class_name="Gemma3nTextDecoderLayer",
        weights=weights,
        per_layer_size=narrow,
        streams=streams,
    )


def _gemma3n_attention(c: ModelConfig, full: bool, owns: bool) -> tuple[TokenMixer, Weights]:
    hidden, dim = c.integer("hidden_size"), c.integer("head_dim")
    heads, kv = c.integer("num_attention_heads"), c.integer("num_key_value_heads")
    weights = (
        linear("self_attn.q_proj", heads * dim, hidden)
        + linear("self_attn.o_proj", hidden, heads * dim)
        + norm("self_attn.q_norm", dim)
    )
    if owns:
        weights += linear("self_attn.k_proj", kv * dim, hidden) + linear("self_attn.v_proj", kv * dim, hidden)
        weights += norm("self_attn.k_norm", dim)
    mixer = TokenMixer(
        heads=heads,
        kv_heads=kv,
        head_dim=dim,
        qk_norm="head",
        sliding_window=0 if full else c.integer("sliding_window"),
        shares_kv=not owns,
        value_norm=True,
    )
    return mixer, weights


def _embeddings_per_layer(c: ModelConfig, narrow: int) -> Weights:
    """A second embedding, of `narrow` numbers for each layer, and what projects the first one to as many."""
    wide = c.layers() * narrow
    return (
        Weight("model.embed_tokens_per_layer.weight", (c.integer("vocab_size_per_layer_input"), wide), "embedding"),
        *linear("model.per_layer_model_projection", wide, c.integer("hidden_size")),
        *norm("model.per_layer_projection_norm", narrow),
    )


def _sparse_layers(c: ModelConfig, count: int) -> list[bool]:
    """Which layers let only the largest values of the gate pass: by default the first ten
    (models/gemma3n/configuration_gemma3n.py, `activation_sparsity_pattern`)."""
    stated = c.get("activation_sparsity_pattern")
    if stated is None:
        return [index < 10 for index in range(count)]
    shares = stated if isinstance(stated, (list, tuple)) else [stated] * count
    return [isinstance(share, (int, float)) and share > 0 for share in shares] + [False] * (count - len(shares))


def _altup(hidden: int, streams: int, rank: int) -> Weights:
    return (
        Weight("altup.correct_output_scale", (hidden,), "other"),
        *linear("altup.correction_coefs", streams, streams),
        *linear("altup.prediction_coefs", streams * streams, streams),
        *linear("altup.modality_router", streams, hidden),
        *norm("altup.router_norm", hidden),
        *linear("laurel.linear_left", rank, hidden),
        *linear("laurel.linear_right", hidden, rank),
        *norm("laurel.post_laurel_norm", hidden),
    )


def _per_layer(hidden: int, narrow: int) -> Weights:
    return (
        linear("per_layer_input_gate", narrow, hidden)
        + linear("per_layer_projection", hidden, narrow)
        + norm("post_per_layer_input_norm", hidden)
    )


def gemma4_text(c: ModelConfig) -> Architecture:
    """Wider heads in full layers, whose values may be their keys; late layers may read earlier keys and values."""
    narrow, count = c.integer("hidden_size_per_layer_input", 0, 0), c.layers()
    full = _layer_kinds(c, 6)
    full[-1] = True
    sharing = count - c.integer("num_kv_shared_layers", 0, 0)
    return decoder(
        c,
        f"{_gemma4_name(c)}ForCausalLM",
        lambda key: _gemma4_layer(c, *key),
        [(kind, index < sharing) for index, kind in enumerate(full)],
        extra=_embeddings_per_layer(c, narrow) if narrow else (),
        embedding_scale=True,
        logits_softcap=c.get("final_logit_softcapping") is not None,
        per_layer_embedding_size=narrow,
    )


def _gemma4_name(c: ModelConfig) -> str:
    return "Gemma4Unified" if c.family.startswith("gemma4_unified") else "Gemma4"


def _gemma4_layer(c: ModelConfig, full: bool, owns: bool) -> DecoderLayer:
    hidden, narrow = c.integer("hidden_size"), c.integer("hidden_size_per_layer_input", 0, 0)
    wide = 2 if c.flag("use_double_wide_mlp") and not owns else 1
    mlp, weights = gated(c, size=wide * c.integer("intermediate_size"))
    mixer, attention = _gemma4_attention(c, full, owns)
    weights = attention + weights + norms(hidden, *FOUR_NORMS)
    if narrow:
        weights += _per_layer(hidden, narrow)
    if c.flag("enable_moe_block"):
        experts, size = c.integer("num_experts"), c.integer("moe_intermediate_size")
        weights += (
            Weight("router.scale", (hidden,), "other"),
            Weight("router.per_expert_scale", (experts,), "other"),
            *linear("router.proj", experts, hidden, kind="router"),
            Weight("experts.gate_up_proj", (experts, 2 * size, hidden), "experts"),
            Weight("experts.down_proj", (experts, hidden, size), "experts"),
            *norms(
                hidden,
                "post_feedforward_layernorm_1",
                "post_feedforward_layernorm_2",
                "pre_feedforward_layernorm_2",
            ),
        )
        mlp = mlp._replace(
            kind="moe",
            experts=experts,
            experts_per_token=c.integer("top_k_experts", 8),
            expert_intermediate_size=size,
            parallel_experts=True,
        )
    return DecoderLayer(
        mixer,
        mlp,
        "rms_gemma",
        4,
        class_name=f"{_gemma4_name(c)}TextDecoderLayer",
        weights=weights,
        per_layer_size=narrow,
    )


def _gemma4_attention(c: ModelConfig, full: bool, owns: bool) -> tuple[TokenMixer, Weights]:
    hidden, heads, bias = c.integer("hidden_size"), c.integer("num_attention_heads"), c.flag("attention_bias")
    dim = c.integer("global_head_dim", 512) if full else c.integer("head_dim")
    same, kv = c.flag("attention_k_eq_v") and full, c.integer("num_key_value_heads")
    if same:
        kv = c.integer("num_global_key_value_heads", kv)
    weights = linear("self_attn.q_proj", heads * dim, hidden, bias) + linear(
        "self_attn.o_proj", hidden, heads * dim, bias
    )
    weights += norm("self_attn.q_norm", dim)
    if owns:
        weights += norm("self_attn.k_norm", dim) + linear("self_attn.k_proj", kv * dim, hidden, bias)
        weights += () if same else linear("self_attn.v_proj", kv * dim, hidden, bias)
    window = 0 if full else c.integer("sliding_window")
    mixer = TokenMixer(
        heads=heads,
        kv_heads=kv,
        head_dim=dim,
        qk_norm="head",
        sliding_window=window,
        shares_kv=not owns,
        values_are_keys=same,
        value_norm=True,
    )
    return mixer, weights


FAMILIES = {"gemma3n_text": gemma3n_text, "gemma4_text": gemma4_text, "gemma4_unified_text": gemma4_text}
