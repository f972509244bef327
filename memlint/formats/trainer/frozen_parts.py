"""What a Python script trains where it freezes parts of its model, as patterns of parameters' names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memlint.architectures.model import Architecture
from memlint.formats.fields import Fields
from memlint.formats.trainer.config import TrainerConfig
from memlint.run import Origin

_ORIGIN = Origin("framework", detail="the program freezes parts of its model")
_NOT_EVALUATED = "the program freezes parts of its model that memlint cannot name"
_HEAD = ("lm_head", "get_output_embeddings")
# `model.layers[-4:]`, and what is below each of these layers.
_LAYERS = re.compile(r"(?P<stack>[\w.]+)\[(?P<first>-?\d*)(?P<to>:?)(?P<last>-?\d*)\](?P<rest>(?:\.\w+)*)")


def read_frozen_parts(fields: Fields, config: TrainerConfig) -> None:
    """`method.trainable_patterns` of a script that trains without adapters; later statements decide."""
    start = config.section.document.start
    parts = start.program.frozen if start is not None else ()
    if not parts or fields.get("method.kind") != "full":
        return
    architecture = config.architecture
    patterns = None if not isinstance(architecture, Architecture) else trainable_patterns(parts, architecture)
    if patterns is None:
        fields.unknown("method.kind", _NOT_EVALUATED)
        return
    fields.put("method.kind", "freeze", _ORIGIN)
    fields.put("method.trainable_patterns", patterns, _ORIGIN)


def trainable_patterns(parts: tuple[tuple[str, bool], ...], architecture: Architecture) -> tuple[str, ...] | None:
    """Patterns that the names of all trainable parameters match, and no other name; None where a part is unknown."""
    named = [(_pattern(path, architecture), trains) for path, trains in (("", True), *parts)]
    names = list(_names(architecture))
    known = [(pattern, trains) for pattern, trains in named if pattern is not None]
    if len(known) < len(named) or architecture.towers:
        return None
    if not all(any(re.match(pattern, name) for name in names) for pattern, _ in known):
        return None
    found = []
    for index, (pattern, trains) in enumerate(known):
        frozen = [later for later, kept in known[index + 1 :] if not kept]
        if trains and "" not in frozen:
            found.append(f"^(?!{'|'.join(frozen)})(?:{pattern})" if frozen else f"^(?:{pattern})")
    return tuple(found) or None


def _pattern(path: str, architecture: Architecture) -> str | None:
    """The pattern of the names of a part's parameters."""
    if path == "":
        return ""
    embedding = next((one.name for one in architecture.non_layer_weights if one.kind == "embedding"), "")
    is_head = path.removesuffix(".weight") in _HEAD
    if path == "get_input_embeddings" or (is_head and architecture.tied_embeddings):
        return re.escape(embedding)
    if is_head:
        return next((re.escape(one.name) for one in architecture.non_layer_weights if one.kind == "head"), None)
    layers = _LAYERS.fullmatch(path)
    if layers is None:
        return f"{re.escape(path)}(?:\\.|$)"
    return _of_layers(layers, len(architecture.layer_type_ids)) if layers["stack"] == architecture.stack else None


def _of_layers(part: re.Match[str], count: int) -> str | None:
    first, last = (int(part[name]) if part[name] not in ("", "-") else None for name in ("first", "last"))
    if first is not None and not part["to"]:  # one layer, counted from either end
        last = first + 1 or None
    indexes = range(count)[first:last]
    rest = re.escape(part["rest"])
    return f"{re.escape(part['stack'])}\\.(?:{'|'.join(map(str, indexes))}){rest}\\." if indexes else None


def _names(architecture: Architecture) -> Iterator[str]:
    """The names of all parameters."""
    yield from (weight.name for weight in architecture.non_layer_weights)
    for index, kind in enumerate(architecture.layer_type_ids):
        for weight in architecture.layer_types[kind].weights:
            yield f"{architecture.stack}.{index}.{weight.name}"
