"""Sets which parameters of a model train: for freeze tuning, and for frozen parts of image-text models."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from memlint._record import NamedTuple


class Unfrozen(NamedTuple):
    """What freeze tuning trains; everything else is frozen (LLaMA-Factory 0.9.5 model/adapter.py:60-135).

    `layers`: how many decoder layers train: the last ones, for a negative number the first ones. `spread`: this many
    evenly spaced layers instead (LLaMA Pro). `modules`: the modules of these layers that train, ("all",) for whole
    layers. `others`: modules outside of the layers, by the end of their dotted name. `patterns`: regular expressions;
    parameters whose names match also train (axolotl 0.19.0 utils/freeze.py, freeze_layers_except).
    """

    layers: int = 0
    spread: bool = False
    modules: tuple[str, ...] = ("all",)
    others: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()


def train_only(model: Any, unfrozen: Unfrozen) -> None:
    """Freezes everything except what `unfrozen` names."""
    model.requires_grad_(False)
    for layer in _chosen(decoder_layers(model), unfrozen):
        for module in _parts(layer, unfrozen.modules):
            module.requires_grad_(True)
    for name, module in model.named_modules():
        if any(f".{name}".endswith(f".{other}") for other in unfrozen.others):
            module.requires_grad_(True)
    for name, parameter in model.named_parameters():
        if any(re.search(pattern, name) for pattern in unfrozen.patterns):
            parameter.requires_grad_(True)


def _chosen(layers: Sequence[torch.nn.Module], unfrozen: Unfrozen) -> Sequence[torch.nn.Module]:
    count = unfrozen.layers
    if unfrozen.spread:
        stride = len(layers) // count
        return layers[stride - 1 :: stride]
    return layers[max(0, len(layers) - count) :] if count > 0 else layers[:-count]


def _parts(layer: torch.nn.Module, names: tuple[str, ...]) -> Iterator[torch.nn.Module]:
    if "all" in names:
        yield layer
    else:
        yield from (child for name, child in layer.named_children() if name in names)


class Parts(NamedTuple):
    """Parts of an image-text model, by dotted names of modules.

    `frozen`: modules that neither train nor get adapters. `trained`: modules that do, even inside frozen ones (a
    projector in its tower). `vision`: towers and projectors, which only run if the inputs have images.
    """

    frozen: tuple[str, ...] = ()
    trained: tuple[str, ...] = ()
    vision: tuple[str, ...] = ()
    freezes_language_model: bool = False  # its layers, embedding and head do not train


def set_parts(model: Any, parts: Parts) -> None:
    """Freezes and unfreezes the parts of the model."""
    for module in _modules(model, parts.frozen):
        module.requires_grad_(False)
    if parts.freezes_language_model:
        _freeze_language_model(model)
    for module in _modules(model, parts.trained):
        module.requires_grad_(True)


def names_of_frozen(model: Any, parts: Parts) -> set[str]:
    """The dotted names of all modules that get no adapter."""
    return _names_inside(model, parts.frozen) - _names_inside(model, parts.trained)


def trained_vision(model: Any, parts: Parts) -> Iterator[torch.nn.Parameter]:
    """The trainable parameters of towers and projectors."""
    for module in _modules(model, parts.vision):
        yield from (parameter for parameter in module.parameters() if parameter.requires_grad)


def _freeze_language_model(model: Any) -> None:
    """Freezes the module that contains the decoder layers, and the head."""
    first = decoder_layers(model)[0]
    lists = [child for child in model.modules() if any(layer is first for layer in child.children())]
    owner = next(module for module in model.modules() if any(child is lists[0] for child in module.children()))
    for module in (owner, model.get_output_embeddings()):
        if module is not None:
            module.requires_grad_(False)


def _names_inside(model: Any, modules: tuple[str, ...]) -> set[str]:
    return {
        f"{name}.{inner}" if inner else name
        for name, module in model.named_modules()
        if name in modules
        for inner, _ in module.named_modules()
    }


def _modules(model: Any, names: tuple[str, ...]) -> list[Any]:
    """The modules with these dotted names, without those that the model does not have."""
    return [module for name, module in model.named_modules() if name in names]


def decoder_layers(model: Any) -> Sequence[torch.nn.Module]:
    """The longest list of modules in the decoder. A vision tower may have more layers than the language model."""
    decoder = model.get_decoder() if hasattr(model, "get_decoder") else model
    lists = [list(module) for module in decoder.modules() if isinstance(module, torch.nn.ModuleList)]
    return max(lists, key=len)
