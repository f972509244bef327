"""Dense decoders that differ from Llama in norms, biases, activation or where the norms stand."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from memlint.architectures.assemble import decoder
from memlint.architectures.blocks import (
    Weights,
    fused_gated,
    gated,
    grouped_query,
    head_size,
    layer,
    linear,
    norm,
    norms,
    plain,
)
from memlint.architectures.config import ModelConfig
from memlint.architectures.model import Architecture, Mlp, TokenMixer, Weight
from memlint.architectures.windows import alternating, window_size, windows

TWO = ("input_layernorm", "post_attention_layernorm")
POST = ("post_attention_layernorm", "post_feedforward_layernorm")
MixerBlock = tuple[TokenMixer, Weights]
MlpBlock = tuple[Mlp, Weights]


def standard(
    c: ModelConfig,
    name: str,
    *,
    mlp: MlpBlock | None = None,
    attention: Callable[[Any], MixerBlock] | None = None,
    norm_names: Sequence[str] = TWO,
    norm_bias: bool = False,
    keys: Sequence[Hashable] | None = None,
    extra: Weights = (),
    layer_traits: dict[str, Any] | None = None,
    **traits: Any,
) -> Architecture:
    """`name`ForCausalLM of `name`DecoderLayer; without more, Llama with the config's `attention_bias`."""
    bias = c.flag("attention_bias")

    def attend(key: Any) -> MixerBlock:
        return grouped_query(c, bias=bias, out_bias=bias, window=key) if attention is None else attention(key)

    return decoder(
        c,
        f"{name}ForCausalLM",
        lambda key: layer(
            f"{name}DecoderLayer",
            attend(key),
            mlp or gated(c, bias=c.flag("mlp_bias")),
            norms(c.integer("hidden_size"), *norm_names, bias=norm_bias) + extra,
            **(layer_traits or {}),
        ),
        windows(c) if keys is None else keys,
        final_bias=norm_bias,
        **traits,
    )


def _up_down(c: ModelConfig) -> MlpBlock:
    return plain(c, "mlp.up_proj", "mlp.down_proj", bias=c.flag("mlp_bias"))


def _with_qk_norm(c: ModelConfig, kind: str) -> Callable[[Any], MixerBlock]:
    bias = c.flag("attention_bias")
    return lambda key: grouped_query(c, bias=bias, out_bias=bias, qk_norm=kind, window=key)


def arcee(c: ModelConfig) -> Architecture:
    return standard(c, "Arcee", mlp=_up_down(c))


def apertus(c: ModelConfig) -> Architecture:
    mlp, weights = plain(c, "mlp.up_proj", "mlp.down_proj", bias=False)
    if c.text("hidden_act") == "xielu":
        weights += Weight("mlp.act_fn.alpha_p", (1,), "other"), Weight("mlp.act_fn.alpha_n", (1,), "other")
    return standard(
        c,
        "Apertus",
        mlp=(mlp, weights),
        attention=_with_qk_norm(c, "head"),
        norm_names=("attention_layernorm", "feedforward_layernorm"),
    )


def bitnet(c: ModelConfig) -> Architecture:
    inner = norm("self_attn.attn_sub_norm", c.integer("hidden_size")) + norm(
        "mlp.ffn_sub_norm", c.integer("intermediate_size")
    )
    return standard(c, "BitNet", extra=inner, mlp=gated(c))


def cohere(c: ModelConfig) -> Architecture:
    bias, dim = c.flag("attention_bias"), head_size(c)
    heads, kv = c.integer("num_attention_heads"), c.integer("num_key_value_heads", c.integer("num_attention_heads"))
    per_head: Weights = (
        Weight("self_attn.q_norm.weight", (heads, dim), "norm"),
        Weight("self_attn.k_norm.weight", (kv, dim), "norm"),
    )

    def attention(_: Any) -> MixerBlock:
        mixer, weights = grouped_query(c, bias=bias, out_bias=bias)
        return (mixer._replace(qk_norm="full"), weights + per_head) if c.flag("use_qk_norm") else (mixer, weights)

    return _cohere(c, "Cohere", attention, [0] * c.layers())


def cohere2(c: ModelConfig) -> Architecture:
    bias, every = c.flag("attention_bias"), c.integer("sliding_window_pattern", 4)

    def attention(window: Any) -> MixerBlock:
        return grouped_query(c, bias=bias, out_bias=bias, window=window, rotary_fraction=1.0 if window else 0.0)

    return _cohere(c, "Cohere2", attention, alternating(c, every))


def cohere_compass_text(c: ModelConfig) -> Architecture:
    """Cohere 2's layers; `rope_parameters` says which kinds of them are rotated."""
    bias, kinds = c.flag("attention_bias"), [str(kind) for kind in c.items("layer_types")] or ["full_attention"]
    rotations, window = c.mapping("rope_parameters"), window_size(c)

    def attention(kind: Any) -> MixerBlock:
        span = window if kind == "sliding_attention" else 0
        rotated = rotations.get(kind) is not None
        return grouped_query(c, bias=bias, out_bias=bias, window=span, rotary_fraction=float(rotated))

    return _cohere(c, "CohereCompass", attention, (kinds * c.layers())[: c.layers()])


def _cohere(c: ModelConfig, name: str, attention: Callable[[Any], MixerBlock], keys: Sequence[Any]) -> Architecture:
    """One weight-only LayerNorm, attention and MLP side by side, scaled logits."""
    return standard(
        c,
        name,
        attention=attention,
        mlp=gated(c),
        norm_names=("input_layernorm",),
        keys=keys,
        layer_traits={"norm": "layer", "norms": 1, "parallel": True},
        logits_scale=True,
    )


def diffllama(c: ModelConfig) -> Architecture:
    lambdas = tuple(Weight(f"self_attn.lambda_{which}", (head_size(c),), "other") for which in ("q1", "k1", "q2", "k2"))
    return standard(
        c, "DiffLlama", extra=lambdas, mlp=gated(c), unmodelled="differential attention runs two softmaxes per head"
    )


def ernie4_5(c: ModelConfig) -> Architecture:
    bias = c.flag("use_bias")
    return standard(
        c,
        "Ernie4_5",
        attention=lambda key: grouped_query(c, bias=bias, out_bias=bias, window=key),
        mlp=gated(c, bias=bias),
    )


def exaone4(c: ModelConfig) -> Architecture:
    return standard(
        c,
        "Exaone4",
        attention=lambda key: grouped_query(c, qk_norm="head", window=key),
        mlp=gated(c),
        norm_names=POST,
        keys=_exaone_windows(c),
    )


def _exaone_windows(c: ModelConfig) -> list[int]:
    """`sliding_window_pattern` "LLLG" or a period; the last of each period attends fully."""
    pattern = c.get("sliding_window_pattern")
    if isinstance(pattern, str) and pattern and not c.items("layer_types"):
        window = window_size(c)
        return [window if pattern[i % len(pattern)] == "L" else 0 for i in range(c.layers())]
    return alternating(c, pattern) if isinstance(pattern, int) and pattern > 0 else windows(c)


def glm(c: ModelConfig) -> Architecture:
    bias = c.flag("attention_bias")
    return standard(
        c, "Glm", attention=lambda key: grouped_query(c, bias=bias, window=key), mlp=fused_gated(c), norm_names=TWO
    )


def glm4(c: ModelConfig) -> Architecture:
    bias = c.flag("attention_bias")
    return standard(
        c,
        "Glm4",
        attention=lambda key: grouped_query(c, bias=bias, window=key),
        mlp=fused_gated(c),
        norm_names=(*TWO, "post_self_attn_layernorm", "post_mlp_layernorm"),
        layer_traits={"norms": 4},
    )


def helium(c: ModelConfig) -> Architecture:
    bias = c.flag("attention_bias")
    return standard(c, "Helium", attention=lambda key: grouped_query(c, bias=bias, window=key))


def hyperclovax(c: ModelConfig) -> Architecture:
    post = ("post_norm1", "post_norm2") if c.flag("use_post_norm") else ()
    return standard(
        c,
        "HyperCLOVAX",
        norm_names=(*TWO, *post),
        layer_traits={"norms": 2 + len(post)},
        embedding_scale=True,
        logits_scale=True,
    )


def jais2(c: ModelConfig) -> Architecture:
    return standard(c, "Jais2", mlp=_up_down(c), norm_bias=True, layer_traits={"norm": "layer"})


def nemotron(c: ModelConfig) -> Architecture:
    return standard(c, "Nemotron", mlp=_up_down(c), norm_bias=True, layer_traits={"norm": "layer"})


def muse_glimmer_text(c: ModelConfig) -> Architecture:
    """Four norms a layer, query and key normed without a scale, attention's result times a gate (transformers 5.23
    models/muse_glimmer/modeling_muse_glimmer.py:276)."""
    hidden, width = c.integer("hidden_size"), c.integer("num_attention_heads") * head_size(c)
    return standard(
        c,
        "MuseGlimmerText",
        mlp=gated(c),
        norm_names=(*TWO, "pre_feedforward_layernorm", "post_feedforward_layernorm"),
        layer_traits={"norms": 4},
        extra=linear("self_attn.gate_proj", width, hidden, False),
        logits_softcap=True,
        unmodelled="attention behind a gate of its own, and an embedding that is normed",
    )


def nanochat(c: ModelConfig) -> Architecture:
    """Norms without weights: over the embedding, before both blocks, and over rotated queries and keys."""
    bias = c.flag("attention_bias")
    mixer, weights = grouped_query(c, bias=bias, out_bias=bias)
    return standard(
        c,
        "NanoChat",
        attention=lambda _: (mixer._replace(qk_norm="head"), weights),
        mlp=plain(c, "mlp.fc1", "mlp.fc2", bias=False),
        embedding_norm=True,
        norm_names=(),
        final_norm="",
        logits_softcap=True,
    )


def olmo(c: ModelConfig) -> Architecture:
    return standard(c, "Olmo", mlp=gated(c), norm_names=(), final_norm="", layer_traits={"norm": "layer_no_affine"})


def olmo2(c: ModelConfig) -> Architecture:
    return standard(c, "Olmo2", attention=_with_qk_norm(c, "full"), mlp=gated(c), norm_names=POST)


def olmo3(c: ModelConfig) -> Architecture:
    return standard(
        c, "Olmo3", attention=_with_qk_norm(c, "full"), mlp=gated(c), norm_names=POST, keys=alternating(c, 4)
    )


def seed_oss(c: ModelConfig) -> Architecture:
    bias, out = c.flag("attention_bias"), c.flag("attention_out_bias")
    mlp, weights = gated(c)
    return standard(
        c,
        "SeedOss",
        attention=lambda key: grouped_query(c, bias=bias, out_bias=out, window=key),
        mlp=(mlp._replace(dropout=c.number("residual_dropout")), weights),
    )


def smollm3(c: ModelConfig) -> Architecture:
    return standard(c, "SmolLM3")


def stablelm(c: ModelConfig) -> Architecture:
    dim, heads = head_size(c), c.integer("num_attention_heads")
    parallel = c.flag("use_parallel_residual")
    kv = c.integer("num_key_value_heads", heads)

    def attention(_: Any) -> MixerBlock:
        mixer, weights = grouped_query(c, bias=c.flag("use_qkv_bias"))
        if not c.flag("qk_layernorm"):
            return mixer, weights
        per_head = (
            Weight("self_attn.q_layernorm.norms.*.weight", (dim,), "norm", heads),
            Weight("self_attn.k_layernorm.norms.*.weight", (dim,), "norm", kv),
        )
        return mixer._replace(qk_norm="head"), weights + per_head

    names = TWO[:1] if parallel else TWO
    return standard(
        c,
        "StableLm",
        attention=attention,
        mlp=gated(c),
        norm_names=names,
        norm_bias=True,
        keys=[0] * c.layers(),
        layer_traits={"norm": "layer", "norms": len(names), "parallel": parallel},
    )


def hunyuan_v1_dense(c: ModelConfig) -> Architecture:
    bias, dim = c.flag("attention_bias"), head_size(c)

    def attention(key: Any) -> MixerBlock:
        mixer, weights = grouped_query(c, bias=bias, out_bias=bias, window=key)
        names = norms(dim, "self_attn.query_layernorm", "self_attn.key_layernorm")
        return mixer._replace(qk_norm="head"), weights + names

    return standard(c, "HunYuanDenseV1", attention=attention, mlp=gated(c))


def vaultgemma(c: ModelConfig) -> Architecture:
    softcap, bias = c.get("attn_logit_softcapping") is not None, c.flag("attention_bias")
    return standard(
        c,
        "VaultGemma",
        attention=lambda key: grouped_query(c, bias=bias, out_bias=bias, window=key, softcap=softcap),
        mlp=gated(c),
        norm_names=("input_layernorm", "pre_feedforward_layernorm"),
        keys=alternating(c, 2),
        layer_traits={"norm": "rms_gemma"},
        embedding_scale=True,
        logits_softcap=c.get("final_logit_softcapping") is not None,
    )


def granite_swa(c: ModelConfig) -> Architecture:
    bias, heads = c.flag("attention_bias"), c.integer("num_attention_heads")

    def attention(key: Any) -> MixerBlock:
        mixer, weights = grouped_query(c, bias=bias, out_bias=bias, window=key, sinks=True)
        return mixer, (*weights, Weight("self_attn.sinks", (heads,), "other"))

    keys = alternating(c, 4, first=0)
    return standard(c, "GraniteSWA", attention=attention, keys=keys, embedding_scale=True, logits_scale=True)


def cwm(c: ModelConfig) -> Architecture:
    return standard(
        c, "Cwm", attention=lambda key: grouped_query(c, window=key), mlp=gated(c), keys=alternating(c, 4, first=0)
    )


def molmo2_text(c: ModelConfig) -> Architecture:
    """Molmo 2's language model: Qwen3's layers, or OLMo's, which norm all heads together and after each block. Its
    table has rows for image tokens that the head has not."""
    bias, kind = c.flag("qkv_bias"), "head" if c.text("qk_norm_type", "qwen3") == "qwen3" else "full"
    after = c.flag("norm_after")
    built = standard(
        c,
        "Molmo2",
        attention=lambda key: grouped_query(c, bias=bias, qk_norm=kind, window=key),
        unmodelled="norms follow the blocks of this Molmo 2" if after else "",
    )
    rows = c.integer("vocab_size") + c.integer("additional_vocab_size", 128, 0)
    table = built.non_layer_weights[0]._replace(shape=(rows, built.hidden_size))
    return built._replace(non_layer_weights=(table, *built.non_layer_weights[1:]))


FAMILIES = {
    "arcee": arcee,
    "apertus": apertus,
    "bitnet": bitnet,
    "cohere": cohere,
    "cohere2": cohere2,
    "cohere_compass_text": cohere_compass_text,
    "cwm": cwm,
    "diffllama": diffllama,
    "ernie4_5": ernie4_5,
    "exaone4": exaone4,
    "glm": glm,
    "glm4": glm4,
    "granite_swa": granite_swa,
    "helium": helium,
    "hunyuan_v1_dense": hunyuan_v1_dense,
    "hyperclovax": hyperclovax,
    "jais2": jais2,
    "muse_glimmer_text": muse_glimmer_text,
    "nanochat": nanochat,
    "nemotron": nemotron,
    "olmo": olmo,
    "olmo2": olmo2,
    "olmo3": olmo3,
    "seed_oss": seed_oss,
    "smollm3": smollm3,
    "stablelm": stablelm,
    "vaultgemma": vaultgemma,
}
