"""How long a training step takes, as far as it can be counted: FLOPs, bytes over the bus, and the optimizer on the CPU.

Only ratios of two runs are used (fixes/costs.py). What no count gives (kernels, quantised weights) is in costs.json.
Constants with their sources: costs.json, printed in docs/costs.md.
"""

from __future__ import annotations

import json
import os
import re
from functools import lru_cache
from math import prod
from typing import Any

from memlint._record import NamedTuple
from memlint.architectures.model import Architecture, Weight
from memlint.identity_cache import IdentityCache
from memlint.run import Run

_BYTES = 2  # of a half-precision element, which is what crosses the bus
_GIGA = 1e9


class CardRates(NamedTuple):
    """What a card computes and moves in a second: FLOP, and bytes of its memory, to other cards, and to the host."""

    flops: float
    memory: float
    link: float
    bus: float


class ParameterCounts(NamedTuple):
    """Parameters that compute, and those that train."""

    parameters: int
    trainable: int


@lru_cache(maxsize=1)
def table() -> dict[str, Any]:
    """costs.json."""
    with open(os.path.join(os.path.dirname(__file__), "costs.json"), "rb") as file:
        loaded: dict[str, Any] = json.load(file)
    return loaded


@lru_cache(maxsize=1)
def _constants() -> dict[str, float]:
    return {row["name"]: row["value"] for row in table()["constants"]}


def card_of(run: Run) -> CardRates:
    return _card(getattr(run.hardware.gpu, "name", ""))


@lru_cache(maxsize=64)
def _card(name: str) -> CardRates:
    row = next(row for row in table()["cards"] if re.search(row["match"], name))
    return CardRates(
        row["tflops"] * 1e12, row["memory_gb_s"] * _GIGA, row["link_gb_s"] * _GIGA, row["bus_gb_s"] * _GIGA
    )


_SECONDS = IdentityCache(16)  # the run that a search begins with is one side of every price


def seconds_per_sequence(run: Run, model: ParameterCounts) -> float:
    """Seconds of a step for each sequence of the global batch; 0 where batch or length are unknown."""
    found: float | None = _SECONDS.get(run, model)
    if found is None:
        found = _counted_seconds(run, model)
        _SECONDS.put(found, run, model)
    return found


def _counted_seconds(run: Run, model: ParameterCounts) -> float:
    size, steps, length = run.batch.micro_batch_size, run.batch.gradient_accumulation_steps, run.sequence.length
    if not (isinstance(size, int) and isinstance(steps, int) and isinstance(length, int)) or not size or not steps:
        return 0.0
    tokens = size * length // _sharing(run)
    last = _micro_step(run, model, tokens)
    micro = last if _scatters_each_time(run) else _micro_step(run, model, tokens, scatters=False)
    reduced = max(last, _reduction(run, model))
    return ((steps - 1) * micro + reduced + _optimizer_step(run, model)) / (size * steps * _world(run))


def _sharing(run: Run) -> int:
    """GPUs that share each sequence."""
    return max(1, run.parallelism.sequence_parallel_size * run.parallelism.context_parallel_size)


def _world(run: Run) -> int:
    world = run.parallelism.data_parallel_size
    return world if isinstance(world, int) and world > 0 else 1


def _micro_step(run: Run, model: ParameterCounts, tokens: int, scatters: bool = True) -> float:
    """Forward and backward of one micro batch: the longest of what runs at the same time. `scatters`: ZeRO-3 and FSDP
    reduce its gradients."""
    moved = max(_gathering(run, model, scatters), _from_host(run, model) + _added_to_host(run, model))
    return max(_compute(run, model, tokens) + _exchange(run, tokens), moved) + _added_on_host(run, model)


def _passes(run: Run) -> int:
    """How often a step goes through the weights: forward, backward, and once more where layers are recomputed."""
    return 2 + (run.checkpointing.mode not in ("none",))


def _compute(run: Run, model: ParameterCounts, tokens: int) -> float:
    """Matmuls, and reading every weight from the card's memory once a pass, which small batches wait for."""
    card, known = card_of(run), _constants()
    flops = known["flops_adapter"] if run.method.kind == "lora" else known["flops_full"]
    if _passes(run) == 3:
        flops += known["flops_recomputed"]
    read = _passes(run) * _BYTES * model.parameters / card.memory
    computing = model.parameters * _computing_share(run.model.architecture)
    return flops * computing * tokens / (known["utilisation"] * card.flops) + read


_SHARES = IdentityCache(64)  # as many models as a repository trains


def _computing_share(architecture: Any) -> float:
    """The share of the parameters that compute for one token: of a mixture's experts those that the router chooses."""
    if not isinstance(architecture, Architecture):
        return 1.0
    known: float | None = _SHARES.get(architecture)
    if known is None:
        known = _share(architecture)
        _SHARES.put(known, architecture)
    return known


def _share(architecture: Architecture) -> float:
    layers = [architecture.layer_types[kind] for kind in architecture.layer_type_ids]
    every = sum(_elements(weight) for weight in architecture.non_layer_weights)
    every += sum(_elements(weight) for layer in layers for weight in layer.weights)
    idle = sum(
        _elements(weight) * (1 - layer.mlp.experts_per_token / layer.mlp.experts)
        for layer in layers
        if layer.mlp.experts
        for weight in layer.weights
        if weight.kind == "experts" or _EXPERTS in weight.name
    )
    return 1 - idle / every if every else 1.0


_EXPERTS = ".experts."


def _elements(weight: Weight) -> int:
    return prod(weight.shape) * weight.copies


def _scatters_each_time(run: Run) -> bool:
    """Whether every micro batch reduces its gradients: FSDP does it once a step, where nothing else is asked for (torch
    2.13 distributed/fsdp/fully_sharded_data_parallel.py:1043, no_sync)."""
    return run.parallelism.engine != "fsdp" or run.parallelism.fsdp.reduces_each_backward


def _gathering(run: Run, model: ParameterCounts, scatters: bool) -> float:
    """Seconds of communication that hides behind a micro batch: ZeRO-3 and FSDP gather the weights in each pass and
    scatter the gradients (Rajbhandari et al. 2020, arXiv 1910.02054, section 7)."""
    if _world(run) < 2 or not _divides_parameters(run):
        return 0.0
    moved = _passes(run) * _packed(run) * model.parameters + (_BYTES * model.trainable if scatters else 0)
    return moved / card_of(run).link


def _packed(run: Run) -> float:
    """Bytes of a weight as it crosses a link: quantised weights cross as they are packed, and unpack on the card."""
    quantization = run.model.quantization
    return _BYTES if quantization.method == "none" else min(_BYTES, quantization.bits / 8)


def _divides_parameters(run: Run) -> bool:
    engine = run.parallelism.engine
    return (engine == "deepspeed" and run.parallelism.zero.stage == 3) or engine == "fsdp"


def _exchange(run: Run, tokens: int) -> float:
    """Seconds in which GPUs that share a sequence hand each other queries, keys, values and outputs, four times a layer
    and pass; nothing hides it (Jacobs et al. 2023, DeepSpeed Ulysses, arXiv 2309.14509, section 3.3)."""
    if _sharing(run) == 1:
        return 0.0
    layers, width = _layers(run)
    return 4 * _passes(run) * _BYTES * tokens * layers * width / card_of(run).link


def _from_host(run: Run, model: ParameterCounts) -> float:
    """Parameters in host memory cross the bus in each pass, each card its share (Rajbhandari et al. 2021,
    ZeRO-Infinity, arXiv 2104.07857, section 4). FSDP casts them on the card, so that they cross as they are stored
    (torch 2.13 distributed/fsdp/_fully_shard/_fsdp_param.py:897)."""
    if run.offload.parameters == "none" and not run.parallelism.fsdp.cpu_offload:
        return 0.0
    width = _stored(run) if run.model.quantization.method == "none" else _packed(run)
    return _passes(run) * width * model.parameters / _shards(run) / card_of(run).bus


def _stored(run: Run) -> int:
    """Bytes of a parameter's element where the optimizer keeps it."""
    whole = run.parallelism.engine == "fsdp" and run.method.kind == "full"
    return 4 if whole and run.precision.trainable_dtype == "float32" else _BYTES


def _added_to_host(run: Run, model: ParameterCounts) -> float:
    """Under gradient accumulation DeepSpeed fetches the sum so far, adds to it on the card and brings it back, at stage
    2 for all parameters on every card (0.19.8 runtime/zero/stage_1_and_2.py:1809, stage3.py:2033). The bus takes both
    directions at once."""
    if run.parallelism.engine != "deepspeed" or run.offload.optimizer == "none" or not _accumulates(run):
        return 0.0
    shards = _shards(run) if run.parallelism.zero.stage == 3 else 1
    return _BYTES * model.trainable / shards / card_of(run).bus


def _added_on_host(run: Run, model: ParameterCounts) -> float:
    """FSDP adds on the CPU, and the backward waits for the copy (torch 2.13 _fully_shard/_fsdp_collectives.py:711),
    where each backward reduces."""
    fsdp = run.parallelism.fsdp
    if run.parallelism.engine != "fsdp" or not (fsdp.cpu_offload and fsdp.reduces_each_backward and _accumulates(run)):
        return 0.0
    return _stored(run) * model.trainable / _shards(run) / card_of(run).bus


def _accumulates(run: Run) -> bool:
    steps = run.batch.gradient_accumulation_steps
    return isinstance(steps, int) and steps > 1


def _shards(run: Run) -> int:
    """GPUs that share the weights: those that share a sequence among them."""
    return _world(run) * _sharing(run)


def _reduction(run: Run, model: ParameterCounts) -> float:
    """Seconds of the reduction of gradients, which hides behind the last backward. An all-reduce moves them twice;
    ZeRO-1 and 2 scatter the sums, and gather the updated parameters instead (arXiv 1910.02054, section 7.2)."""
    if _world(run) < 2 or _divides_parameters(run):
        return 0.0
    times = 1 if _shares_states(run) else 2
    return times * _BYTES * model.trainable / card_of(run).link


def _optimizer_step(run: Run, model: ParameterCounts) -> float:
    """Seconds that nothing hides: ZeRO-1 and 2 gather updated parameters; the optimizer where it runs on the CPU."""
    gathered = _BYTES * model.trainable / card_of(run).link if _shares_states(run) else 0.0
    return gathered + _step_on_cpu(run, model)


def _shares_states(run: Run) -> bool:
    return run.parallelism.engine == "deepspeed" and run.parallelism.zero.stage in (1, 2) and _world(run) > 1


def _step_on_cpu(run: Run, model: ParameterCounts) -> float:
    """All cards of a node share its CPU; gradients go there, and updated parameters come back."""
    fsdp = run.parallelism.engine == "fsdp" and run.parallelism.fsdp.cpu_offload
    if run.offload.optimizer == "none" and not fsdp:
        return 0.0
    known = _constants()
    each = known["torch_adam_seconds"] if fsdp else known["cpu_adam_seconds"]
    return each * model.trainable + 2 * _stored(run) * model.trainable / _shards(run) / card_of(run).bus


def paged_states(run: Run, model: ParameterCounts) -> float:
    """Seconds for all states of a paged optimizer to cross the bus in both directions: the most that paging costs."""
    width = 2 if "8bit" in str(run.optimizer.name) else 8
    return 2 * width * model.trainable / card_of(run).bus


def states_away(run: Run, model: ParameterCounts) -> float:
    """Seconds for AdamW's states to leave the card and come back once a step: the most that it costs, for completions
    are written for several steps at once."""
    return 2 * 8 * model.trainable / _shards(run) / card_of(run).bus


def weights_away(run: Run, model: ParameterCounts) -> float:
    """The same for the weights."""
    return 2 * _stored(run) * model.parameters / _shards(run) / card_of(run).bus


def reference_from_host(run: Run, model: ParameterCounts) -> float:
    """Seconds for a reference model to cross the bus for one forward."""
    return _BYTES * model.parameters / _shards(run) / card_of(run).bus


def checkpoints_in_host_memory(run: Run, model: ParameterCounts) -> float:
    """Seconds by which the copies of a micro batch's checkpoints take longer than its computation."""
    size, length = run.batch.micro_batch_size, run.sequence.length
    if not (isinstance(size, int) and isinstance(length, int)):
        return 0.0
    layers, width = _layers(run)
    copied = 2 * _BYTES * size * length * layers * width / card_of(run).bus
    return max(0.0, copied - _compute(run, model, size * length))


def _layers(run: Run) -> tuple[int, int]:
    architecture = run.model.architecture
    return len(getattr(architecture, "layer_type_ids", ())), getattr(architecture, "hidden_size", 0)
