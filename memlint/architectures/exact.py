"""Counting a family whose parameter shapes memlint does not know, by transformers' own class on the meta device.

Needs the extra `exact` (PyTorch and transformers) and never loads weights or remote code. The result
has every tensor by name and shape; what its blocks keep for the backward is not known.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Mapping
from typing import Any

from memlint.architectures.config import UnsupportedConfig
from memlint.architectures.model import Architecture, DecoderLayer, Mlp, TokenMixer, Weight
from memlint.architectures.stored import stored_weights, weights_dtype

UNMODELLED = "its tensors were counted by transformers' class; what its blocks compute is not described"
_LAYER = re.compile(r"^(.*\.)?(?:layers?|h|blocks?)\.(\d+)$")


def count(config: Mapping[str, Any]) -> Architecture:
    """The architecture of `config`. Raises UnsupportedConfig where transformers does not build it."""
    model = _meta_model(config)
    prefix, layers = _decoder_layers(model)
    type_ids: dict[tuple[Weight, ...], int] = {}
    classes: dict[int, str] = {}
    layer_type_ids = []
    counted: set[int] = set()  # some models share whole blocks between layers (Zamba)
    for layer in layers:
        index = type_ids.setdefault(_weights(layer, counted), len(type_ids))
        classes.setdefault(index, type(layer).__name__)
        layer_type_ids.append(index)
    non_layer_weights = tuple(
        weight for weight in _weights(model, set()) if not _is_in_layer(weight.name, prefix, len(layers))
    )
    text = model.config.get_text_config()
    return Architecture(
        family=str(config.get("model_type")),
        class_name=type(model).__name__,
        hidden_size=int(getattr(text, "hidden_size", 0) or 0),
        vocab_size=int(getattr(text, "vocab_size", 0) or 0),
        layer_types=tuple(
            DecoderLayer(TokenMixer("none"), Mlp("none"), class_name=classes[index], weights=weights)
            for weights, index in type_ids.items()
        ),
        layer_type_ids=tuple(layer_type_ids),
        non_layer_weights=non_layer_weights,
        dtype=weights_dtype(config),
        stored=stored_weights(config),
        unmodelled=UNMODELLED,
    )


def _meta_model(config: Mapping[str, Any]) -> Any:
    try:
        torch: Any = importlib.import_module("torch")
        transformers: Any = importlib.import_module("transformers")
        auto: Any = importlib.import_module("transformers.models.auto.modeling_auto")
    except ImportError as error:
        raise UnsupportedConfig(
            "counting it needs PyTorch and transformers: pip install torch transformers accelerate peft"
        ) from error
    family = config.get("model_type")
    classes = {**auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, **getattr(auto, "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES", {})}
    if family not in classes:
        raise UnsupportedConfig(f"transformers {transformers.__version__} has no class for model_type `{family}`")
    values = {
        key: value for key, value in config.items() if key not in ("model_type", "quantization_config", "auto_map")
    }
    try:
        with warnings.catch_warnings(), torch.device("meta"):
            warnings.simplefilter("ignore")
            return getattr(transformers, classes[family])(transformers.CONFIG_MAPPING[family](**values))
    except Exception as error:  # whatever a model's own code raises on a configuration
        raise UnsupportedConfig(f"transformers does not build this {family} config: {str(error)[:200]}") from error


def _decoder_layers(model: Any) -> tuple[str, list[Any]]:
    """The largest list of layers in the model, and the name it stands under."""
    lists: dict[str, list[Any]] = {}
    for name, module in model.named_modules():
        if _LAYER.match(name):
            lists.setdefault(name.rsplit(".", 1)[0], []).append(module)
    if not lists:
        return "", []
    largest = max(lists, key=lambda name: sum(weight.numel() for layer in lists[name] for weight in layer.parameters()))
    return largest, lists[largest]


def _is_in_layer(name: str, prefix: str, layers: int) -> bool:
    return layers > 0 and name.startswith(prefix + ".") and name[len(prefix) + 1 :].split(".")[0].isdigit()


def _weights(module: Any, seen: set[int]) -> tuple[Weight, ...]:
    """The tensors of `module` that are not in `seen`, which they join."""
    linear = {f"{name}.weight" for name, part in module.named_modules() if type(part).__name__ == "Linear"}
    fresh = [(name, parameter) for name, parameter in module.named_parameters() if id(parameter) not in seen]
    seen.update(id(parameter) for _, parameter in fresh)
    return tuple(Weight(name, tuple(parameter.shape), _kind(name, parameter, linear)) for name, parameter in fresh)


def _kind(name: str, parameter: Any, linear: set[str]) -> str:
    if name.endswith("bias"):
        return "bias"
    if name in linear:
        return "head" if name.startswith("lm_head") else "linear"
    if "embed" in name and parameter.dim() == 2:
        return "embedding"
    if "norm" in name:
        return "norm"
    return "experts" if parameter.dim() == 3 else "other"
