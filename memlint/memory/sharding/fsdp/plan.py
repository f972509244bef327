"""Which parameters an FSDP run gathers together (its wrapping), and how many GPUs share them."""

from __future__ import annotations

from collections.abc import Iterable

from memlint._record import NamedTuple
from memlint.memory.parameters import MissingValue
from memlint.memory.storage import BYTES
from memlint.memory.values import Tensor, Unit
from memlint.run import Run


class ParameterGroup(NamedTuple):
    """One FSDP unit. All but `shard_bytes` (of one rank) are numbers of elements.

    `numel`: gathered, with padding. `trainable`: of those. `largest_tensor`, `last_tensor`: of its trainable tensors.
    """

    numel: int = 0
    trainable: int = 0
    shard_bytes: int = 0
    largest_tensor: int = 0
    last_tensor: int = 0


def merged(groups: Iterable[tuple[ParameterGroup, int]]) -> ParameterGroup:
    """One group of all (group, copies) pairs."""
    numel = trainable = shard = largest = last = 0
    for group, copies in groups:
        numel += group.numel * copies
        trainable += group.trainable * copies
        shard += group.shard_bytes * copies
        largest = max(largest, group.largest_tensor)
        last = group.last_tensor or last
    return ParameterGroup(numel, trainable, shard, largest, last)


class WrapPlan(NamedTuple):
    """How a model is wrapped. `element`, `master`: bytes of an element of a gathered parameter and of its shard.

    `wrapped`: for each unit of the model, the FSDP units inside of one of its copies. `unwrapped`: for each unit, what
    belongs to the root (in FSDP2, to the groups of the embedding and of the norm and head).
    """

    ranks: int
    element: int
    master: int
    wrapped: tuple[tuple[ParameterGroup, ...], ...]
    unwrapped: tuple[ParameterGroup, ...]


def wrap_plan(run: Run, units: tuple[Unit, ...]) -> WrapPlan:
    """How the run wraps its model. Raises `MissingValue` when the number of GPUs or the compute dtype is unknown."""
    ranks = shard_ranks(run)
    element = BYTES[compute_dtype(run)]
    wrapped: list[tuple[ParameterGroup, ...]] = []
    unwrapped: list[ParameterGroup] = []
    fsdp = run.parallelism.fsdp
    for unit in units:
        inner, rest = _divide(run, unit)
        wrapped.append(tuple(_group(run, tensors, ranks, element) for tensors in inner))
        unwrapped.append(_group(run, rest, ranks, element))
    master = 4 if upcasts_trainable(run) else element
    if fsdp.strategy == "NO_SHARD" and fsdp.version == 1:
        ranks = 1
    return WrapPlan(ranks, element, master, tuple(wrapped), tuple(unwrapped))


def shard_ranks(run: Run) -> int:
    """GPUs among which one parameter is split: all data-parallel ones, or one node's in hybrid sharding."""
    parallel = run.parallelism
    fsdp = parallel.fsdp
    if fsdp.version == 1 and fsdp.strategy == "NO_SHARD":
        return 1
    size = parallel.data_parallel_size
    if not isinstance(size, int):
        size = parallel.world_size
    if not isinstance(size, int):
        raise MissingValue("parallelism.world_size", "how many GPUs share the model's state is not known")
    size = max(1, size * parallel.sequence_parallel_size * parallel.context_parallel_size)
    if not fsdp.strategy.lstrip("_").startswith("HYBRID"):
        return size
    node = fsdp.shard_group_size or parallel.gpus_per_node
    return min(size, node) if isinstance(node, int) and node > 0 else size


def compute_dtype(run: Run) -> str:
    """The dtype of gathered parameters: the mixed-precision policy's, else as stored."""
    wanted = run.parallelism.fsdp.param_dtype or run.precision.compute
    if isinstance(wanted, str) and wanted in BYTES:
        return wanted
    raise MissingValue("precision.compute", "the dtype that matrix products run in is not known")


def upcasts_trainable(run: Run) -> bool:
    """Whether trainable parameters are kept in fp32 beside half-precision compute (accelerate 1.15
    accelerator.py:1997-2038, utils/fsdp_utils.py:813-820)."""
    if run.precision.trainable_dtype == "float32":
        return True
    return run.parallelism.fsdp.upcasts_trainable and run.precision.autocast is not False


def stored_element(run: Run, tensor: Tensor) -> float:
    """Bytes of one element of a tensor's shard."""
    if tensor.trainable and upcasts_trainable(run):
        return 4
    if tensor.dtype in BYTES:
        return BYTES[tensor.dtype]
    return tensor.stored_bytes / max(1, tensor.numel)


def _group(run: Run, tensors: list[Tensor], ranks: int, element: int) -> ParameterGroup:
    """FSDP1 flattens, FSDP2 splits every tensor's first dimension and pads it."""
    numel = trainable = largest = last = 0
    shard = 0.0
    for tensor in tensors:
        if tensor.dtype not in BYTES:  # quantised: gathered as stored, in a storage dtype as wide as an element
            numel += tensor.stored_bytes * tensor.copies // element
            shard += tensor.stored_bytes * tensor.copies / ranks
            continue
        size = _padded(run, tensor, ranks) * tensor.copies
        numel += size
        shard += size // ranks * stored_element(run, tensor)
        if tensor.trainable:
            trainable += size
            largest = max(largest, tensor.numel)
            last = tensor.numel
    return ParameterGroup(numel, trainable, int(shard), largest, last)


def _padded(run: Run, tensor: Tensor, ranks: int) -> int:
    if run.parallelism.fsdp.version == 2 and tensor.shape and tensor.dtype in BYTES:
        rows = tensor.shape[0]
        return -(-rows // ranks) * ranks * (tensor.numel // rows)
    return -(-tensor.numel // ranks) * ranks


def _divide(run: Run, unit: Unit) -> tuple[list[list[Tensor]], list[Tensor]]:
    """The tensors of one unit: those wrapped together, and those that are left to the root."""
    wrap = run.parallelism.fsdp.wrap
    tensors = list(unit.tensors)
    if wrap == "none":
        return [], tensors
    if wrap == "size":
        return by_size(tensors, run.parallelism.fsdp.min_num_params, run.parallelism.fsdp.version)
    if unit.name == "layer" or (unit.name == "tower" and unit.repeat > 1):
        return [tensors], []
    return [], tensors


def by_size(tensors: list[Tensor], min_numel: int, version: int = 1) -> tuple[list[list[Tensor]], list[Tensor]]:
    """Size-based wrapping: modules with at least `min_numel` parameters that are unwrapped yet, innermost first (torch
    2.13 distributed/fsdp/wrap.py, `_recursive_wrap` with `size_based_auto_wrap_policy`). accelerate's FSDP2 policy
    counts all parameters of a module, wrapped or not, and wants more than `min_numel` (utils/fsdp_utils.py:966-968)."""
    groups: list[list[Tensor]] = []
    rest = _wrap("", tensors, min_numel, version, groups)
    return groups, rest


def _wrap(path: str, tensors: list[Tensor], min_numel: int, version: int, groups: list[list[Tensor]]) -> list[Tensor]:
    """Wraps inside of the module at `path`, into `groups`. Returns the tensors that stay unwrapped."""
    if _count(tensors) < min_numel:
        return tensors
    rest: list[Tensor] = []
    children: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        below = tensor.name[len(path) :]
        head, dot, _ = below.partition(".")
        if dot:
            children.setdefault(path + head + ".", []).append(tensor)
        else:
            rest.append(tensor)
    for child, inside in children.items():
        rest += _wrap(child, inside, min_numel, version, groups)
    if rest and (_count(rest) >= min_numel if version == 1 else _count(tensors) > min_numel):
        groups.append(rest)
        return []
    return rest


def _count(tensors: list[Tensor]) -> int:
    return sum(tensor.numel * tensor.copies for tensor in tensors)
