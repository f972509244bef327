"""The description of a model for the estimator: its layers as building blocks, and every parameter tensor.

A model is `layer_type_ids`, a list of indexes into `layer_types` (its distinct decoder layers), plus the weights
outside of the layers and any vision or audio towers. Counts are exact: the sum over `Weight`s is
what transformers counts for the same configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint._record import NamedTuple


class Weight(NamedTuple):
    """One parameter tensor. `name` is relative to its owner ("self_attn.q_proj.weight", "input_layernorm.weight").

    `kind`: linear, bias, norm, embedding, position, fixed (positions that never train), head, conv, experts (stacked
    3-D experts), router, other.
    `copies` > 1 stands for that many tensors of this shape in one owner (experts as separate linears:
    "mlp.experts.*.gate_proj.weight").
    """

    name: str
    shape: tuple[int, ...]
    kind: str
    copies: int = 1


class TokenMixer(NamedTuple):
    """One layer's token mixer. `kind`: attention, mla, mamba, mamba2, gated_delta, rwkv, conv, none."""

    kind: str = "attention"
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    value_head_dim: int = 0  # 0 = head_dim
    q_lora_rank: int = 0  # MLA
    kv_lora_rank: int = 0
    rope_head_dim: int = 0
    sliding_window: int = 0  # 0 = full attention
    qk_norm: str = "none"  # none, head (over head_dim), full (over all heads)
    rotary_fraction: float = 1.0  # 0 = no rotary
    softcap: bool = False
    sinks: bool = False
    fused_qkv: bool = False  # one projection for q, k, v
    output_gate: bool = False
    head_gate: bool = False  # with `output_gate`: one number for each head
    shares_kv: bool = False  # reads another layer's k and v
    dropout: float = 0.0
    conv_kernel: int = 0  # linear attention / mamba
    state_size: int = 0
    chunk_size: int = 0
    values_are_keys: bool = False  # no value projection: the keys before their norm are the values (Gemma 4)
    value_norm: bool = False  # a norm without weight over each value head (Gemma 4)
    index_heads: int = 0  # of an indexer that chooses the keys of each query (DeepSeek V3.2)
    masks_choice: bool = False  # each layer has a mask of its own, with the keys that were chosen
    relative_rows: int = 0  # of a table of distances, for products with queries (DeBERTa) or as biases (T5)
    position_terms: int = 0  # how many of these products are added to the scores
    gated_norm: bool = True  # the output of Mamba 2's scan is normed and gated together


class Mlp(NamedTuple):
    """`kind`: gated (act(gate) * up), plain (act(fc1)), moe, none."""

    kind: str = "gated"
    intermediate_size: int = 0
    activation: str = "silu"
    fused_gate_up: bool = False
    dropout: float = 0.0
    experts: int = 0
    experts_per_token: int = 0
    expert_intermediate_size: int = 0
    expert_kind: str = "gated"
    expert_hidden_size: int = 0  # the hidden size of experts where it is not the layer's (Nemotron 3)
    shared_intermediate_size: int = 0  # shared expert(s), 0 = none
    sparse_gate: bool = False  # only the gate's largest values pass (Gemma 3n's first layers)
    parallel_experts: bool = False  # experts in addition to a dense MLP, each with its own norms (Gemma 4)


class DecoderLayer(NamedTuple):
    """One type of decoder layer. `weights`: its tensors, with names relative to the layer."""

    attention: TokenMixer
    mlp: Mlp
    norm: str = "rms"  # rms, rms_gemma ((1 + w) in fp32), layer, layer_no_affine
    norms: int = 2  # how many norms over the residual stream: 2, or 4 with post-norms (Gemma 2/3)
    norms_input: bool = True  # False: attention reads the layer's input as it is (ModernBERT's first layer)
    parallel: bool = False  # attention and MLP read the same input (NeoX, Phi, Falcon)
    class_name: str = ""  # the transformers class FSDP wraps: LlamaDecoderLayer
    residual_scale: bool = False
    weights: tuple[Weight, ...] = ()
    parallel_ssm: TokenMixer | None = None  # a state-space mixer beside the attention (Falcon-H1)
    cross_attention: TokenMixer | None = None  # of a decoder to its encoder's output (T5, BART)
    per_layer_size: int = 0  # width of the layer's own token embedding, which gates one more block (Gemma 3n, Gemma 4)
    streams: int = 1  # residual streams that the layer reads and writes (AltUp in Gemma 3n)


class Tower(NamedTuple):
    """A vision or audio encoder with its projector."""

    kind: str  # vision, audio
    hidden_size: int
    layers: int
    heads: int
    intermediate_size: int
    mlp: str = "plain"
    norm: str = "layer"
    patch_size: int = 14
    merge_size: int = 1  # patches merged into one token, per side
    temporal_patch_size: int = 1
    image_size: int = 0  # fixed-resolution towers
    tokens_per_image: int = 0  # fixed token count in the language model's sequence (0: from pixels)
    max_tiles: int = 1
    weights: tuple[Weight, ...] = ()  # tower outside its layers
    layer_weights: tuple[Weight, ...] = ()  # of one layer; times `layers`
    projector_weights: tuple[Weight, ...] = ()
    tower_prefix: str = "visual"
    projector_prefix: str = "visual.merger"
    layer_class: str = ""  # the transformers class whose code its layers run; "" = not modelled
    activation: str = "gelu"
    window: int = 0  # patches that attend to each other in layers not in `full_layers`; 0 = all of an image
    full_layers: tuple[int, ...] = ()


class StoredWeights(NamedTuple):
    """How the published checkpoint stores its weights: `method` as run.Quantization.method."""

    method: str = "none"
    bits: float = 16
    kind: str = ""
    group_size: int = 0
    double_quant: bool = False
    skipped: tuple[str, ...] = ()  # modules left unquantised


class Architecture(NamedTuple):
    """A whole model."""

    family: str  # transformers model_type
    class_name: str  # LlamaForCausalLM
    hidden_size: int
    vocab_size: int
    layer_types: tuple[DecoderLayer, ...]
    layer_type_ids: tuple[int, ...]  # layer_types[layer_type_ids[i]] is layer i
    non_layer_weights: tuple[Weight, ...]  # embeddings, positions, final norm, head
    final_norm: str = ""  # the last part of its module's name; "": none, or one that no embedding's name resembles
    tied_embeddings: bool = False  # the head shares the embedding's tensor (then no head in `non_layer_weights`)
    max_positions: int = 0
    dtype: str = "bfloat16"  # the checkpoint's dtype
    embedding_scale: bool = False  # embeddings multiplied by a constant (Gemma)
    logits_softcap: bool = False
    logits_scale: bool = False
    embedding_norm: bool = False
    projected_embeddings: bool = False  # to the width of the residual stream, after norm and dropout (ELECTRA)
    typed_embeddings: bool = False  # a second table says which of two texts a token belongs to (BERT)
    learned_positions: bool = False
    embedding_dropout: float = 0.0
    per_layer_embedding_size: int = 0
    towers: tuple[Tower, ...] = ()
    stored: StoredWeights = StoredWeights()
    unmodelled: str = ""  # why activations cannot be given exactly ("" = they can)
    encoder_decoder: bool = False  # encoder layers, then decoder layers with cross attention
    source_positions: int = 0  # that the encoder reads whatever the length of the text (Whisper); 0 = as many
    mel_bins: int = 0  # of the sound that two convolutions make these positions of
    encoder_only: bool = False  # BERT and relatives: tasks other than masked language modelling build no logits
    stack: str = "model.layers"  # where the (first) layers are: the beginning of their parameters' names
    # What turns answers into speech: of a whole checkpoint, not of the part that trains, so not among `parameters`.
    speech_weights: tuple[Weight, ...] = ()


class Resolution(NamedTuple):
    """The model that a name means.

    `source`: config (a config.json), settings, catalog, cache, hub, unknown. `name` is the canonical id.
    `inferred`: "" for an exact match, else the rule that matched, in words.
    """

    name: str
    source: str
    architecture: Architecture | None
    inferred: str = ""
    reason: str = ""  # for unknown: what is missing and what to do
    path: str = ""
    config: Mapping[str, Any] | None = None  # what the architecture was built from


def layer_path(architecture: Architecture, index: int) -> str:
    """The beginning of the names of a layer's parameters: "model.layers.3". The decoder of an encoder-decoder counts
    its layers anew: "decoder.block.0" after the last "encoder.block"."""
    if architecture.encoder_decoder:
        has_source = [kind.cross_attention is not None for kind in architecture.layer_types]
        first = next(at for at, kind in enumerate(architecture.layer_type_ids) if has_source[kind])
        if index >= first:
            return f"{architecture.stack.replace('encoder', 'decoder')}.{index - first}"
    return f"{architecture.stack}.{index}"


def layer_weights(architecture: Architecture) -> Iterator[tuple[str, Weight]]:
    """The weights of all layers, in the model's order, each with its parameter's whole name."""
    for index, kind in enumerate(architecture.layer_type_ids):
        path = layer_path(architecture, index)
        for weight in architecture.layer_types[kind].weights:
            yield f"{path}.{weight.name}", weight


def layer_parameters(layer: DecoderLayer) -> int:
    """Parameters of one decoder layer."""
    return count(layer.weights)


def count(weights: tuple[Weight, ...]) -> int:
    """Numbers held by `weights`."""
    total = 0
    for weight in weights:
        size = weight.copies
        for extent in weight.shape:
            size *= extent
        total += size
    return total


def parameters(architecture: Architecture) -> int:
    """All parameters, as `sum(p.numel() for p in model.parameters())` gives (tied tensors once)."""
    per_kind = [layer_parameters(kind) for kind in architecture.layer_types]
    towers = sum(
        count(t.weights) + t.layers * count(t.layer_weights) + count(t.projector_weights) for t in architecture.towers
    )
    return (
        count(architecture.non_layer_weights) + sum(per_kind[index] for index in architecture.layer_type_ids) + towers
    )
