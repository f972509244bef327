"""The layers of typical runs: what is recorded when memlint is built (memory/layers/stored_profiles.py).

For one model of each structure in the catalog: full training, LoRA and QLoRA (prepared by peft or not), as frameworks
set them by default, with fused and with eager attention, with Liger's kernels, with adapters that run in one op with
their layers, or without either, checkpointed in both ways or not at all; checkpointed too: adapters without autocast,
adapters in bfloat16 beside it (as DeepSpeed makes them), adapters on attention alone, and adapters under ZeRO-3. Runs
that differ from these have their layers recorded when they are estimated. Of some 430 public configs with LoRA, 77 of
100 adapt every linear layer, 13 those of attention, 3 `q_proj` and `v_proj`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from memlint.architectures.model import Architecture, DecoderLayer
from memlint.memory.autograd.profile import Profile
from memlint.memory.estimate import estimate_uncached
from memlint.memory.layers.profiles import in_use
from memlint.memory.layers.stored_profiles import Key
from memlint.memory.layers.structure import structure
from memlint.run import (
    Batch,
    Checkpointing,
    Hardware,
    Loss,
    Method,
    Model,
    Optimizer,
    Parallelism,
    Precision,
    Quantization,
    Run,
    Sequence,
    Zero,
    replace,
)

_Changes = Mapping[str, Any]


def one_of_each_structure(architectures: Iterable[Architecture], most: int | None = None) -> list[Architecture]:
    """One model of each structure of layers, the structure that most models have first.

    `most`: only so many structures.
    """
    alike: dict[Any, list[Architecture]] = {}
    for one in architectures:
        if not one.unmodelled and not one.encoder_decoder:
            alike.setdefault(frozenset(map(_structure_with_weights, one.layer_types)), []).append(one)
    return [models[0] for models in sorted(alike.values(), key=len, reverse=True)[:most]]


def _structure_with_weights(layer: DecoderLayer) -> tuple[DecoderLayer, tuple[str, ...]]:
    """A layer's structure and the names of its weights: layers of one class may have biases or none."""
    return structure(layer), tuple(weight.name for weight in layer.weights)


def typical_profiles(architecture: Architecture) -> Mapping[Key, Profile]:
    """The profiles of the layers in typical runs of this model."""
    before = frozenset(in_use())
    for run in _runs(architecture):
        estimate_uncached(run)
    return {key: profile for key, profile in in_use().items() if key not in before}


def _runs(architecture: Architecture) -> Iterator[Run]:
    base = Run(
        "typical",
        "",
        model=Model(architecture=architecture, weights_dtype="bfloat16"),
        batch=Batch(1, 1),
        sequence=Sequence(1024),
        loss=Loss("plain"),
        optimizer=Optimizer("adamw_torch"),
        parallelism=Parallelism(1, 1, 1),
        hardware=Hardware(),
    )
    for parts in product(_METHODS, _ATTENTION, _CHECKPOINTING):
        yield replace(base, {name: value for part in parts for name, value in part.items()})
    kernels = ((_METHODS, _LIGER), (_LORA, _FUSED_ADAPTERS))
    adapters = ((_LORA_WITHOUT_AUTOCAST, _ATTENTION), (_CAST_LORA, _ATTENTION), (_LORA_OF_ATTENTION, _ATTENTION[:1]))
    sharded = (_WHOLE_LORA, _ATTENTION, _ZERO3)
    for parts in (one for groups in (*kernels, *adapters, sharded) for one in product(*groups, _CHECKPOINTING[1:])):
        yield replace(base, {name: value for part in parts for name, value in part.items()})


def _full(weights: str, autocast: bool) -> _Changes:
    precision = Precision("bfloat16", autocast, weights, False, outputs_to_fp32=autocast)
    return {"method": Method("full"), "model.weights_dtype": weights, "precision": precision}


def _lora(
    dropout: float,
    quantization: Quantization,
    half: bool = False,
    autocast: bool = True,
    targets: tuple[str, ...] = ("all-linear",),
) -> _Changes:
    """`half`: adapters in bfloat16."""
    dtype = "bfloat16" if half else "float32"
    method = Method("lora", rank=8, targets=targets, dropout=dropout, adapter_dtype=dtype)
    precision = Precision("bfloat16", autocast, dtype, False, outputs_to_fp32=autocast)
    return {"method": method, "model.quantization": quantization, "precision": precision}


_DROPOUTS = (0.0, 0.05)
_NF4 = Quantization("bnb", 4, "nf4", double_quant=True)
_INT8 = Quantization("bnb", 8, "int8")
_PREPARED = _NF4._replace(upcast_rest_to_fp32=True)  # by peft's prepare_model_for_kbit_training
_OF_ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
_FULL: tuple[_Changes, ...] = (_full("bfloat16", True), _full("bfloat16", False), _full("float32", True))
_LORA: tuple[_Changes, ...] = tuple(
    _lora(dropout, weights) for dropout, weights in product(_DROPOUTS, (Quantization(), _NF4, _INT8, _PREPARED))
)
_LORA_WITHOUT_AUTOCAST: tuple[_Changes, ...] = tuple(
    _lora(dropout, weights, half, autocast=False)
    for dropout, weights, half in product(_DROPOUTS, (Quantization(), _NF4), (False, True))
)
_CAST_LORA: tuple[_Changes, ...] = tuple(
    _lora(dropout, weights, half=True) for dropout, weights in product(_DROPOUTS, (Quantization(), _NF4, _PREPARED))
)
_LORA_OF_ATTENTION: tuple[_Changes, ...] = tuple(
    _lora(dropout, weights, half, autocast=not half, targets=_OF_ATTENTION)
    for dropout, weights, half in product(_DROPOUTS, (Quantization(), _NF4, _INT8), (False, True))
)
_WHOLE_LORA: tuple[_Changes, ...] = tuple(
    _lora(dropout, Quantization(), half, autocast=not half) for dropout, half in product(_DROPOUTS, (False, True))
)
_METHODS = (*_FULL, *_LORA)
_ATTENTION: tuple[_Changes, ...] = tuple({"attention.implementation": name} for name in ("sdpa", "flash_attention_2"))
_LIGER: tuple[_Changes, ...] = (
    {"attention.implementation": "flash_attention_2", "loss": Loss("liger", liger_kernels=True)},
)
_FUSED_ADAPTERS: tuple[_Changes, ...] = (
    {"attention.implementation": "flash_attention_2", "method.fused_adapters": ("qkv", "o", "mlp")},
)
_ZERO3: tuple[_Changes, ...] = ({"parallelism": Parallelism(2, 2, 2, engine="deepspeed", zero=Zero(3))},)
_CHECKPOINTING: tuple[_Changes, ...] = (
    {"checkpointing": Checkpointing("none")},
    {"checkpointing": Checkpointing("full", reentrant=True)},
    {"checkpointing": Checkpointing("full", reentrant=False)},
)
