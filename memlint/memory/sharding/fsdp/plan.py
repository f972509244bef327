"""Which parameters an FSDP run gathers together (its wrapping), and how many GPUs share them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from memlint._record import NamedTuple
from memlint.memory.state.parameters import MissingValue
from memlint.memory.state.storage import BYTES
from memlint.memory.values import Tensor, Unit, with_tensors
from memlint.run import Run


class ParameterGroup(NamedTuple):
    """One FSDP unit. All but `shard_bytes` (of one rank) are numbers of elements.

    `numel`: gathered, with padding. `trained`: of those in tensors that train. `trainable`: of its gradient, which in
    FSDP1 is as large as the flat parameter, whatever trains of it. `largest_tensor`, `last_tensor`: of its trainable
    tensors.
    """

    numel: int = 0
    trainable: int = 0
    shard_bytes: int = 0
    largest_tensor: int = 0
    last_tensor: int = 0
    trained: int = 0


def merged(groups: Iterable[tuple[ParameterGroup, int]]) -> ParameterGroup:
    """One group of all (group, copies) pairs."""
    numel = trainable = shard = largest = last = trained = 0
    for group, copies in groups:
        numel += group.numel * copies
        trainable += group.trainable * copies
        shard += group.shard_bytes * copies
        largest = max(largest, group.largest_tensor)
        last = group.last_tensor or last
        trained += group.trained * copies
    return ParameterGroup(numel, trainable, shard, largest, last, trained)


class WrapPlan(NamedTuple):
    """How a model is wrapped. `element`, `master`: bytes of an element of a gathered parameter and of its shard.

    `wrapped`: for each unit of the model, the FSDP units inside of one of its copies. `unwrapped`: for each unit, what
    belongs to the root (in FSDP2, to the groups of the embedding and of the norm and head). `decoder_apart`: what is
    left of all units but the head is not the root's but the decoder's.
    """

    ranks: int
    element: int
    master: int
    wrapped: tuple[tuple[ParameterGroup, ...], ...]
    unwrapped: tuple[ParameterGroup, ...]
    decoder_apart: bool = False


def wrap_plan(run: Run, units: tuple[Unit, ...]) -> WrapPlan:
    """How the run wraps its model. Raises `MissingValue` when the number of GPUs or the compute dtype is unknown."""
    ranks = shard_ranks(run)
    element = BYTES[compute_dtype(run)]
    wrapped: list[tuple[ParameterGroup, ...]] = []
    unwrapped: list[ParameterGroup] = []
    fsdp = run.parallelism.fsdp
    for unit in units:
        inner, rest = divide(run, unit)
        wrapped.append(tuple(_group(run, tensors, ranks, element) for tensors in inner))
        unwrapped.append(_group(run, rest, ranks, element))
    master = 4 if upcasts_trainable(run) else element
    if fsdp.strategy == "NO_SHARD" and fsdp.version == 1:
        ranks = 1
    if fsdp.version == 2:
        return WrapPlan(ranks, element, master, tuple(wrapped), tuple(unwrapped))
    apart = has_decoder_apart(run, units)
    parts = (unwrapped[:-1], unwrapped[-1:]) if apart else (unwrapped,)
    rests = [rest for part in parts for rest in _in_one_flat_parameter(part)]
    return WrapPlan(ranks, element, master, tuple(wrapped), tuple(rests), apart)


def _in_one_flat_parameter(rests: list[ParameterGroup]) -> list[ParameterGroup]:
    """What is left of units, flattened together: something that trains makes a gradient of all of it."""
    trains = any(rest.trained for rest in rests)
    return [rest._replace(trainable=rest.numel if trains else 0) for rest in rests]


def has_decoder_apart(run: Run, units: tuple[Unit, ...]) -> bool:
    """Whether size-based wrapping of FSDP1 makes a unit of the decoder, of what it left unwrapped in embedding and
    layers: they are together at least as large as a unit has to be. Lists of layers are never wrapped themselves (torch
    2.13 distributed/fsdp/wrap.py, `EXCLUDE_WRAP_MODULES`)."""
    fsdp = run.parallelism.fsdp
    if fsdp.version == 2 or fsdp.wrap != "size" or is_adapted(run) or len(units) < 2:
        return False
    return sum(_count(divide(run, unit)[1]) * unit.repeat for unit in units[:-1]) >= fsdp.min_num_params


def with_flat_gradients(run: Run, units: tuple[Unit, ...]) -> tuple[Unit, ...]:
    """The units as autograd sees them: FSDP1's modules compute with views of flat parameters. Where one trains in part,
    views of its frozen weights need a gradient as well, so that layers below the trained ones keep what a backward
    needs (torch 2.13 distributed/fsdp/_flat_param.py, `_get_unflat_views_unaligned`)."""
    if run.parallelism.fsdp.version == 2 or is_adapted(run):
        return units
    divided = [divide(run, unit) for unit in units]
    rests = [rest for _, rest in divided]
    parts = (rests[:-1], rests[-1:]) if has_decoder_apart(run, units) else (rests,)
    flat = [group for inner, _ in divided for group in inner] + [list(chain(*part)) for part in parts]
    reached = {id(tensor) for group in flat if any(one.trainable for one in group) for tensor in group}
    return with_tensors(units, lambda tensor: tensor._replace(trainable=True) if id(tensor) in reached else tensor)


def is_adapted(run: Run) -> bool:
    """Whether adapters are trained beside a frozen model."""
    return run.method.kind not in ("full", "freeze")


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
    """FSDP1 flattens, and the gradient of a flat parameter is as large as it, whatever trains of it. FSDP2 splits every
    tensor's first dimension and pads it."""
    numel = trained = largest = last = 0
    shard = 0.0
    for tensor in tensors:
        if is_left_whole(run, tensor):
            continue
        if tensor.dtype not in BYTES:  # quantised: gathered as stored, in a storage dtype as wide as an element
            numel += tensor.stored_bytes * tensor.copies // element
            shard += tensor.stored_bytes * tensor.copies / ranks
            continue
        size = _padded(run, tensor, ranks) * tensor.copies
        numel += size
        shard += size // ranks * stored_element(run, tensor)
        if tensor.trainable:
            trained += size
            largest = max(largest, tensor.numel)
            last = tensor.numel
    trainable = numel if run.parallelism.fsdp.version == 1 and trained else trained
    return ParameterGroup(numel, trainable, int(shard), largest, last, trained)


_LEAVES_INTEGERS_SINCE = (1, 14)


def is_left_whole(run: Run, tensor: Tensor) -> bool:
    """Whether accelerate leaves a quantised weight out of FSDP2: frozen 4-bit weights that are stored in integers,
    whose packing a division would break (accelerate 1.14 utils/fsdp_utils.py:799; 1.13 divided them)."""
    fsdp, quantization = run.parallelism.fsdp, run.model.quantization
    in_integers = quantization.storage_dtype in ("uint8", "int8")
    packed = quantization.method == "bnb" and quantization.bits == 4 and in_integers
    older = () < run.stack.accelerate < _LEAVES_INTEGERS_SINCE
    quantised = tensor.dtype not in BYTES and not tensor.trainable
    return quantised and fsdp.version == 2 and packed and not older


def _padded(run: Run, tensor: Tensor, ranks: int) -> int:
    if run.parallelism.fsdp.version == 2 and tensor.shape and tensor.dtype in BYTES:
        rows = tensor.shape[0]
        return -(-rows // ranks) * ranks * (tensor.numel // rows)
    return -(-tensor.numel // ranks) * ranks


def divide(run: Run, unit: Unit) -> tuple[list[list[Tensor]], list[Tensor]]:
    """The tensors of one unit: those wrapped together, and those that are left to the root.

    The Trainer replaces the wrapping of FSDP1 by PEFT's for an adapted model: layers, and within and beside them each
    module whose weight trains (transformers 5.23 trainer.py:1752-1754; peft 0.21.2 utils/other.py,
    fsdp_auto_wrap_policy).
    """
    fsdp = run.parallelism.fsdp
    tensors = list(unit.tensors)
    adapted = fsdp.version == 1 and is_adapted(run)
    apart = [[tensor] for tensor in tensors if adapted and tensor.trainable]
    if fsdp.wrap == "none" and not adapted:
        return [], tensors
    if fsdp.wrap == "size" and not adapted:
        return by_size(tensors, fsdp.min_num_params, fsdp.version)
    frozen = [tensor for tensor in tensors if not (adapted and tensor.trainable)]
    if unit.name == "layer" or (unit.name == "tower" and unit.repeat > 1):
        return [frozen, *apart], []
    return apart, frozen


def by_size(tensors: list[Tensor], least: int, version: int = 1) -> tuple[list[list[Tensor]], list[Tensor]]:
    """Size-based wrapping: modules with at least `least` parameters that are not wrapped yet, innermost first (torch
    2.13 distributed/fsdp/wrap.py, `_recursive_wrap` with `size_based_auto_wrap_policy`). accelerate's FSDP2 policy
    counts all parameters of a module, wrapped or not, and wants more than `least` (utils/fsdp_utils.py:966-968)."""
    groups: list[list[Tensor]] = []
    rest = _wrap("", tensors, least, version, groups)
    return groups, rest


def _wrap(path: str, tensors: list[Tensor], least: int, version: int, groups: list[list[Tensor]]) -> list[Tensor]:
    """Wraps inside of the module at `path`, into `groups`. Returns the tensors that stay unwrapped."""
    if _count(tensors) < least:
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
        rest += _wrap(child, inside, least, version, groups)
    if rest and (_count(rest) >= least if version == 1 else _count(tensors) > least):
        groups.append(rest)
        return []
    return rest


def _count(tensors: list[Tensor]) -> int:
    return sum(tensor.numel * tensor.copies for tensor in tensors)
