"""The blocks that decoder layers are made of: each gives a description and its parameter tensors.

Names are those of the modules in transformers 5.23, relative to the layer, because LoRA targets and
FSDP wrapping match on them. Shapes are (out, in) as torch stores them.
"""

from __future__ import annotations

from typing import Any

from memlint.architectures.config import ModelConfig, UnsupportedConfig
from memlint.architectures.model import DecoderLayer, Mlp, TokenMixer, Weight

Weights = tuple[Weight, ...]


def linear(name: str, out: int, inside: int, bias: bool = False, kind: str = "linear") -> Weights:
    """An `nn.Linear`."""
    weight = Weight(f"{name}.weight", (out, inside), kind)
    return (weight, Weight(f"{name}.bias", (out,), "bias")) if bias else (weight,)


def conv1d(name: str, inside: int, out: int) -> Weights:
    """GPT-2's `Conv1D`: a linear layer stored transposed, always with a bias."""
    return Weight(f"{name}.weight", (inside, out), "linear"), Weight(f"{name}.bias", (out,), "bias")


def norm(name: str, size: int, bias: bool = False) -> Weights:
    weight = Weight(f"{name}.weight", (size,), "norm")
    return (weight, Weight(f"{name}.bias", (size,), "bias")) if bias else (weight,)


def norms(size: int, *names: str, bias: bool = False) -> Weights:
    return tuple(weight for name in names for weight in norm(name, size, bias))


def head_size(c: ModelConfig) -> int:
    """`head_dim`, or the hidden size shared among the heads."""
    return c.integer("head_dim", c.integer("hidden_size") // c.integer("num_attention_heads"))


def grouped_query(
    c: ModelConfig,
    *,
    prefix: str = "self_attn",
    bias: bool = False,
    out_bias: bool = False,
    out: str = "o_proj",
    qk_norm: str = "none",
    window: int = 0,
    heads: int = 0,
    **traits: Any,
) -> tuple[TokenMixer, Weights]:
    """Separate q, k and v projections; fewer key and value heads than query heads where the config says so.

    `qk_norm`: "head" normalises each head (weights of head_dim), "full" all heads together. `heads`: where layers
    differ.
    """
    hidden, heads, dim = c.integer("hidden_size"), heads or c.integer("num_attention_heads"), head_size(c)
    kv = c.integer("num_key_value_heads", heads)
    weights = (
        linear(f"{prefix}.q_proj", heads * dim, hidden, bias)
        + linear(f"{prefix}.k_proj", kv * dim, hidden, bias)
        + linear(f"{prefix}.v_proj", kv * dim, hidden, bias)
        + linear(f"{prefix}.{out}", hidden, heads * dim, out_bias)
    )
    if qk_norm != "none":
        sizes = (dim, dim) if qk_norm == "head" else (heads * dim, kv * dim)
        weights += norm(f"{prefix}.q_norm", sizes[0]) + norm(f"{prefix}.k_norm", sizes[1])
    traits.setdefault("rotary_fraction", rotary(c))
    traits.setdefault("dropout", c.number("attention_dropout"))
    return TokenMixer(heads=heads, kv_heads=kv, head_dim=dim, qk_norm=qk_norm, sliding_window=window, **traits), weights


def fused_qkv(
    c: ModelConfig, name: str, out_name: str, *, bias: bool = False, out_bias: bool = False, kv: int = 0, **traits: Any
) -> tuple[TokenMixer, Weights]:
    """One projection for queries, keys and values."""
    hidden, heads, dim = c.integer("hidden_size"), c.integer("num_attention_heads"), head_size(c)
    kv = kv or heads
    weights = linear(name, (heads + 2 * kv) * dim, hidden, bias) + linear(out_name, hidden, heads * dim, out_bias)
    traits.setdefault("rotary_fraction", rotary(c))
    traits.setdefault("dropout", c.number("attention_dropout"))
    return TokenMixer(heads=heads, kv_heads=kv, head_dim=dim, fused_qkv=True, **traits), weights


def rotary(c: ModelConfig) -> float:
    """The share of head_dim that is rotated."""
    for name in ("partial_rotary_factor", "rotary_pct", "rope_pct"):
        if c.has(name):
            return c.number(name, 1.0)
    parameters = c.mapping("rope_parameters")
    value = parameters.get("partial_rotary_factor")
    if isinstance(value, (int, float)):
        return float(value)
    return c.number("partial_rotary_factor", c.number("rotary_pct", 1.0))


def latent(c: ModelConfig, *, prefix: str = "self_attn", bias: bool = False) -> tuple[TokenMixer, Weights]:
    """Multi-head latent attention: queries, keys and values through low-rank bottlenecks (DeepSeek V2)."""
    hidden, heads = c.integer("hidden_size"), c.integer("num_attention_heads")
    q_rank, kv_rank = c.integer("q_lora_rank", 0, 0), c.integer("kv_lora_rank")
    rope, nope = c.integer("qk_rope_head_dim"), c.integer("qk_nope_head_dim")
    value = c.integer("v_head_dim", hidden // heads)
    queries = (
        linear(f"{prefix}.q_a_proj", q_rank, hidden, bias)
        + norm(f"{prefix}.q_a_layernorm", q_rank)
        + linear(f"{prefix}.q_b_proj", heads * (nope + rope), q_rank)
        if q_rank
        else linear(f"{prefix}.q_proj", heads * (nope + rope), hidden)
    )
    weights = (
        queries
        + linear(f"{prefix}.kv_a_proj_with_mqa", kv_rank + rope, hidden, bias)
        + norm(f"{prefix}.kv_a_layernorm", kv_rank)
        + linear(f"{prefix}.kv_b_proj", heads * (nope + value), kv_rank)
        + linear(f"{prefix}.o_proj", hidden, heads * value, bias)
    )
    return TokenMixer(
        kind="mla",
        heads=heads,
        kv_heads=heads,
        head_dim=nope + rope,
        value_head_dim=value,
        q_lora_rank=q_rank,
        kv_lora_rank=kv_rank,
        rope_head_dim=rope,
        dropout=c.number("attention_dropout"),
    ), weights


def gated(
    c: ModelConfig, *, prefix: str = "mlp", size: int = 0, bias: bool = False, hidden: int = 0
) -> tuple[Mlp, Weights]:
    """act(gate) * up, then down."""
    size, hidden = size or c.integer("intermediate_size"), hidden or c.integer("hidden_size")
    weights = (
        linear(f"{prefix}.gate_proj", size, hidden, bias)
        + linear(f"{prefix}.up_proj", size, hidden, bias)
        + linear(f"{prefix}.down_proj", hidden, size, bias)
    )
    return Mlp("gated", size, activation(c)), weights


def fused_gated(
    c: ModelConfig, *, prefix: str = "mlp", bias: bool = False, down: str = "down_proj"
) -> tuple[Mlp, Weights]:
    """Gate and up in one projection."""
    size, hidden = c.integer("intermediate_size"), c.integer("hidden_size")
    weights = linear(f"{prefix}.gate_up_proj", 2 * size, hidden, bias) + linear(f"{prefix}.{down}", hidden, size, bias)
    return Mlp("gated", size, activation(c), fused_gate_up=True), weights


def plain(
    c: ModelConfig, up: str, down: str, *, bias: bool = True, size: int = 0, **traits: Any
) -> tuple[Mlp, Weights]:
    """act(up), then down."""
    size, hidden = size or c.integer("intermediate_size"), c.integer("hidden_size")
    weights = linear(up, size, hidden, bias) + linear(down, hidden, size, bias)
    return Mlp("plain", size, activation(c), **traits), weights


def activation(c: ModelConfig) -> str:
    for name in ("hidden_act", "hidden_activation", "activation_function", "mlp_hidden_act"):
        if c.text(name):
            return c.text(name)
    return "silu"


def mixture(
    c: ModelConfig,
    *,
    experts: int,
    per_token: int,
    size: int,
    prefix: str = "mlp",
    router: str = "gate",
    shared: int = 0,
    shared_name: str = "shared_experts",
    shared_bias: bool = False,
    extra: Weights = (),
    **traits: Any,
) -> tuple[Mlp, Weights]:
    """A router and stacked experts (transformers 5: one 3-D tensor for all), with shared experts beside them.

    transformers 4 holds one linear layer per expert and projection: the same numbers in more tensors.
    """
    if experts > 1 << 16:
        raise UnsupportedConfig(f"{experts} experts in this {c.family} config")
    hidden = c.integer("hidden_size")
    weights = (
        linear(f"{prefix}.{router}", experts, hidden, kind="router")
        + (
            Weight(f"{prefix}.experts.gate_up_proj", (experts, 2 * size, hidden), "experts"),
            Weight(f"{prefix}.experts.down_proj", (experts, hidden, size), "experts"),
        )
        + extra
    )
    if shared:
        weights += gated(c, prefix=f"{prefix}.{shared_name}", size=shared, bias=shared_bias)[1]
    mlp = Mlp(
        "moe",
        size,
        activation(c),
        experts=experts,
        experts_per_token=min(per_token, experts),
        expert_intermediate_size=size,
        shared_intermediate_size=shared,
        **traits,
    )
    return mlp, weights


def layer(
    class_name: str, mixer: tuple[TokenMixer, Weights], mlp: tuple[Mlp, Weights], norm_weights: Weights, **traits: Any
) -> DecoderLayer:
    """One decoder layer of its three parts."""
    return DecoderLayer(mixer[0], mlp[0], class_name=class_name, weights=mixer[1] + mlp[1] + norm_weights, **traits)
