"""The model that the arguments describe, built as core's GPTModel builds it (core 0.19 models/gpt/gpt_model.py).

Linear layers have biases unless `--disable-bias-linear` is given, norms are LayerNorm unless `--normalization` says
otherwise, positions are learned unless `--position-embedding-type` says otherwise, and the head shares the embedding.
"""

from __future__ import annotations

import math
import re

from memlint._record import NamedTuple
from memlint.architectures.model import Architecture, DecoderLayer, Mlp, TokenMixer, Weight
from memlint.formats.fields import Fields, as_int
from memlint.formats.megatron.config import MegatronConfig
from memlint.run import Origin

Weights = tuple[Weight, ...]
_MOST_LAYERS = 1 << 12
_GPT2_VOCABULARY = 50257
_LAYERS_UNMODELLED = "Megatron-LM's own layers are not modelled"
# What makes a model other than these arguments describe.
_OTHER_MODELS = {
    "multi_latent_attention": "multi-head latent attention",
    "mtp_num_layers": "layers that predict several tokens",
    "heterogeneous_layers_config_path": "layers that differ (a file has them)",
    "heterogeneous_layers_config_encoded_json": "layers that differ (JSON has them)",
    "experimental_attention_variant": "an attention that is not modelled",
    "hybrid_layer_pattern": "layers of several kinds",
    "hybrid_override_pattern": "layers of several kinds",
    "is_hybrid_model": "layers of several kinds",
    "moe_latent_size": "experts behind a projection",
    "spec": "layers of a specification in Python",
    "yaml_cfg": "arguments in a YAML file",
    "use_checkpoint_args": "arguments in a checkpoint",
    "encoder_num_layers": "an encoder",
    "retro_add_retriever": "a retriever",
}
_SIZES = ("num_layers", "hidden_size", "num_attention_heads")
_OPTIONAL_SIZES = ("ffn_hidden_size", "kv_channels", "num_query_groups", "num_experts", "moe_ffn_hidden_size") + (
    "moe_shared_expert_intermediate_size",
)
_ROTARY = ("rope", "mrope", "yarn", "none", "relative")


class _Sizes(NamedTuple):
    layers: int
    hidden: int
    heads: int
    groups: int
    channels: int
    ffn: int
    gated: bool
    layer_norm: bool
    bias: bool
    qkv_bias: bool
    qk_norm: bool


def read_model(fields: Fields, config: MegatronConfig) -> None:
    reason = why_unknown(config)
    if reason:
        fields.unknown("model.name", reason)
        fields.unknown("model.architecture", reason)
        return
    found = architecture(config)
    fields.infer("model.name", _name(found), "the arguments describe it")
    words = "from the arguments" if found.vocab_size else "from the arguments, without the vocabulary"
    fields.put("model.architecture", found, Origin("inferred", detail=words))


def _name(found: Architecture) -> str:
    """Such as "GPT, 24 layers of width 1024"."""
    return f"GPT, {len(found.layer_type_ids)} layers of width {found.hidden_size}"


def why_unknown(config: MegatronConfig) -> str:
    """Why the model is not known; "" where it is."""
    for key, what in _OTHER_MODELS.items():
        if config.gives(key) and config.section.value.get(key) != "local":
            return f"`{key}`: {what}, which memlint does not build"
    for key in _SIZES:
        if config.whole(key) is None:
            return config.why(key) if config.written(key) else f"the model is not described: `{key}` is not given"
    for key in _OPTIONAL_SIZES:
        if config.written(key) is not None and config.whole(key) is None:
            return config.why(key)
    if (config.whole("num_layers") or 0) > _MOST_LAYERS:
        return "more layers than a model has"
    if config.whole("num_experts") and _expert_layers(config) is None:
        return "`moe_layer_freq` is not known: which layers have experts"
    return ""


def architecture(config: MegatronConfig) -> Architecture:
    """The model, without embedding and head where the size of the vocabulary is not known."""
    sizes = _sizes(config)
    vocabulary = padded_vocabulary(config)
    dense, sparse = _layer(config, sizes, False), _layer(config, sizes, True)
    kinds = _expert_layers(config) if config.whole("num_experts") else (False,) * sizes.layers
    return Architecture(
        "",
        "GPTModel",
        sizes.hidden,
        vocabulary,
        (dense, sparse),
        tuple(int(one) for one in kinds or ()),
        (*_outside(config, sizes, vocabulary), *_norm("decoder.final_layernorm", sizes.hidden, sizes.layer_norm)),
        final_norm="final_layernorm",
        tied_embeddings=not config.flag("untie_embeddings_and_output_weights"),
        max_positions=config.whole("max_position_embeddings") or 0,
        learned_positions=_has_learned_positions(config),
        unmodelled=_LAYERS_UNMODELLED,
        stack="decoder.layers",
    )


def _sizes(config: MegatronConfig) -> _Sizes:
    """Sizes with the defaults that depend on others (training/arguments.py, validate_args; core
    transformer/transformer_config.py, __post_init__)."""
    layers, hidden, heads = (config.whole(key) or 1 for key in _SIZES)
    gated = config.flag("swiglu") or config.flag("quick_geglu")
    # Newer releases ask for `group_query_attention` too: without it every head has keys and values of its own.
    groups = (config.whole("num_query_groups") or 1) if config.flag("group_query_attention") else heads
    biased = not config.flag("disable_bias_linear")
    wide = int(4 * hidden * 2 / 3 / 64) * 64 if config.flag("swiglu") else 4 * hidden
    return _Sizes(
        layers,
        hidden,
        heads,
        groups,
        config.whole("kv_channels") or hidden // heads,
        config.whole("ffn_hidden_size") or wide,
        gated,
        config.text("normalization") != "RMSNorm",
        biased,
        biased or config.flag("add_qkv_bias"),
        config.flag("qk_layernorm"),
    )


def padded_vocabulary(config: MegatronConfig) -> int:
    """The rows of the embedding: the vocabulary, up to a multiple of `make_vocab_size_divisible_by` x the tensor
    parallel ranks (training/vocab_utils.py, calculate_padded_vocab_size); 0 where the size is not known."""
    padded = config.whole("padded_vocab_size")
    if padded:
        return padded
    size = config.whole("vocab_size") or _of_tokenizer(config)
    ranks, multiple = config.whole("tensor_model_parallel_size"), config.whole("make_vocab_size_divisible_by")
    return math.ceil(size / (multiple * ranks)) * multiple * ranks if size and ranks and multiple else 0


def _of_tokenizer(config: MegatronConfig) -> int:
    """GPT-2's vocabulary where the file is named as it is published; other tokenizers keep theirs to themselves."""
    name = str(config.raw("vocab_file") or "").rpartition("/")[2]
    is_gpt2 = config.text("tokenizer_type") in ("", "GPT2BPETokenizer")
    return _GPT2_VOCABULARY if is_gpt2 and name == "gpt2-vocab.json" else 0


def _has_learned_positions(config: MegatronConfig) -> bool:
    return not config.flag("use_rotary_position_embeddings") and (
        config.text("position_embedding_type") not in _ROTARY and not config.flag("no_position_embedding")
    )


def _outside(config: MegatronConfig, sizes: _Sizes, vocabulary: int) -> Weights:
    positions = config.whole("max_position_embeddings")
    found: Weights = ()
    if vocabulary:
        found += (Weight("embedding.word_embeddings.weight", (vocabulary, sizes.hidden), "embedding"),)
    if positions and _has_learned_positions(config):
        found += (Weight("embedding.position_embeddings.weight", (positions, sizes.hidden), "position"),)
    if vocabulary and config.flag("untie_embeddings_and_output_weights"):
        found += (Weight("output_layer.weight", (vocabulary, sizes.hidden), "head"),)
    return found


def _layer(config: MegatronConfig, sizes: _Sizes, sparse: bool) -> DecoderLayer:
    mlp, weights = _experts(config, sizes) if sparse else _dense(sizes)
    return DecoderLayer(
        TokenMixer(heads=sizes.heads, kv_heads=sizes.groups, head_dim=sizes.channels, fused_qkv=True),
        mlp,
        norm="layer" if sizes.layer_norm else "rms",
        weights=(
            *_norm("input_layernorm", sizes.hidden, sizes.layer_norm),
            *_attention(sizes),
            *_norm("pre_mlp_layernorm", sizes.hidden, sizes.layer_norm),
            *weights,
        ),
    )


def _attention(sizes: _Sizes) -> Weights:
    query, keys = sizes.heads * sizes.channels, 2 * sizes.groups * sizes.channels
    found = (
        *_linear("self_attention.linear_qkv", query + keys, sizes.hidden, sizes.qkv_bias),
        *_linear("self_attention.linear_proj", sizes.hidden, query, sizes.bias),
    )
    for name in ("q_layernorm", "k_layernorm") if sizes.qk_norm else ():
        found += _norm(f"self_attention.{name}", sizes.channels, sizes.layer_norm)
    return found


def _dense(sizes: _Sizes) -> tuple[Mlp, Weights]:
    return Mlp("gated" if sizes.gated else "plain", sizes.ffn, fused_gate_up=sizes.gated), (
        *_linear("mlp.linear_fc1", sizes.ffn * (2 if sizes.gated else 1), sizes.hidden, sizes.bias),
        *_linear("mlp.linear_fc2", sizes.hidden, sizes.ffn, sizes.bias),
    )


def _experts(config: MegatronConfig, sizes: _Sizes) -> tuple[Mlp, Weights]:
    """A router, experts, and a shared expert beside them (core 0.19 transformer/moe/moe_layer.py)."""
    count, width = config.whole("num_experts") or 1, config.whole("moe_ffn_hidden_size") or sizes.ffn
    shared = config.whole("moe_shared_expert_intermediate_size") or 0
    up = 2 if sizes.gated else 1
    weights: Weights = (
        Weight("mlp.router.weight", (count, sizes.hidden), "router"),
        Weight("mlp.experts.linear_fc1.weight", (count, up * width, sizes.hidden), "experts"),
        Weight("mlp.experts.linear_fc2.weight", (count, sizes.hidden, width), "experts"),
    )
    if sizes.bias:
        weights += (Weight("mlp.experts.linear_fc1.bias", (count, up * width), "experts"),)
        weights += (Weight("mlp.experts.linear_fc2.bias", (count, sizes.hidden), "experts"),)
    if shared:
        weights += _linear("mlp.shared_experts.linear_fc1", up * shared, sizes.hidden, False)
        weights += _linear("mlp.shared_experts.linear_fc2", sizes.hidden, shared, False)
        if config.flag("moe_shared_expert_gate"):
            weights += (Weight("mlp.shared_experts.gate_weight", (1, sizes.hidden), "router"),)
    return Mlp(
        "moe",
        sizes.ffn,
        experts=count,
        experts_per_token=config.whole("moe_router_topk") or 1,
        expert_intermediate_size=width,
        shared_intermediate_size=shared,
    ), weights


_REPEATED = re.compile(r"\[([01](?:,[01])*)\](?:\*(\d{1,4}))?")


def _expert_layers(config: MegatronConfig) -> tuple[bool, ...] | None:
    """Which layers have experts: every n-th, or those of a pattern such as `([0]*1+[1]*26)`
    (core 0.19 models/gpt/gpt_layer_specs.py, get_gpt_decoder_layer_specs); None where it is not known."""
    layers, value = config.whole("num_layers") or 0, config.get("moe_layer_freq")
    every = as_int(value)
    if every is not None:
        return tuple(index % every == 0 for index in range(layers)) if every > 0 else None
    pattern = str(value).replace(" ", "").strip("'\"")
    repeats = re.fullmatch(r"\((.*)\)(?:\*(\d{1,4}))?", pattern)
    terms = (repeats[1] if repeats else pattern).split("+")
    found: list[bool] = []
    for term in terms:
        match = _REPEATED.fullmatch(term)
        if match is None:
            return None
        found += [one == "1" for one in match[1].split(",")] * int(match[2] or 1)
    found *= int(repeats[2] or 1) if repeats else 1
    return tuple(found) if len(found) == layers else None


def _linear(name: str, out: int, inside: int, bias: bool) -> Weights:
    weight = Weight(f"{name}.weight", (out, inside), "linear")
    return (weight, Weight(f"{name}.bias", (out,), "bias")) if bias else (weight,)


def _norm(name: str, size: int, bias: bool) -> Weights:
    weight = Weight(f"{name}.weight", (size,), "norm")
    return (weight, Weight(f"{name}.bias", (size,), "norm")) if bias else (weight,)
