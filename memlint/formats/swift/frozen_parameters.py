"""`freeze_parameters` and its relatives: what full tuning trains, as patterns of parameters' names.

ms-swift 4.6.0 pipelines/train/tuner.py:409 trains everything, then freezes by ratio, by beginnings of names and by a
regular expression (utils/transformers_utils.py:70), then lets some train again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from memlint.architectures.model import Architecture, Weight, layer_weights
from memlint.formats.fields import Fields, as_words
from memlint.formats.name_patterns import bounded_pattern
from memlint.formats.swift.config import SwiftConfig
from memlint.run import UNKNOWN

_FREEZING = ("freeze_parameters_ratio", "freeze_parameters", "freeze_parameters_regex")
_TRAINING = ("trainable_parameters", "trainable_parameters_regex")


def read_frozen_parameters(fields: Fields, config: SwiftConfig) -> None:
    """What trains, where full tuning freezes a part of the model."""
    given = [key for key in _FREEZING if config.get(key) or config.get(key) is UNKNOWN]
    if not given or fields.get("method.kind") != "full":
        return
    reason = _not_evaluated(config)
    if reason:
        fields.unknown("method.kind", reason)
        return
    frozen = [re.escape(word) for word in (*_first_parameters(config), *as_words(config.get("freeze_parameters")))]
    frozen += [f".*(?:{pattern})" for pattern in _patterns(config, "freeze_parameters_regex")]
    if not frozen:  # a share smaller than the first parameter's
        return
    trained = ["^" + re.escape(word) for word in as_words(config.get("trainable_parameters"))]
    trained += _patterns(config, "trainable_parameters_regex")
    fields.put("method.kind", "freeze", config.origin(given[0]))
    fields.put("method.trainable_patterns", (f"^(?!{'|'.join(frozen)})", *trained), config.origin(given[0]))


def _not_evaluated(config: SwiftConfig) -> str:
    """Why nobody can say here what trains; "" where it can be said."""
    architecture = config.architecture
    if any(config.get(key) is UNKNOWN for key in (*_FREEZING, *_TRAINING)):
        return "what is frozen is filled in elsewhere"
    if not isinstance(architecture, Architecture):
        return "the names of the model's parameters are not known, so that what is frozen cannot be counted"
    if architecture.towers:
        return "parameters of an image-text model that are frozen by name are not counted"
    patterns = _patterns(config, "freeze_parameters_regex") + _patterns(config, "trainable_parameters_regex")
    wrong = next((pattern for pattern in patterns if bounded_pattern(pattern) is None), None)
    return "" if wrong is None else f"the pattern `{wrong[:60]}` is not evaluated"


def _patterns(config: SwiftConfig, key: str) -> list[str]:
    """The regular expression at a key, as a list of none or one."""
    value = config.get(key)
    return [value] if isinstance(value, str) and value else []


def _first_parameters(config: SwiftConfig) -> Iterator[str]:
    """Names of the first parameters that together are at most `freeze_parameters_ratio` of the model."""
    sizes = list(_in_order(config.architecture))
    left = int(sum(size for _, size in sizes) * (config.number("freeze_parameters_ratio") or 0))
    for name, size in sizes:
        left -= size
        if left < 0:
            return
        yield name


def _in_order(architecture: Architecture) -> Iterator[tuple[str, int]]:
    """Names of parameters in the model's order, with how many numbers each has: embeddings, layers, the rest."""
    outside = architecture.non_layer_weights
    embeddings = [weight for weight in outside if weight.kind in ("embedding", "position")]
    yield from ((weight.name, _numel(weight)) for weight in embeddings)
    yield from ((name, _numel(weight)) for name, weight in layer_weights(architecture))
    yield from ((weight.name, _numel(weight)) for weight in outside if weight not in embeddings)


def _numel(weight: Weight) -> int:
    return math.prod(weight.shape) * weight.copies
