"""A model as DeepSpeed sees it: its dtype, the two parameter groups, and how many ranks share a tensor."""

from __future__ import annotations

from memlint._record import NamedTuple
from memlint.identity_cache import IdentityCache
from memlint.memory.state.parameters import MissingValue, ties_head
from memlint.memory.state.storage import BYTES
from memlint.memory.values import Tensor, Unit
from memlint.run import UNKNOWN, Run

_HALF = ("bfloat16", "float16")
_MAX_TENSORS = 1_000_000  # tensors are listed one by one here: a hostile configuration must not fill memory
_NOT_DECAYED = ("norm", "bias")  # the Trainer's second group, transformers 5.23 trainer.py get_decay_parameter_names


class ZeroLayout(NamedTuple):
    """What placement under ZeRO depends on.

    Bytes of an element: `element` of a weight on the GPU, `accumulation` of an accumulated gradient, `master` of a
    master weight and of the gradient that the optimizer sees (0.19.8 stage_1_and_2.py:336, stage3.py:304,
    `master_weights_and_grads_dtype`). Numbers of elements: `groups`, each trainable tensor in model order, with and
    without weight decay; `trainable`, all of them; `largest`, the largest tensor.
    """

    element: int
    accumulation: int
    ranks: int
    groups: tuple[tuple[int, ...], ...]
    trainable: int
    largest: int
    master: int = 4


def zero_layout(run: Run, units: tuple[Unit, ...]) -> ZeroLayout:
    """The model as DeepSpeed sees it. Raises `MissingValue` when the number of ranks is unknown or the model absurd."""
    dtype = engine_dtype(run)
    accumulation = run.precision.grad_dtype or dtype
    trained: _Trained | None = _TRAINED.get(units)
    if trained is None:
        trained = _trained(units)
        _TRAINED.put(trained, units)
    master = BYTES[run.precision.master_dtype]
    return ZeroLayout(BYTES[dtype], BYTES[accumulation], ranks(run), *trained, master)


class _Trained(NamedTuple):
    """What trains, as `ZeroLayout` has it."""

    groups: tuple[tuple[int, ...], ...]
    trainable: int
    largest: int


_TRAINED = IdentityCache(32)  # a search divides the same units in many ways


def _trained(units: tuple[Unit, ...]) -> _Trained:
    if sum(t.copies * unit.repeat for unit in units for t in unit.tensors) > _MAX_TENSORS:
        raise MissingValue("model.architecture", "its configuration names more tensors than any model has")
    decayed: list[int] = []
    undecayed: list[int] = []
    for unit in units:
        matrices: list[int] = []
        others: list[int] = []
        for tensor in unit.tensors:
            if tensor.trainable:
                (matrices if decays(tensor) else others).extend([tensor.numel] * tensor.copies)
        decayed += matrices * unit.repeat
        undecayed += others * unit.repeat
    groups = tuple(tuple(group) for group in (decayed, undecayed) if group)
    return _Trained(groups, sum(map(sum, groups)), max(map(max, groups), default=0))


def decays(tensor: Tensor) -> bool:
    """Whether a tensor is in the parameter group with weight decay."""
    return tensor.kind not in _NOT_DECAYED


def engine_dtype(run: Run) -> str:
    """The dtype that DeepSpeed casts every floating parameter to: bf16 or fp16 when enabled (0.19.8 engine.py
    _configure_distributed_model), else as trained."""
    compute = run.precision.compute
    if run.precision.autocast is not True and compute in _HALF:
        return str(compute)
    dtype = run.precision.trainable_dtype
    for name, value in (("precision.compute", compute), ("precision.trainable_dtype", dtype)):
        if value is UNKNOWN and run.precision.autocast is not True:
            raise MissingValue(name, "whether DeepSpeed casts the model to 16 bits is not known")
    return dtype if isinstance(dtype, str) else "float32"


def ranks(run: Run) -> int:
    """GPUs that share the data-parallel state: all that hold the same layers. Sequence-parallel ranks join in
    (`seq_data_parallel_group`), and ranks of a ring that DeepSpeed knows nothing of: accelerate gives it no groups
    (accelerate 1.15 accelerator.py:2394-2450, `mpu` is None but for its own Ulysses)."""
    parallel = run.parallelism
    size = parallel.data_parallel_size
    if not isinstance(size, int):
        if not isinstance(parallel.world_size, int):
            raise MissingValue("parallelism.world_size", "how many GPUs share the model's state is not known")
        return max(1, parallel.world_size // (parallel.tensor_parallel_size * parallel.pipeline_parallel_size))
    return max(1, size * parallel.sequence_parallel_size * parallel.context_parallel_size)


def ranks_per_node(run: Run) -> int:
    """GPUs of one host; all of them where it is not known."""
    world = run.parallelism.world_size
    node = run.parallelism.gpus_per_node
    if isinstance(node, int) and node > 0:
        return min(node, world) if isinstance(world, int) else node
    return world if isinstance(world, int) else 1


def required_setting(value: object, field: str) -> int:
    """An integer setting of ZeRO, in elements. Raises `MissingValue` where the file's `auto` could not be resolved."""
    if value is UNKNOWN or not isinstance(value, (int, float)):
        raise MissingValue(field, "`auto` can only be filled when the model's hidden size is known")
    return int(value)


def is_quantized(tensor: Tensor) -> bool:
    """Whether the engine neither casts nor partitions a tensor, because of the format that it is stored in."""
    return tensor.dtype not in BYTES or (tensor.dtype in ("int8", "uint8") and not tensor.trainable)


def flat_partition(elements: int, dtype: str = "float32") -> tuple[Unit, ...]:
    """One flat trainable tensor: the partition as the optimizer inside of the engine sees it."""
    if not elements:
        return ()
    tensor = Tensor("flat", elements, (elements,), "other", True, dtype, elements * BYTES[dtype])
    return (Unit("flat", (tensor,)),)


def tied_elements(run: Run, units: tuple[Unit, ...]) -> int:
    """Elements of an embedding that the head uses too; 0 where the head has its own."""
    if not ties_head(run):
        return 0
    if any(tensor.kind == "head" for unit in units for tensor in unit.tensors):
        return 0
    return max((t.numel for t in units[0].tensors if t.kind == "embedding"), default=0)


def tied_gradient_elements(run: Run, units: tuple[Unit, ...]) -> int:
    """Elements of a tied embedding's gradient: the head makes it, so that it is alive through the whole backward."""
    trains = any(tensor.trainable and tensor.kind == "embedding" for tensor in units[0].tensors)
    return tied_elements(run, units) if trains else 0
