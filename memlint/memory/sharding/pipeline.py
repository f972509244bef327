"""The least that a GPU of a pipeline holds: what its stage stores, and the inputs of layers for each micro batch in
flight. Bytes on one GPU of the fullest stage.

One-forward-one-backward keeps as many micro batches in flight as stages follow, itself included (Megatron-LM core 0.15
pipeline_parallel/schedules.py, forward_backward_pipelining_without_interleaving, `num_warmup_microbatches`). With
activations recomputed, a layer keeps its input, or a group of layers one; what it keeps without is more. Where the run
does not say otherwise, gradients count in half precision and optimizer states as divided among the data-parallel ranks,
which is the least that engines do.
"""

from __future__ import annotations

import memlint.memory.sharding.model_parallel as parallel
import memlint.memory.state.parameters as parameters
from memlint._record import NamedTuple
from memlint.memory.sharding.unsharded import weight_bytes
from memlint.memory.state.optimizers import memory
from memlint.memory.state.storage import BYTES
from memlint.memory.values import Unit
from memlint.run import Run

_GRADIENT_WIDTH = 2  # the least, where no dtype of gradients is said


class StageBound(NamedTuple):
    """The least that a GPU of one stage holds, bytes. `in_flight`: micro batches. `logits`: what the loss holds of
    them."""

    weights: int
    gradients: int
    optimizer_states: int
    activations: int
    in_flight: int
    layers: int
    logits: int = 0

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimizer_states + self.activations + self.logits


def fullest_stage(run: Run) -> StageBound:
    """The bound of the stage that needs most. Raises `MissingValue` where the model or what trains is not known."""
    whole = parameters.units(run)
    return max((_of_stage(run, whole, stage) for stage in parallel.stages(run)), key=lambda bound: bound.total)


def _of_stage(run: Run, whole: tuple[Unit, ...], stage: int) -> StageBound:
    units = parallel.shard_units(run, whole, stage)
    trainable = sum(t.numel * t.copies * unit.repeat for unit in units for t in unit.tensors if t.trainable)
    layers = sum(unit.repeat for unit in units if unit.name == "layer" and unit.tensors)
    in_flight = parallel.activation_divisors(run, stage).in_flight
    return StageBound(
        weights=_weights(run, units),
        gradients=BYTES.get(run.precision.grad_dtype, _GRADIENT_WIDTH) * trainable,
        optimizer_states=_states_on_card(run, units),
        activations=in_flight * _kept_inputs(run, layers) * _layer_input(run),
        in_flight=in_flight,
        layers=layers,
        logits=_logits(run) if stage == run.parallelism.pipeline_parallel_size - 1 else 0,
    )


def _weights(run: Run, units: tuple[Unit, ...]) -> int:
    """Stored bytes. Megatron-LM keeps parameters in the half precision that it computes in and fp32 ones beside them,
    which its distributed optimizer divides (core 0.15 optimizer/distrib_optimizer.py)."""
    stored = sum(weight_bytes(unit) * unit.repeat for unit in units)
    return min(stored, BYTES[str(run.precision.compute)] * parameters.total(units)) if _has_master(run) else stored


def _has_master(run: Run) -> bool:
    return run.parallelism.engine == "megatron" and run.precision.compute in ("bfloat16", "float16")


def _states_on_card(run: Run, units: tuple[Unit, ...]) -> int:
    """States and fp32 parameters of a GPU. Experts have owners of their own: those GPUs that hold the same ones."""
    shared = sum(_states_of(run, _part(units, experts)) // _owners(run, experts) for experts in (False, True))
    return int(_on_card(run) * shared)


def _part(units: tuple[Unit, ...], experts: bool) -> tuple[Unit, ...]:
    """The units with their experts alone, or without them."""
    return tuple(
        unit._replace(tensors=tuple(one for one in unit.tensors if parallel.is_expert(one) is experts))
        for unit in units
    )


def _states_of(run: Run, units: tuple[Unit, ...]) -> int:
    trainable = sum(t.numel * t.copies * unit.repeat for unit in units for t in unit.tensors if t.trainable)
    return _optimizer_states(run, units) + _master_weights(run, trainable)


def _master_weights(run: Run, trainable: int) -> int:
    return BYTES[run.precision.master_dtype] * trainable if _has_master(run) and _knows_owners(run) else 0


def _knows_owners(run: Run) -> bool:
    """Whether it is known how many ranks divide optimizer states."""
    return run.parallelism.replicates_optimizer is True or isinstance(run.parallelism.world_size, int)


def _optimizer_states(run: Run, units: tuple[Unit, ...]) -> int:
    """The states of the stage on all of its data-parallel ranks; 0 where the number of GPUs is not known."""
    if not _knows_owners(run):
        return 0
    return memory(run._replace(parallelism=run.parallelism._replace(engine="single")), units).states


def _on_card(run: Run) -> float:
    """The share of optimizer states that is not in host memory (Megatron-LM core 0.15 optimizer/cpu_offloading)."""
    return 1 - run.offload.optimizer_ratio if run.offload.optimizer != "none" else 1


def _owners(run: Run, of_experts: bool) -> int:
    """Ranks that divide optimizer states, those of context parallelism too (megatron core 0.15 optimizer/__init__.py,
    get_megatron_optimizer: `get_data_parallel_group(with_context_parallel=True)`, and of experts
    `get_expert_data_parallel_group`)."""
    if run.parallelism.replicates_optimizer is True:
        return 1
    ranks, shared = run.parallelism.world_size, run.parallelism
    others = shared.tensor_parallel_size * shared.pipeline_parallel_size
    if of_experts and shared.engine == "megatron":
        others = parallel.tensor_ranks_of_experts(run) * shared.expert_parallel_size * shared.pipeline_parallel_size
    return max(1, ranks // others) if isinstance(ranks, int) else 1


def _kept_inputs(run: Run, layers: int) -> int:
    """Layers whose input is kept; of a group that is recomputed together, the first."""
    return -(-layers // run.checkpointing.every) if run.checkpointing.mode != "none" else layers


def _layer_input(run: Run) -> int:
    """The input of one layer for one micro batch; 0 where a size is not known, or where inputs wait in host memory."""
    if run.offload.activations != "none":
        return 0
    divisors = parallel.activation_divisors(run)
    width = BYTES.get(str(run.precision.compute), 2)
    tokens = _tokens(run, divisors.tokens * divisors.inner)
    return int(width * tokens * run.model.architecture.hidden_size)


def _logits(run: Run) -> int:
    """What the loss of the last stage holds of the logits of one micro batch, while gradients, states and the inputs of
    layers are there."""
    divisors = parallel.activation_divisors(run)
    columns: int = run.model.architecture.vocab_size // divisors.logits
    return run.loss.bytes_per_logit * _tokens(run, divisors.tokens) * columns


def _tokens(run: Run, ranks: int) -> int:
    """Tokens of one micro batch on one of the ranks that share them; 0 where they are not known."""
    batch, length, most = run.batch.micro_batch_size, run.sequence.length, run.batch.max_tokens
    if isinstance(most, int) and most:
        return -(-most // ranks)
    return batch * -(-length // ranks) if isinstance(batch, int) and isinstance(length, int) else 0
