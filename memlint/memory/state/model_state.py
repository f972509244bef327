"""The model of a run on one GPU: its parameter tensors, and their weights, gradients and optimizer states as the run's
engine places them. None of it depends on lengths and batch sizes. Bytes.
"""

from __future__ import annotations

from functools import partial

import memlint.memory.sharding.model_parallel as parallel
import memlint.memory.sharding.unsharded as unsharded
import memlint.memory.state.parameters as parameters
from memlint._lazy import Lazy
from memlint._record import NamedTuple
from memlint.memory.estimate_cache import EstimateCache
from memlint.memory.loss.shape import loss_kind
from memlint.memory.state.parameters import MissingValue
from memlint.memory.state.storage import BYTES
from memlint.memory.values import Estimate, ModelState, Unit
from memlint.run import SERVERS, UNKNOWN, Optimizer, Run, Unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    import memlint.memory.sharding.fsdp.placement as fsdp
    import memlint.memory.sharding.zero.placement as zero
else:
    fsdp = Lazy("memlint.memory.sharding.fsdp.placement")
    zero = Lazy("memlint.memory.sharding.zero.placement")

# Engines that shard like FSDP 2, but have layers and losses of their own.
OVER_FSDP2 = ("veomni", "automodel", "fsdp_turbo")
_ENGINES_OF_INFERENCE = ("device_map", *SERVERS)  # they have no optimizer states to shard


class PlacedModel(NamedTuple):
    """A run's model state, which does not depend on lengths and batches."""

    units: tuple[Unit, ...]
    computed: tuple[Unit, ...]  # in the dtype that operations read
    state: ModelState
    parameters: int  # of the whole model
    trainable: int
    on_one_gpu: int  # parameters that tensor or expert parallelism leaves on a GPU, before ZeRO or FSDP divide them


_PLACED_MODELS = EstimateCache(128)


def placed_model(run: Run, at_rest: bool = False) -> PlacedModel:
    """The model state of `run`, cached: runs that only differ in lengths and batches share it. `at_rest`: under
    DeepSpeed, without the buffers for the backward."""
    replays = run.parallelism.engine == "deepspeed" and not run.stack.use_ktransformers
    key = (
        run.method,
        run.precision,
        run.checkpointing.mode in ("none", UNKNOWN),
        run.optimizer,
        run.parallelism,
        run.offload,
        run.saving,
        run.stack,
        run.purpose,
        _backward_passes(run),
        replays and not at_rest and loss_kind(run),
        at_rest and replays,
    )
    make = partial(_with_units if replays and not at_rest else _place_model, run)
    found: PlacedModel = _PLACED_MODELS.get(run.model, key, make)
    return found


def _with_units(run: Run) -> PlacedModel:
    """The placed model of a run under DeepSpeed, with the states of its units added to those at rest."""
    placed = placed_model(run, at_rest=True)
    return placed._replace(state=zero.with_units(run, placed.units, placed.state))


class _WholeModel(NamedTuple):
    """A run's parameter tensors before anything divides them."""

    units: tuple[Unit, ...]
    parameters: int
    trainable: int


_WHOLE_MODELS = EstimateCache(128)


def _whole_model(run: Run) -> _WholeModel:
    """The run's tensors, cached, as they do not depend on engine, optimizer and offload. To guarantee that, they are
    made from a run that only has the fields of the cache key."""
    method, precision, stack, block = run.method, run.precision, run.stack, run.optimizer.badam_mode
    bare = Run("", "", run.model, method, precision, optimizer=Optimizer(badam_mode=block), stack=stack)
    found: _WholeModel = _WHOLE_MODELS.get(run.model, (method, precision, stack, block), lambda: _counted_model(bare))
    return found


def _counted_model(run: Run) -> _WholeModel:
    units = parameters.units(run)
    return _WholeModel(units, parameters.total(units), parameters.total(units, trainable=True))


def trains_nothing(run: Run) -> bool:
    """Whether no parameter of the run's model trains; nothing is placed for that. Raises `MissingValue`."""
    method = run.method
    chooses = method.freeze_language_model or method.trainable_patterns or run.optimizer.badam_mode
    if method.kind == "full" and not chooses and run.model.architecture is not UNKNOWN:
        return False  # the embedding trains, whatever else does
    if parameters.surely_adapts(run):
        return False
    return _whole_model(run).trainable == 0


def _place_model(run: Run) -> PlacedModel:
    whole = _whole_model(run)
    units = parallel.shard_units(run, whole.units)
    state = None
    if run.stack.use_ktransformers:
        import memlint.memory.sharding.hosted_experts as hosted_experts

        every, units = units, hosted_experts.on_the_card(units)
        state = hosted_experts.with_host_memory(place(run, units), every)
    elif run.parallelism.engine == "deepspeed":
        state = zero.at_rest(run, units)
    on_one_gpu = whole.parameters if units is whole.units else parameters.total(units)
    computed = parallel.in_compute_dtype(run, units)
    return PlacedModel(units, computed, state or place(run, units), whole.parameters, whole.trainable, on_one_gpu)


def _backward_passes(run: Run) -> int | Unknown:
    """The number of backward passes of a step: 0, 1, 2 (two or more), or UNKNOWN."""
    steps = run.batch.gradient_accumulation_steps
    return min(steps, 2) if isinstance(steps, int) else UNKNOWN


def place(run: Run, units: tuple[Unit, ...]) -> ModelState:
    """Weights, gradients and optimizer states on one GPU. The engine's module is imported when a run needs it."""
    engine = run.parallelism.engine
    if engine in ("single", "ddp") or (run.purpose == "inference" and engine in _ENGINES_OF_INFERENCE):
        return unsharded.place(run, units)
    if engine == "deepspeed":
        return zero.place(run, units)
    if engine == "fsdp":
        return fsdp.place(run, units)
    if engine in OVER_FSDP2:
        return fsdp.place(_over_all_gpus(run), units)
    raise MissingValue("parallelism.engine", f"memory under {engine} is not modelled")


def _over_all_gpus(run: Run) -> Run:
    """The run under FSDP 2 over all of its GPUs, with gradients reduced after each micro-batch: a lower bound for every
    engine based on FSDP 2."""
    parallelism = run.parallelism
    fsdp = parallelism.fsdp._replace(version=2, strategy="FULL_SHARD", reshard_after_forward=True)
    whole = fsdp._replace(reduces_each_backward=True)
    alone = parallelism._replace(data_parallel_size=parallelism.world_size, sequence_parallel_size=1, fsdp=whole)
    return run._replace(parallelism=alone)


def with_reference_copy(run: Run, units: tuple[Unit, ...], state: ModelState) -> ModelState:
    """The state plus a reference model's weights where that is a copy of the trained model, in the frozen dtype.

    ZeRO-3 and FSDP shard the copy as well, and hold it in host memory where they hold the trained weights there: the
    engine of the reference takes their settings (trl 0.17 to 1.16 models/utils.py, prepare_deepspeed and prepare_fsdp).
    """
    if run.method.reference_model != "copy" or run.rollout.offloads_reference:
        return state
    width = BYTES[str(run.model.weights_dtype)]
    base = sum(
        tensor.numel * tensor.copies * unit.repeat
        for unit in units
        for tensor in unit.tensors
        if tensor.kind != "adapter"
    )
    ranks = run.parallelism.world_size
    sharded = run.parallelism.engine == "fsdp" or run.parallelism.zero.stage == 3
    share = ranks if sharded and run.parallelism.engine != "single" and isinstance(ranks, int) else 1
    weights = width * base // max(1, share)
    if not sharded or not _holds_weights_on_host(run):
        loads = weights if run.parallelism.fsdp.loads_whole else 0  # the copy whole, beside the policy's shards
        return state._replace(weights=state.weights + weights, load_peak=state.load_peak + loads)
    on_node = min(share, run.parallelism.gpus_per_node) if isinstance(run.parallelism.gpus_per_node, int) else share
    on_disk = run.offload.parameters == "nvme"
    return state._replace(host_bytes=state.host_bytes + (0 if on_disk else weights * max(1, on_node)))


def _holds_weights_on_host(run: Run) -> bool:
    if run.parallelism.engine == "fsdp":
        return run.parallelism.fsdp.cpu_offload
    return run.parallelism.engine == "deepspeed" and run.offload.parameters != "none"


def with_counts(found: Estimate, placed: PlacedModel) -> Estimate:
    """The estimate with the number of the model's parameters, and of those on one GPU if they are fewer."""
    divided = placed.on_one_gpu != placed.parameters
    details = {**found.details, "parameters_per_gpu": placed.on_one_gpu} if divided else found.details
    return found._replace(parameters=placed.parameters, trainable_parameters=placed.trainable, details=details)
