"""Families whose classes live in their repositories (trust_remote_code): tensors as those modules name them."""

from __future__ import annotations

from collections.abc import Callable

from memlint.architectures.assemble import decoder
from memlint.architectures.blocks import Weights, gated, grouped_query, head_size, latent, layer, linear, norm, norms
from memlint.architectures.config import ModelConfig
from memlint.architectures.families.llama import two_norms
from memlint.architectures.model import Architecture, DecoderLayer, Mlp, TokenMixer, Tower, Weight

TWO = ("input_layernorm", "post_attention_layernorm")


def qwen(c: ModelConfig) -> Architecture:
    """Qwen 1 (modeling_qwen.py): biased c_attn, an MLP whose halves are `intermediate_size` / 2 wide."""
    hidden, heads = c.integer("hidden_size"), c.integer("num_attention_heads")
    wide, size = c.integer("kv_channels", hidden // heads) * heads, c.integer("intermediate_size") // 2
    bias = not c.flag("no_bias", True)
    mixer = TokenMixer(heads=heads, kv_heads=heads, head_dim=wide // heads, fused_qkv=True)
    qkv = linear("attn.c_attn", 3 * wide, hidden, True) + linear("attn.c_proj", hidden, wide, bias)
    mlp = (
        linear("mlp.w1", size, hidden, bias)
        + linear("mlp.w2", size, hidden, bias)
        + linear("mlp.c_proj", hidden, size, bias)
    )
    return decoder(
        c,
        "QWenLMHeadModel",
        lambda _: layer("QWenBlock", (mixer, qkv), (Mlp("gated", size), mlp), norms(hidden, "ln_1", "ln_2")),
        prefix="transformer.",
        embedding="wte",
        final_norm="ln_f",
        tied=False,
    )


def baichuan(c: ModelConfig) -> Architecture:
    """Baichuan 1 and 2: q, k and v in `W_pack`; 13B has ALiBi instead of rotary positions."""
    hidden, heads = c.integer("hidden_size"), c.integer("num_attention_heads")
    alibi = c.has("model_max_length") and not c.has("max_position_embeddings")
    mixer = TokenMixer(
        heads=heads, kv_heads=heads, head_dim=hidden // heads, fused_qkv=True, rotary_fraction=0.0 if alibi else 1.0
    )
    weights = linear("self_attn.W_pack", 3 * hidden, hidden) + linear("self_attn.o_proj", hidden, hidden)
    return decoder(
        c,
        "BaichuanForCausalLM",
        lambda _: layer("BaichuanLayer" if alibi else "DecoderLayer", (mixer, weights), gated(c), norms(hidden, *TWO)),
    )


def chatglm(c: ModelConfig) -> Architecture:
    """ChatGLM 2, 3 and GLM-4-9B as published in 2023 and 2024."""
    hidden, heads, vocabulary = (
        c.integer("hidden_size"),
        c.integer("num_attention_heads"),
        c.integer("padded_vocab_size"),
    )
    dim, size = c.integer("kv_channels", 128), c.integer("ffn_hidden_size")
    kv = c.integer("multi_query_group_num") if c.flag("multi_query_attention") else heads
    bias = c.flag("add_bias_linear")
    qkv_bias = bias or c.flag("add_qkv_bias")
    qkv = linear("self_attention.query_key_value", (heads + 2 * kv) * dim, hidden, qkv_bias)
    qkv += linear("self_attention.dense", hidden, heads * dim, bias)
    mlp = linear("mlp.dense_h_to_4h", 2 * size, hidden, bias) + linear("mlp.dense_4h_to_h", hidden, size, bias)
    mixer = TokenMixer(heads=heads, kv_heads=kv, head_dim=dim, fused_qkv=True, rotary_fraction=0.5)
    outside: Weights = (
        Weight("transformer.embedding.word_embeddings.weight", (vocabulary, hidden), "embedding"),
        *norm("transformer.encoder.final_layernorm", hidden),
        *linear("transformer.output_layer", vocabulary, hidden, kind="head"),
    )
    block = layer("GLMBlock", (mixer, qkv), (Mlp("gated", size, fused_gate_up=True), mlp), norms(hidden, *TWO))
    return Architecture(
        family=c.family,
        class_name="ChatGLMForConditionalGeneration",
        hidden_size=hidden,
        vocab_size=vocabulary,
        layer_types=(block,),
        layer_type_ids=(0,) * c.layers("num_layers"),
        non_layer_weights=outside,
        max_positions=c.integer("seq_length", 0, 0),
    )


def internlm(c: ModelConfig) -> Architecture:
    bias = c.flag("bias", True)
    return decoder(
        c,
        "InternLMForCausalLM",
        lambda _: layer("InternLMDecoderLayer", grouped_query(c, bias=bias, out_bias=bias), gated(c), two_norms(c)),
    )


def internlm2(c: ModelConfig) -> Architecture:
    hidden, heads, dim = c.integer("hidden_size"), c.integer("num_attention_heads"), head_size(c)
    kv, size, bias = c.integer("num_key_value_heads", heads), c.integer("intermediate_size"), c.flag("bias")
    mixer = TokenMixer(heads=heads, kv_heads=kv, head_dim=dim, fused_qkv=True)
    qkv = linear("attention.wqkv", (heads + 2 * kv) * dim, hidden, bias) + linear(
        "attention.wo", hidden, heads * dim, bias
    )
    mlp = (
        linear("feed_forward.w1", size, hidden)
        + linear("feed_forward.w3", size, hidden)
        + linear("feed_forward.w2", hidden, size)
    )
    return decoder(
        c,
        "InternLM2ForCausalLM",
        lambda _: layer(
            "InternLM2DecoderLayer",
            (mixer, qkv),
            (Mlp("gated", size), mlp),
            norms(hidden, "attention_norm", "ffn_norm"),
        ),
        embedding="tok_embeddings",
        head="output",
    )


def _like_llama(class_name: str, layer_class: str) -> Callable[[ModelConfig], Architecture]:
    def build(c: ModelConfig) -> Architecture:
        bias = c.flag("attention_bias", c.flag("bias"))
        return decoder(
            c,
            class_name,
            lambda _: layer(layer_class, grouped_query(c, bias=bias, out_bias=bias), gated(c), two_norms(c)),
        )

    return build


def mimo(c: ModelConfig) -> Architecture:
    """Qwen 2 with multi-token prediction layers, which training code does not build."""
    return decoder(
        c,
        "MiMoForCausalLM",
        lambda _: layer(
            "MiMoDecoderLayer", grouped_query(c, bias=c.flag("attention_bias", True)), gated(c), two_norms(c)
        ),
    )


def minicpm(c: ModelConfig) -> Architecture:
    """MiniCPM 1, 2 and 4: Llama with scaled embeddings, residuals and logits."""
    return decoder(
        c,
        "MiniCPMForCausalLM",
        lambda _: layer("MiniCPMDecoderLayer", grouped_query(c), gated(c), two_norms(c), residual_scale=True),
        tied=c.flag("tie_word_embeddings", True),
        embedding_scale=True,
        logits_scale=True,
    )


def orion(c: ModelConfig) -> Architecture:
    hidden = c.integer("hidden_size")
    return decoder(
        c,
        "OrionForCausalLM",
        lambda _: layer("OrionDecoderLayer", grouped_query(c), gated(c), norms(hidden, *TWO, bias=True), norm="layer"),
        final_bias=True,
    )


def separate_experts(c: ModelConfig, count: int, size: int, shared: int) -> tuple[Mlp, Weights]:
    """DeepSeek's experts as one linear layer per expert and projection."""
    hidden = c.integer("hidden_size")
    weights = (
        *linear("mlp.gate", count, hidden, kind="router"),
        Weight("mlp.experts.*.gate_proj.weight", (size, hidden), "linear", count),
        Weight("mlp.experts.*.up_proj.weight", (size, hidden), "linear", count),
        Weight("mlp.experts.*.down_proj.weight", (hidden, size), "linear", count),
    )
    if shared:
        weights += gated(c, prefix="mlp.shared_experts", size=shared)[1]
    mlp = Mlp(
        "moe",
        size,
        experts=count,
        experts_per_token=c.integer("num_experts_per_tok"),
        expert_intermediate_size=size,
        shared_intermediate_size=shared,
    )
    return mlp, weights


def deepseek(c: ModelConfig) -> Architecture:
    """DeepSeek-MoE: ordinary attention, mixtures after the first `first_k_dense_replace` layers."""
    first, size = c.integer("first_k_dense_replace", 0, 0), c.integer("moe_intermediate_size")
    shared = c.integer("n_shared_experts", 0, 0) * size
    moe = separate_experts(c, c.integer("n_routed_experts"), size, shared)
    return decoder(
        c,
        "DeepseekForCausalLM",
        lambda dense: layer("DeepseekDecoderLayer", grouped_query(c), gated(c) if dense else moe, two_norms(c)),
        [index < first for index in range(c.layers())],
    )


def kimi_k2(c: ModelConfig) -> Architecture:
    """DeepSeek V3's blocks, with one linear layer per expert."""
    first, size, hidden = (
        c.integer("first_k_dense_replace", 0, 0),
        c.integer("moe_intermediate_size"),
        c.integer("hidden_size"),
    )
    moe = separate_experts(c, c.integer("n_routed_experts"), size, c.integer("n_shared_experts", 0, 0) * size)
    correction = (Weight("mlp.gate.e_score_correction_bias", (c.integer("n_routed_experts"),), "other"),)
    return decoder(
        c,
        "DeepseekV3ForCausalLM",
        lambda dense: layer(
            "DeepseekV3DecoderLayer",
            latent(c),
            gated(c) if dense else (moe[0], moe[1] + correction),
            norms(hidden, *TWO),
        ),
        [index < first for index in range(c.layers())],
    )


def exaone(c: ModelConfig) -> Architecture:
    """EXAONE 3 and 3.5 (modeling_exaone.py): Llama's layer under other names."""
    hidden, size = c.integer("hidden_size"), c.integer("intermediate_size")
    mlp = linear("mlp.c_fc_0", size, hidden) + linear("mlp.c_fc_1", size, hidden) + linear("mlp.c_proj", hidden, size)
    mixer = grouped_query(c, prefix="attn.attention", out="out_proj")
    return decoder(
        c,
        "ExaoneForCausalLM",
        lambda _: layer("ExaoneBlock", mixer, (Mlp("gated", size), mlp), norms(hidden, "ln_1", "ln_2")),
        [None] * c.layers("num_layers"),
        prefix="transformer.",
        embedding="wte",
        final_norm="ln_f",
    )


def openelm(c: ModelConfig) -> Architecture:
    """OpenELM (modeling_openelm.py): later layers have more heads and a wider MLP."""
    hidden, vocabulary = c.integer("model_dim"), c.integer("vocab_size")
    queries, keys = (
        [int(count) for count in c.items(name)] or [0] * c.layers("num_transformer_layers")
        for name in ("num_query_heads", "num_kv_heads")
    )
    inner = [
        _divisible(float(factor) * hidden, c.integer("ffn_dim_divisor", 256)) for factor in c.items("ffn_multipliers")
    ]
    outside: Weights = (
        Weight("transformer.token_embeddings.weight", (vocabulary, hidden), "embedding"),
        *norm("transformer.norm", hidden),
    )
    if not c.flag("share_input_output_layers", True):
        outside += linear("transformer.classifier", vocabulary, hidden, kind="head")
    layers = [_openelm_layer(c, hidden, *sizes) for sizes in zip(queries, keys, inner, strict=True)]
    kinds = tuple(dict.fromkeys(layers))
    return Architecture(
        family=c.family,
        class_name="OpenELMForCausalLM",
        hidden_size=hidden,
        vocab_size=vocabulary,
        layer_types=kinds,
        layer_type_ids=tuple(kinds.index(one) for one in layers),
        non_layer_weights=outside,
        tied_embeddings=c.flag("share_input_output_layers", True),
        max_positions=c.integer("max_context_length", 2048),
        stack="transformer.layers",
        unmodelled="its own attention copies keys and values to all heads, and adds a mask",
    )


def _openelm_layer(c: ModelConfig, hidden: int, heads: int, kv: int, inner: int) -> DecoderLayer:
    dim, gate = c.integer("head_dim", 64), c.flag("ffn_with_glu", True)
    weights: Weights = (
        *linear("attn.qkv_proj", (heads + 2 * kv) * dim, hidden),
        *linear("attn.out_proj", hidden, heads * dim),
    )
    normed = c.flag("normalize_qk_projections", True)
    weights += norms(dim, "attn.q_norm", "attn.k_norm") if normed else ()
    mixer = TokenMixer(heads=heads, kv_heads=kv, head_dim=dim, fused_qkv=True, qk_norm="head" if normed else "none")
    mlp = linear("ffn.proj_1", (2 if gate else 1) * inner, hidden) + linear("ffn.proj_2", hidden, inner)
    shape = Mlp("gated" if gate else "plain", inner, fused_gate_up=gate)
    return layer("OpenELMDecoderLayer", (mixer, weights), (shape, mlp), norms(hidden, "ffn_norm", "attn_norm"))


def _divisible(size: float, divisor: int) -> int:
    """The multiple of `divisor` next to `size`, unless it is less by more than a tenth (configuration_openelm.py,
    make_divisible)."""
    found = max(divisor, int(size + divisor / 2) // divisor * divisor)
    return found + divisor if found < 0.9 * size else found


# The sizes of Molmo's tower, CLIP L/14 at 336 pixels without its last layer, are in its code, not its config.
_MOLMO_TOWER = Tower(
    "vision",
    1024,
    23,
    16,
    4096,
    image_size=336,
    tower_prefix="model.vision_backbone.image_vit",
    activation="quick_gelu",
    weights=(
        Weight("class_embedding", (1024,), "embedding"),
        Weight("positional_embedding", (577, 1024), "position"),
        *linear("patch_embedding", 1024, 588),
        *norm("pre_ln", 1024, True),
    ),
    layer_weights=(
        *(weight for name in ("wq", "wk", "wv", "wo") for weight in linear(f"attention.{name}", 1024, 1024, True)),
        *linear("feed_forward.w1", 4096, 1024, True),
        *linear("feed_forward.w2", 1024, 4096, True),
        *norms(1024, "attention_norm", "ffn_norm", bias=True),
    ),
)


def molmo(c: ModelConfig) -> Architecture:
    """Molmo 1 (modeling_molmo.py): Qwen 2's or OLMo's sizes, an MLP whose halves are `intermediate_size` / 2 wide, and
    outputs of two layers of the tower pooled by attention."""
    hidden, inner, heads = (
        c.integer("hidden_size"),
        c.integer("intermediate_size") // 2,
        c.integer("num_attention_heads"),
    )
    kv, dim, rows = c.integer("num_key_value_heads", heads), hidden // heads, c.integer("vocab_size")
    mixer = TokenMixer(heads=heads, kv_heads=kv, head_dim=dim, fused_qkv=True)
    qkv = linear("att_proj", (heads + 2 * kv) * dim, hidden, c.flag("qkv_bias")) + linear("attn_out", hidden, hidden)
    if c.flag("attention_layer_norm"):
        mixer = mixer._replace(qk_norm="full")
        qkv += norm("q_norm", heads * dim) + norm("k_norm", kv * dim)
    mlp = linear("ff_proj", 2 * inner, hidden) + linear("ff_out", hidden, inner)
    connector: Weights = (
        Weight("pad_embed", (2, 2048), "embedding"),
        *(weight for name in ("wq", "wk", "wv") for weight in linear(f"image_pooling_2d.{name}", 1024, 2048, True)),
        *linear("image_pooling_2d.wo", 1024, 1024, True),
        *linear("image_projector.w1", inner, 1024),
        *linear("image_projector.w2", hidden, inner),
        *linear("image_projector.w3", inner, 1024),
    )
    outside: Weights = (
        Weight("model.transformer.wte.embedding", (c.integer("embedding_size", rows), hidden), "embedding"),
        Weight("model.transformer.wte.new_embedding", (128, hidden), "embedding"),
        *norm("model.transformer.ln_f", hidden),
        *linear("model.transformer.ff_out", rows, hidden, kind="head"),
    )
    shape = Mlp("gated", inner, fused_gate_up=True)
    block = layer("MolmoSequentialBlock", (mixer, qkv), (shape, mlp), norms(hidden, "attn_norm", "ff_norm"))
    tower = _MOLMO_TOWER._replace(projector_weights=connector, projector_prefix="model.vision_backbone")
    return Architecture(
        family=c.family,
        class_name="MolmoForCausalLM",
        hidden_size=hidden,
        vocab_size=rows,
        layer_types=(block,),
        layer_type_ids=(0,) * c.layers(),
        non_layer_weights=outside,
        max_positions=c.integer("max_position_embeddings", 4096),
        towers=(tower,),
        stack="model.transformer.blocks",
        unmodelled="attention and norms as its own repository writes them",
    )


FAMILIES = {
    "aquila": _like_llama("AquilaForCausalLM", "AquilaDecoderLayer"),
    "aquila2": _like_llama("AquilaForCausalLM", "AquilaDecoderLayer"),
    "baichuan": baichuan,
    "chatglm": chatglm,
    "deepseek": deepseek,
    "exaone": exaone,
    "internlm": internlm,
    "internlm2": internlm2,
    "kimi_k2": kimi_k2,
    "mimo": mimo,
    "minicpm": minicpm,
    "molmo": molmo,
    "openelm": openelm,
    "orion": orion,
    "qwen": qwen,
    "skywork": _like_llama("SkyworkForCausalLM", "SkyworkDecoderLayer"),
    "xverse": _like_llama("XverseForCausalLM", "XverseDecoderLayer"),
    "Yi": _like_llama("YiForCausalLM", "YiDecoderLayer"),
}
