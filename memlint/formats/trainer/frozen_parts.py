"""What a Python script trains where it freezes parts of its model: as patterns of parameters' names, or, of a model
that sees images, which of its tower, projector and language model are frozen whole."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memlint._record import NamedTuple
from memlint.architectures.model import Architecture, layer_weights
from memlint.formats.fields import Fields
from memlint.formats.trainer.config import TrainerConfig
from memlint.run import Origin

_ORIGIN = Origin("framework", detail="the program freezes parts of its model")
_NOT_EVALUATED = "the program freezes parts of its model that memlint cannot name"
_HEAD = ("lm_head", "get_output_embeddings")
# `model.layers[-4:]`, and what is below each of these layers.
_LAYERS = re.compile(r"(?P<stack>[\w.]+)\[(?P<first>-?\d*)(?P<to>:?)(?P<last>-?\d*)\](?P<rest>(?:\.\w+)*)")


# How the classes of published models name their parts, in transformers and in code that comes with a checkpoint
# (transformers 5.23 models/qwen2_vl, llava, internvl, idefics3; OpenGVLab/InternVL internvl_chat/internvl/model/
# internvl_chat/modeling_internvl_chat.py; haotian-liu/LLaVA llava/model/llava_arch.py).
_TOWERS = ("visual", "vision_tower", "vision_model", "vision_encoder", "image_encoder")
_PROJECTORS = ("merger", "mlp1", "multi_modal_projector", "mm_projector", "connector", "aligner")
_LANGUAGE = ("language_model", "text_model", "llm")
_AROUND = ("model", "base_model", "module")  # what these parts are parts of


class TrainedParts(NamedTuple):
    """Whether each part of a model with a tower trains."""

    tower: bool = True
    projector: bool = True
    language: bool = True
    head: bool = True


def read_frozen_parts(fields: Fields, config: TrainerConfig) -> None:
    """What trains of a model without adapters of which the script freezes parts; later statements decide."""
    start = config.section.document.start
    parts = start.program.frozen if start is not None else ()
    if not parts or fields.get("method.kind") != "full":
        return
    architecture = config.architecture
    if isinstance(architecture, Architecture) and architecture.towers:
        _read_of_tower(fields, trained_parts(parts, architecture))
        return
    patterns = None if not isinstance(architecture, Architecture) else trainable_patterns(parts, architecture)
    if patterns is None:
        fields.unknown("method.kind", _NOT_EVALUATED)
        return
    fields.put("method.kind", "freeze", _ORIGIN)
    fields.put("method.trainable_patterns", patterns, _ORIGIN)


def _read_of_tower(fields: Fields, found: TrainedParts | None) -> None:
    if found is None:
        fields.unknown("method.kind", _NOT_EVALUATED)
        return
    fields.put("method.freeze_vision_tower", not found.tower, _ORIGIN)
    fields.put("method.freeze_multi_modal_projector", not found.projector, _ORIGIN)
    fields.put("method.freeze_language_model", not found.language, _ORIGIN)


def trained_parts(parts: tuple[tuple[str, bool], ...], architecture: Architecture) -> TrainedParts | None:
    """Which parts of a model with a tower train; None where one is frozen in part, or the statements name another."""
    found = TrainedParts()
    for path, trains in parts:
        names = _names_of_parts(path.split("."), architecture)
        if names is None:
            return None
        found = found._replace(**dict.fromkeys(names, trains))
    is_whole = found.head == found.language or architecture.tied_embeddings
    return found if is_whole and (found.tower or found.projector or found.language) else None


def _names_of_parts(path: list[str], architecture: Architecture) -> tuple[str, ...] | None:
    """The fields of `TrainedParts` that a path stands for."""
    while len(path) > 1 and path[0] in _AROUND:
        path = path[1:]
    first, last = path[0], path[-1]
    if last in _PROJECTORS and len(path) <= 2:
        return ("projector",)
    if len(path) > 1:
        return ("head",) if first in _LANGUAGE and last == "lm_head" else None
    if first == "":
        return TrainedParts._fields
    if first in _TOWERS:
        holds_projector = any(one.projector_prefix.startswith(f"{one.tower_prefix}.") for one in architecture.towers)
        return ("tower", "projector") if holds_projector else ("tower",)
    if first in _LANGUAGE or first == "model":  # `model.model` of transformers before 4.52 is the language model
        return ("language", "head") if first in _LANGUAGE else ("language",)
    return ("head",) if first in _HEAD else None


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
    if architecture.encoder_decoder:
        return _of_encoder_decoder(path, architecture)
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


def _of_encoder_decoder(path: str, architecture: Architecture) -> str | None:
    """The same of an encoder-decoder. Encoder and decoder hold the embedding that they share (transformers 5.23
    models/t5/modeling_t5.py, models/bart/modeling_bart.py); of sound the encoder has none (models/whisper)."""
    encoder = architecture.stack.rpartition(".")[0]
    places = {"get_encoder": encoder, "get_decoder": encoder.replace("encoder", "decoder")}
    place = places.get(path, path)
    if place not in places.values():
        return f"{re.escape(path)}(?:\\.|$)" if "[" not in path and path not in _HEAD else None
    shared = next((one.name for one in architecture.non_layer_weights if one.kind == "embedding"), "")
    if architecture.mel_bins and place == encoder:
        return f"{re.escape(place)}\\."
    return f"(?:{re.escape(place)}\\.|{re.escape(shared)}$)"


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
    yield from (name for name, _ in layer_weights(architecture))
