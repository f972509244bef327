"""The real classes of transformers on the meta device, to compare parameter shapes with."""

from __future__ import annotations

import re
import warnings
from typing import Any

import torch
import transformers
from transformers.models.auto import modeling_auto
from transformers.utils import logging

from memlint.architectures.model import Architecture, Tower

logging.set_verbosity_error()
PAIRS = modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
# Their class in the causal mapping is a decoder.
ENCODERS = ("bert", "big_bird", "camembert", "electra", "rembert", "roberta", "roformer", "xlm-roberta")
_PAIRS = (
    "bart",
    "mbart",
    "pegasus",
    "marian",
    "t5",
    "mt5",
    "umt5",
    "m2m_100",
    "plbart",
    "blenderbot",
    "blenderbot-small",
    "led",
    "longt5",
    "switch_transformers",
)
CLASSES = {
    **modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    **modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    **{name: modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES[name] for name in ENCODERS},
    **modeling_auto.MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES,
    **{name: PAIRS[name] for name in _PAIRS},
    "whisper": "WhisperForConditionalGeneration",
}


def build(family: str, values: dict[str, Any]) -> torch.nn.Module:
    """The model that transformers makes of a configuration, without memory for its weights."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = transformers.CONFIG_MAPPING[family](**values)
        with torch.device("meta"):
            return getattr(transformers, CLASSES[family])(config)


def tensors(model: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    """Name and shape of every parameter, tied ones once, by the name of the embedding."""
    names: dict[int, str] = {}
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for name, parameter in parameters.items():
        if id(parameter) not in names or ".embeddings." in name:
            names[id(parameter)] = name
    return {name: tuple(parameters[name].shape) for name in names.values()}


def listed(architecture: Architecture, model: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    """The same from memlint's own shapes, with layers put where the model's modules have them."""
    found = {weight.name: weight.shape for weight in architecture.non_layer_weights}
    for index, prefix in zip(architecture.layer_type_ids, _layers(architecture, model), strict=True):
        for weight in architecture.layer_types[index].weights:
            for copy in range(weight.copies):
                found[f"{prefix}.{weight.name.replace('*', str(copy))}"] = weight.shape
    for tower in architecture.towers:
        _add_tower(found, tower, model)
    return found


def _layers(architecture: Architecture, model: torch.nn.Module) -> list[str]:
    classes = {kind.class_name for kind in architecture.layer_types}
    modules = model.named_modules()
    return [name for name, module in modules if type(module).__name__ in classes and re.search(r"\.\d+$", name)]


def _add_tower(found: dict[str, tuple[int, ...]], tower: Tower, model: torch.nn.Module) -> None:
    found.update({f"{tower.tower_prefix}.{weight.name}": weight.shape for weight in tower.weights})
    found.update({f"{tower.projector_prefix}.{weight.name}": weight.shape for weight in tower.projector_weights})
    blocks = re.compile(re.escape(tower.tower_prefix) + r"\.(?:\w+\.){0,2}(?:layers?|blocks|encoders)\.\d+")
    names = [name for name, _ in model.named_modules() if blocks.fullmatch(name)]
    for name in [name for name in names if "global_transformer" not in name or "global" in tower.tower_prefix][
        : tower.layers
    ]:
        found.update({f"{name}.{weight.name}": weight.shape for weight in tower.layer_weights})
