"""Families whose classes live in their repositories (trust_remote_code): tensors as those modules name them."""

from __future__ import annotations

from collections.abc import Callable

from memlint.architectures.assemble import decoder
from memlint.architectures.blocks import Weights, gated, grouped_query, head_size, latent, layer, linear, norm, norms
from memlint.architectures.config import ModelConfig
from memlint.architectures.families.llama import two_norms
from memlint.architectures.model import Architecture, Mlp, TokenMixer, Weight

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
    "orion": orion,
    "qwen": qwen,
    "skywork": _like_llama("SkyworkForCausalLM", "SkyworkDecoderLayer"),
    "xverse": _like_llama("XverseForCausalLM", "XverseDecoderLayer"),
    "Yi": _like_llama("YiForCausalLM", "YiDecoderLayer"),
}
