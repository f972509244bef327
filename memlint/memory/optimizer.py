"""States and step temporaries of optimizers, bytes. The table stands in optimizers.yaml.

What runs reads optimizers.json, its compact copy: parsing YAML costs more than an estimate.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from memlint._record import NamedTuple
from memlint.memory.model import Tensor, Unit
from memlint.memory.parameters import Missing
from memlint.memory.storage import ALIGNMENT, BYTES, rounded
from memlint.run import Optimizer, Run

_PAGED_FROM = 100_000  # elements, bitsandbytes 0.50.2 optim/optimizer.py:383
_SMALL = 4096  # `min_8bit_size`, bitsandbytes 0.50.2 optim/optimizer.py:414; torchao the same
_WIDEST_PRECONDITIONED = 10_000
_HALF = ("bfloat16", "float16")


class OptimizerMemory(NamedTuple):
    """Bytes for the tensors of one GPU. `managed`: states in memory that CUDA may move to the host."""

    states: int
    step_temporaries: int
    managed: int = 0
    host: int = 0


@lru_cache(maxsize=1)
def table() -> Mapping[str, Mapping[str, Any]]:
    """Every optimizer by name and alias."""
    with open(os.path.join(os.path.dirname(__file__), "optimizers.json"), "rb") as file:
        entries: dict[str, Mapping[str, Any]] = json.load(file)
    for entry in list(entries.values()):
        for alias in entry.get("aliases", ()):
            entries.setdefault(alias, entry)
    return entries


def entry_of(optimizer: Optimizer) -> Mapping[str, Any]:
    """The table's entry; raises `Missing` for an unknown name."""
    name = optimizer.name
    if not isinstance(name, str):
        raise Missing("optimizer.name", "the optimizer is not known")
    key = name.lower()
    if key in ("adam", "adamw") and optimizer.engine == "deepspeed":
        key = "fused_adam"
    found = table().get(key)
    if found is None:
        raise Missing("optimizer.name", f"memory of the optimizer `{name[:60]}` is not known")
    return found


def is_layerwise(run: Run) -> bool:
    """Whether the step runs inside backward and gradients go at once."""
    return run.optimizer.layerwise or bool(entry_of(run.optimizer).get("layerwise"))


def is_blockwise(run: Run) -> bool:
    """Whether one block of the model trains at a time (BAdam)."""
    return bool(entry_of(run.optimizer).get("block")) or bool(run.optimizer.badam_mode)


def memory(run: Run, units: tuple[Unit, ...]) -> OptimizerMemory:
    """States and temporaries for every trainable tensor in `units` (a shard's tensors under sharding)."""
    trained = list(_trained(units))
    if not trained:
        return OptimizerMemory(0, 0)
    entry = entry_of(run.optimizer)
    names = list(entry["states"])
    if entry.get("momentum") and run.optimizer.momentum:
        names.append("param")
    states = managed = 0
    for tensor, number in trained:
        own = sum(_state_bytes(name, tensor, run.optimizer, entry) for name in names)
        if entry.get("paged") and tensor.numel >= _PAGED_FROM:
            managed += own * number
            continue
        states += (own + (ALIGNMENT if entry.get("step") else 0)) * number
    if entry.get("host"):
        return OptimizerMemory(0, 0, 0, states)
    return OptimizerMemory(states, _temporaries(run.optimizer, entry, trained), managed)


def _trained(units: tuple[Unit, ...]) -> Iterator[tuple[Tensor, int]]:
    for unit in units:
        for tensor in unit.tensors:
            if tensor.trainable:
                yield tensor, tensor.copies * unit.repeat


def _temporaries(optimizer: Optimizer, entry: Mapping[str, Any], trained: list[tuple[Tensor, int]]) -> int:
    """What the step allocates beyond states and gradients."""
    if optimizer.fused and "foreach" in entry:
        return 0
    if "foreach" in entry and optimizer.foreach is not False:
        every = sum(rounded(tensor.numel * BYTES[tensor.dtype]) * number for tensor, number in trained)
        return int(entry["foreach"] * every)
    largest = max((tensor for tensor, _ in trained), key=_numel)
    if "foreach" in entry:  # a torch optimizer that runs tensor by tensor keeps the parameter's dtype
        return int(entry["single"] * rounded(largest.numel * BYTES[largest.dtype]))
    times = entry.get("half_single") if largest.dtype in _HALF else None
    return int((times or entry.get("single", 0)) * rounded(4 * largest.numel))


def _numel(tensor: Tensor) -> int:
    return tensor.numel


def _state_bytes(name: str, tensor: Tensor, optimizer: Optimizer, entry: Mapping[str, Any]) -> int:
    """Bytes of one state of one tensor."""
    count = tensor.numel
    if not count:  # an adapter of rank 0: an error of its own, which PEFT raises
        return 0
    width = BYTES[optimizer.state_dtype or tensor.dtype]
    if name == "param":
        return rounded(count * width)
    if name in ("float32", "bfloat16"):
        return rounded(count * BYTES[name])
    if name in _LOW_RANK or entry.get("low_rank_states"):
        return _low_rank_bytes(name, tensor, optimizer, width)
    if name.startswith("bnb8"):
        return _bnb_bytes(count) * (2 if name == "bnb8_double" else 1)
    if name in ("ao8", "ao4"):
        return _torchao_bytes(name, count, width)
    return _shaped_bytes(name, tensor, width)


_LOW_RANK = ("low_rank", "projector")


def _bnb_bytes(count: int) -> int:
    if count < _SMALL:
        return rounded(4 * count)
    return rounded(count) + rounded(4 * -(-count // 256))


def _torchao_bytes(name: str, count: int, width: int) -> int:
    block = 256 if name == "ao8" else 128
    if count < _SMALL or count % block:
        return rounded(count * width)
    return rounded(count if name == "ao8" else count // 2) + rounded(4 * (count // block))


def _low_rank_bytes(name: str, tensor: Tensor, optimizer: Optimizer, width: int) -> int:
    """GaLore keeps states of (rank, longer side) and a projection of (rank, shorter side)."""
    plain = len(tensor.shape) != 2 or tensor.kind != "linear" or not optimizer.rank
    if plain:
        if name == "projector":
            return 0
        return _bnb_bytes(tensor.numel) if name == "bnb8" else rounded(tensor.numel * width)
    short, long = sorted(tensor.shape)
    if name == "projector":
        return rounded(optimizer.rank * short * width)
    count = optimizer.rank * long
    return _bnb_bytes(count) if name == "bnb8" else rounded(count * width)


def _shaped_bytes(name: str, tensor: Tensor, width: int) -> int:
    """States whose size depends on the shape."""
    shape = tensor.shape
    matrix = len(shape) >= 2
    if name == "kahan":
        return rounded(tensor.numel * width) if tensor.dtype in _HALF else 0
    if name == "factored":
        if not matrix:
            return rounded(4 * tensor.numel)
        return rounded(4 * tensor.numel // shape[-1]) + rounded(4 * tensor.numel // shape[-2])
    if name == "rows":
        return rounded(4 * shape[0])
    if name == "matrix":
        inside = matrix and tensor.kind not in ("embedding", "head", "position")
        return rounded(tensor.numel * width) * (1 if inside else 2)
    if not matrix:  # precond
        return 0
    return sum(2 * rounded(4 * side * side) for side in shape[-2:] if side <= _WIDEST_PRECONDITIONED)
