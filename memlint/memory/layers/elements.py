"""Numbers of elements of a run's activations, by the extents that the recordings of layers name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import memlint.memory.families.lookup as families
from memlint.architectures.model import Architecture, DecoderLayer, Mlp, TokenMixer


class Tokens:
    """The tokens of one forward on one GPU: `sequences` of `length` tokens. `source`: the length of what an encoder
    reads for each of them; 0 = as long."""

    __slots__ = ("length", "sequences", "source")

    def __init__(self, sequences: int, length: int, source: int = 0) -> None:
        self.sequences = sequences
        self.length = length
        self.source = source or length

    @property
    def count(self) -> int:
        """Tokens of one forward."""
        return self.sequences * self.length


def of_model(architecture: Architecture, tokens: Tokens, vocabulary: int) -> dict[str, int]:
    """Numbers of elements by extent, for the embedding, the residual stream and the logits."""
    count = tokens.count
    streams = max((kind.streams for kind in architecture.layer_types), default=1)
    return {
        "hidden": count * architecture.hidden_size,
        "hidden*3": 3 * count * architecture.hidden_size,
        "positions": tokens.length * architecture.hidden_size,
        "rows": count,
        "scalar": 1,
        "logits": count * vocabulary,
        "rope": 0,
        "per_layer": count * architecture.per_layer_embedding_size * len(architecture.layer_type_ids),
        "per_layer_rows": count * len(architecture.layer_type_ids),
        "streams": count * architecture.hidden_size * streams,
        "other_streams": count * architecture.hidden_size * (streams - 1),
        "stream_rows": count * streams,
        "stream_pairs": count * streams**2,
    }


def of_layer(layer: DecoderLayer, tokens: Tokens, hidden: int) -> dict[str, int]:
    """Numbers of elements by extent, for the activations inside of one decoder layer."""
    found = _attention(layer, tokens)
    if layer.parallel_ssm is not None:
        found |= _mamba2(layer.parallel_ssm, tokens)
    if layer.per_layer_size:
        found["own_embedding"] = tokens.count * layer.per_layer_size
        found["laurel"] = tokens.count * next((w.shape[0] for w in layer.weights if "linear_left" in w.name), 0)
    if layer.cross_attention is not None:
        found |= _cross_attention(layer.cross_attention, tokens, hidden)
    _mlp(found, layer, tokens.count, hidden)
    return found


def _cross_attention(shape: TokenMixer, tokens: Tokens, hidden: int) -> dict[str, int]:
    source, pairs = tokens.sequences * tokens.source, tokens.length * tokens.source
    return {
        "source": source * hidden,
        "cross_keys": source * shape.heads * shape.head_dim,
        "cross_values": source * shape.heads * shape.head_dim,
        "cross_pairs": tokens.sequences * pairs,
        "cross_scores": tokens.sequences * shape.heads * pairs,
        "cross_bias": shape.heads * pairs,
    }


def _attention(layer: DecoderLayer, tokens: Tokens) -> dict[str, int]:
    shape, count = layer.attention, tokens.count
    value_dim = shape.value_head_dim or shape.head_dim
    query = count * shape.heads * shape.head_dim
    key = count * shape.kv_heads * shape.head_dim
    fraction = shape.rotary_fraction
    if shape.kind == "mla":
        return _latent(layer, tokens)
    if shape.kind == "mamba2":
        return _mamba2(shape, tokens)
    if shape.kind == "gated_delta":
        return _gated_delta(shape, tokens)
    return {
        "query": query,
        "query*2": 2 * query,
        "key": key,
        "value": count * shape.kv_heads * value_dim,
        "query_key_value": query + key + count * shape.kv_heads * value_dim,
        "mixed": count * shape.heads * value_dim,
        "scores": tokens.sequences * shape.heads * tokens.length * tokens.length,
        "pairs": tokens.sequences * tokens.length**2,
        "distances": tokens.length**2,
        "position_bias": shape.heads * tokens.length**2,
        "relative": shape.relative_rows * shape.heads * shape.head_dim,
        "relative_heads": tokens.sequences * shape.relative_rows * shape.heads * shape.head_dim,
        "position_scores": count * shape.heads * shape.relative_rows,
        "head_rows": count * shape.heads,
        "key_head_rows": count * shape.kv_heads,
        "rotary_table": tokens.length * int(shape.head_dim * fraction),
        "rotary_rows": count * int(shape.head_dim * fraction),
        "query/2": query // 2,
        "key/2": key // 2,
        "query.rotary": int(query * fraction),
        "key.rotary": int(key * fraction),
        "query.passed": query - int(query * fraction),
        "key.passed": key - int(key * fraction),
        "query.rotary/2": int(query * fraction) // 2,
        "key.rotary/2": int(key * fraction) // 2,
    }


def _latent(layer: DecoderLayer, tokens: Tokens) -> dict[str, int]:
    shape, count = layer.attention, tokens.count
    value_dim = shape.value_head_dim or shape.head_dim
    query, value = count * shape.heads * shape.head_dim, count * shape.heads * value_dim
    rotary, key_rotary = count * shape.heads * shape.rope_head_dim, count * shape.rope_head_dim
    return {
        "query": query,
        "key": query,
        "value": value,
        "mixed": value,
        "key.passed": query - rotary,
        "key+value": query - rotary + value,
        "query.passed": query - rotary,
        "query.rotary": rotary,
        "query.rotary/2": rotary // 2,
        "key_rotary": key_rotary,
        "key_rotary/2": key_rotary // 2,
        "query_latent": count * shape.q_lora_rank,
        "latent": count * shape.kv_lora_rank,
        "pairs": tokens.sequences * tokens.length**2,
        "index_scores": tokens.sequences * shape.index_heads * tokens.length**2,
        "latent+rope": count * (shape.kv_lora_rank + shape.rope_head_dim),
        "scores": tokens.sequences * shape.heads * tokens.length * tokens.length,
        "head_rows": count * shape.heads,
        "key_head_rows": count * shape.heads,
    }


def _mamba2(shape: TokenMixer, tokens: Tokens) -> dict[str, int]:
    """The state-space scan works on whole chunks."""
    chunk = shape.chunk_size or 256
    chunks = tokens.sequences * -(-tokens.length // chunk)
    count = chunks * chunk
    inner, grouped = count * shape.heads * shape.head_dim, count * shape.kv_heads * shape.state_size
    state = shape.heads * shape.head_dim * shape.state_size
    return {
        "ssm_inner": inner,
        "ssm_joined": 2 * inner + 2 * grouped + count * shape.heads,
        "ssm_conv": inner + 2 * grouped,
        "ssm_grouped": grouped,
        "ssm_state_rows": count * shape.heads * shape.state_size,
        "ssm_pairs": count * shape.heads * chunk,
        "ssm_states": chunks * state,
        "ssm_carried": (chunks + tokens.sequences) * state,
        "ssm_rows": count * shape.heads,
    }


def _gated_delta(shape: TokenMixer, tokens: Tokens) -> dict[str, int]:
    """The gated delta rule works on whole chunks."""
    chunk = shape.chunk_size or 64
    chunks = tokens.sequences * -(-tokens.length // chunk)
    count, value_dim = chunks * chunk, shape.value_head_dim or shape.head_dim
    key, mixed = count * shape.kv_heads * shape.head_dim, count * shape.heads * value_dim
    return {
        "query": count * shape.heads * shape.head_dim,
        "delta_key": key,
        "mixed": mixed,
        "delta_qkv": 2 * key + mixed,
        "delta_qkvz": 2 * key + 2 * mixed,
        "delta_pairs": count * shape.heads * chunk,
        "delta_states": chunks * shape.heads * shape.head_dim * value_dim,
        "delta_state": tokens.sequences * shape.heads * shape.head_dim * value_dim,
        "delta_rows": chunks * shape.heads * sum(row + row * row for row in range(1, chunk)),
        "head_rows": count * shape.heads,
        "rows*2": 2 * count * shape.heads,
    }


def _mlp(found: dict[str, int], layer: DecoderLayer, count: int, hidden: int) -> None:
    shape = layer.mlp
    if shape.kind == "moe":
        every_expert = families.of_layer(layer.class_name).experts.every_expert
        chosen = count * (shape.experts if every_expert else shape.experts_per_token)
        found["routes"] = count * shape.experts
        found["chosen"] = chosen
        expert_hidden = shape.expert_hidden_size or hidden
        found["routed"] = count * expert_hidden
        found["chosen_hidden"] = chosen * expert_hidden
        found["chosen_inner"] = chosen * shape.expert_intermediate_size
        found["chosen_inner*2"] = 2 * chosen * shape.expert_intermediate_size
        _expert_share(found, shape.experts or 1, expert_hidden * shape.expert_intermediate_size)
    found["intermediate"] = count * shape.intermediate_size
    found["intermediate*2"] = 2 * count * shape.intermediate_size
    found["shared_intermediate"] = count * shape.shared_intermediate_size
    found["shared_intermediate*2"] = 2 * count * shape.shared_intermediate_size


def of_expert_adapters(
    counts: Mapping[str, int], parameters: Iterable[str], shape: Mlp, tokens: Tokens
) -> dict[str, int]:
    """Extents of the low-rank activations of adapted experts that are linear layers: of the last expert's tokens, and
    of all others' (moe_loop.py). Their factors stand in one pair for all experts, whose rank is the sum of theirs.
    `parameters`: the extents in `counts` that come from the layer's parameters."""
    found = {}
    for extent in (name for name in parameters if name.startswith("rank:expert_")):
        rank = counts[extent] // (tokens.count * max(1, shape.experts))
        found[extent] = rank * counts["expert"]
        found["others_" + extent] = rank * (counts["chosen"] - counts["expert"])
    return found


def _expert_share(found: dict[str, int], experts: int, matrix: int) -> None:
    """Extents of the last expert's share of the routed tokens, and of all other experts' (moe_loop.py)."""
    found["expert_matrix"] = matrix
    found["expert"] = found["chosen"] // experts
    for extent in ("hidden", "inner"):
        found["expert_" + extent] = found["chosen_" + extent] // experts
        found["others_" + extent] = found["chosen_" + extent] - found["expert_" + extent]
