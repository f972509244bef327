"""An Architecture from its decoder layers, embeddings, final norm and head."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from memlint.architectures.blocks import Weights, linear, norm
from memlint.architectures.config import ModelConfig
from memlint.architectures.model import Architecture, DecoderLayer, Weight


def decoder(
    c: ModelConfig,
    class_name: str,
    make: Callable[[Any], DecoderLayer],
    keys: Sequence[Hashable] | None = None,
    *,
    prefix: str = "model.",
    embedding: str = "embed_tokens",
    final_norm: str = "norm",
    final_bias: bool = False,
    head: str = "lm_head",
    head_bias: bool = False,
    tied: bool | None = None,
    extra: Weights = (),
    **traits: Any,
) -> Architecture:
    """An Architecture whose layer i is `make(keys[i])`; equal keys share one layer type.

    `final_norm` "": there is none, or it is in `extra`, with the other weights outside of the layers.
    """
    keys = [None] * c.layers() if keys is None else keys
    layer_types, layer_type_ids = _distinct(keys, make)
    hidden, vocabulary = c.integer("hidden_size"), c.integer("vocab_size")
    tied = c.flag("tie_word_embeddings") if tied is None else tied
    non_layer_weights = (Weight(f"{prefix}{embedding}.weight", (vocabulary, hidden), "embedding"), *extra)
    if final_norm:
        non_layer_weights += norm(prefix + final_norm, hidden, final_bias)
    if not tied:
        non_layer_weights += linear(head, vocabulary, hidden, head_bias, "head")
    elif head_bias:
        non_layer_weights += (Weight(f"{head}.bias", (vocabulary,), "bias"),)
    return Architecture(
        family=c.family,
        class_name=class_name,
        hidden_size=hidden,
        vocab_size=vocabulary,
        layer_types=layer_types,
        layer_type_ids=layer_type_ids,
        non_layer_weights=non_layer_weights,
        final_norm=final_norm if "embed" in final_norm else "",
        tied_embeddings=tied,
        max_positions=positions(c),
        **traits,
    )


def positions(c: ModelConfig) -> int:
    """The longest sequence that the config declares, 0 where it does not."""
    value = c.get("max_position_embeddings", 0)
    return value if isinstance(value, int) and 0 < value < 1 << 40 else 0


def _distinct(
    keys: Sequence[Hashable], make: Callable[[Any], DecoderLayer]
) -> tuple[tuple[DecoderLayer, ...], tuple[int, ...]]:
    seen: dict[Hashable, int] = {}
    pattern = tuple(seen.setdefault(key, len(seen)) for key in keys)
    return tuple(make(key) for key in seen), pattern
