"""Keys and values that later layers read from earlier ones (Gemma 3n, Gemma 4), under activation checkpointing.

The model hands a dictionary of them to every layer, so that it lives until the first layer's backward is done
(transformers 5.23 models/gemma3n/modeling_gemma3n.py, `shared_kv_states`). A layer that is run again stores keys whose
graph leads to the layer's input: with reentrant checkpointing that is a leaf, which holds its gradient.
"""

from __future__ import annotations

import memlint.memory.families.lookup as families
from memlint.architectures.model import Architecture
from memlint.memory.segments.step import TrainingStep, has_streams
from memlint.memory.state.storage import rounded
from memlint.memory.values import Unit


def stores_keys(step: TrainingStep) -> bool:
    """Whether layers store keys and values: for later ones, or for whoever may read them (Gemma 4 since 5.24)."""
    return _shares_keys(step.architecture) or _stores_in_any_case(step)


def _shares_keys(architecture: Architecture) -> bool:
    """Whether some layers read the keys and values of others."""
    return any(layer.attention.shares_kv for layer in architecture.layer_types)


def _stores_in_any_case(step: TrainingStep) -> bool:
    return families.of(step.architecture).attention.stores_keys.include(step.run.stack.transformers)


def layers_storing(step: TrainingStep, unit: Unit) -> int:
    """How many of the unit's layers store keys and values: of each kind of attention the last one that has its own."""
    if not stores_keys(step):
        return 0
    architecture = step.architecture
    kinds = [architecture.layer_types[index].attention for index in architecture.layer_type_ids]
    last = {kind.sliding_window: index for index, kind in enumerate(kinds) if not kind.shares_kv}
    stored = {kind.sliding_window for kind in kinds if kind.shares_kv or _stores_in_any_case(step)}
    layers = range(unit.layer_index, unit.layer_index + unit.repeat)
    return sum(index in layers for window, index in last.items() if window in stored)


def stored_key_values(step: TrainingStep, unit: Unit) -> int:
    """Bytes of the keys and values that a layer of the unit stores where layers run again: from its forward to the end
    of the backward. Those that it makes when it runs again take the place of the first. Without checkpointing the layer
    saves them anyway."""
    if step.run.checkpointing.mode == "none" or not layers_storing(step, unit):
        return 0
    architecture = step.architecture
    kind = architecture.layer_types[architecture.layer_type_ids[unit.layer_index]]
    rotary = families.of_layer(kind.class_name).rotary
    width = step.kernels.autocast_width or step.width
    casts_back = rotary.casts_back or rotary.in_fp32 or rotary.factors_in_fp32
    both = width + (width if casts_back else max(width, step.width))  # rotated keys have the dtype of the tables
    return rounded(step.tokens.count * kind.attention.kv_heads * kind.attention.head_dim * both)


def held_inputs(step: TrainingStep, unit: Unit) -> int:
    """Bytes of the inputs of the unit's layers that store keys."""
    return held_input(step) * layers_storing(step, unit)


def held_input(step: TrainingStep) -> int:
    """Bytes of the input of a layer that stores keys, which stays until the backward ends, as its gradient does."""
    checkpointing = step.run.checkpointing
    if checkpointing.mode in ("none", "selective") or not checkpointing.reentrant:
        return 0
    extent = "streams" if has_streams(step.architecture) else "hidden"
    return rounded(step.counts[extent] * step.width)
