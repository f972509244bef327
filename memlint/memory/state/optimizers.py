"""States and step temporaries of optimizers, bytes.

optimizers.json has one entry per optimizer, with its source:

states: one entry per state tensor of a parameter:
  param     the parameter's dtype
  float32, bfloat16
  bnb8      a byte an element and an fp32 absmax per block of 256; fp32 below 4096 elements
  bnb8_double  twice bnb8 (two moving averages in one tensor)
  ao8, ao4, aofp8  torchao: a byte (half a byte) and an fp32 scale per 256 (128); the parameter's dtype where the
            tensor has fewer than 4096 elements or no whole number of blocks; int8 and int4 with a code table
  factored  fp32 row and column sums of a matrix; of a vector, fp32 per element
  factored_matrix  `factored` of a matrix, nothing of a vector
  flash8    flashoptim: a byte and an fp16 scale per 32;  correction8: a byte, of half-precision parameters alone
  orthonormal  Dion: a momentum and a square factor of the shorter side; vectors, embedding and head have two moments
  ao8_outside  `ao8`, of all but the matrices inside layers
  rows      one value per row in the parameter's dtype; of a vector, one
  kahan     the parameter's dtype, only where that is a half precision
  low_rank  GaLore and APOLLO: a state in their rank for targeted matrices, `param` for all others
  low_bnb8, low_factored  the same, in 8 bits and factored
  projector  GaLore's projection: singular vectors; of an fp32 gradient all of them (a slice keeps its whole tensor
            alive), of a half one only its rank's (cast, so copied)
  projector8  Q-GaLore's projection: a byte an element, a scale and a zero per 256, and one singular vector
  projector_float  the same of a gradient that is always turned into fp32 first: all singular vectors
  random    APOLLO's random projection, in the parameter's dtype
  matrix    the parameter's dtype for matrices inside layers; vectors, embedding and head have two (AdamW)
  precond   SOAP, Shampoo: two square fp32 matrices per side of a matrix up to 10000
foreach: multiples of all trainable bytes that a multi-tensor step allocates.
Temporaries of a step that goes tensor by tensor, for the tensor that needs most:
  single, half_single, single32, half_single32: multiples of the tensor in its own dtype or in fp32; `half_` for
            half-precision tensors where they differ
  held      multiples of the tensor before it, which the loop still refers to
  low       multiples of the targeted matrices' low-rank gradient;  svd: the singular value decomposition of a refresh
  newton    Muon's Newton-Schulz iteration on matrices inside layers
Where an entry has both `foreach` and `single`, the run's `optimizer.foreach` decides.
step: the step counter is a GPU tensor. paged: states over 1e5 elements are managed memory, outside of PyTorch's
  allocator (their absmax is not). layerwise: the step runs inside the backward and frees each gradient at once.
  host: states and step are on the CPU. rank: the projection rank where the run sets none.
aliases: other names of the same optimizer.
All figures were counted on the real classes (tests/memory/state/test_optimizers.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import memlint.plugin_registry as plugins
from memlint._record import NamedTuple
from memlint.memory.state.parameters import MissingValue
from memlint.memory.state.parameters import units as model_units
from memlint.memory.state.storage import ALIGNMENT, BYTES, numel, rounded
from memlint.memory.values import Tensor, Unit
from memlint.run import Optimizer, Run

_MIN_PAGED_SIZE = 100_000  # elements, bitsandbytes 0.50.2 optim/optimizer.py:383
_MIN_8BIT_SIZE = 4096  # `min_8bit_size`, bitsandbytes 0.50.2 optim/optimizer.py:414; torchao the same
# torchao's code tables, one per state (subclass_8bit.py: qmap).
_CODE_TABLE_BYTES = {"ao8": 4 * 256, "ao4": 4 * 16, "aofp8": 0}
_MAX_PRECONDITIONED_SIDE = 10_000
_HALF = ("bfloat16", "float16")


class OptimizerMemory(NamedTuple):
    """Bytes for the tensors of one GPU. `managed`: states in CUDA managed memory, which may move to the host. `host`:
    states in host memory."""

    states: int
    step_temporaries: int
    managed: int = 0
    host: int = 0


class _ConfiguredOptimizer(NamedTuple):
    """An optimizer with a run's settings: its table entry, the projection rank, and what it treats apart."""

    entry: Mapping[str, Any]
    optimizer: Optimizer
    rank: int
    embeddings_in_32_bits: bool  # an 8-bit optimizer keeps the states of embeddings in 32 bits
    projects_head: bool


@lru_cache(maxsize=1)
def table() -> Mapping[str, Mapping[str, Any]]:
    """Every optimizer by name and alias."""
    with open(os.path.join(os.path.dirname(__file__), "optimizers.json"), "rb") as file:
        entries: dict[str, Mapping[str, Any]] = json.load(file)
    for entry in list(entries.values()):
        for alias in entry.get("aliases", ()):
            entries.setdefault(alias, entry)
    return {**entries, **plugins.optimizers}


def entry_of(optimizer: Optimizer) -> Mapping[str, Any]:
    """The table's entry; raises `MissingValue` for an unknown name."""
    name = optimizer.name
    if not isinstance(name, str):
        raise MissingValue("optimizer.name", "the optimizer is not known")
    key = name.lower()
    if key in ("adam", "adamw") and optimizer.engine == "deepspeed":
        key = "fused_adam"
    found = table().get(key)
    if found is None:
        raise MissingValue("optimizer.name", f"memory of the optimizer `{name[:60]}` is not known")
    return found


def is_layerwise(run: Run) -> bool:
    """Whether the step runs inside the backward and frees each gradient at once."""
    return run.optimizer.layerwise or bool(entry_of(run.optimizer).get("layerwise"))


def step_lags_one_gradient(run: Run) -> bool:
    """Whether a layer-wise step updates a parameter when the next gradient arrives, as LOMO's hooks do."""
    return bool(entry_of(run.optimizer).get("step_lags_one_gradient"))


def memory(run: Run, units: tuple[Unit, ...]) -> OptimizerMemory:
    """States and step temporaries for every trainable tensor in `units`. Under sharding `units` holds a rank's shards.

    Raises `MissingValue` for an unknown optimizer, and for Muon on sharded matrices.
    """
    tensors = list(_trainable_tensors(units))
    if not tensors:
        return OptimizerMemory(0, 0)
    configured = _configured(run)
    entry = configured.entry
    if _divides_matrices(run, entry):
        return _sharded_muon(run, entry, tensors)
    names = _state_names(run, entry)
    states = managed = 0
    paged, counter = entry.get("paged"), ALIGNMENT if entry.get("step") else 0
    state_counts = [(name, names.count(name)) for name in dict.fromkeys(names)]
    for tensor, number in tensors:
        tensor_bytes = 0
        for name, times in state_counts:
            tensor_bytes += times * _state_bytes(name, tensor, configured)
        if paged and tensor.numel >= _MIN_PAGED_SIZE:
            unpaged = sum(_unpaged_bytes(name, tensor, configured) for name in names)
            managed += (tensor_bytes - unpaged) * number
            states += unpaged * number
            continue
        states += (tensor_bytes + counter) * number
    if entry.get("host"):
        return OptimizerMemory(0, 0, 0, states)
    return OptimizerMemory(states, _step_temporaries(configured, tensors), managed)


def created_states(run: Run, units: tuple[Unit, ...], total: int) -> list[int]:
    """Bytes of each tensor that the first step of an optimizer creates on the card, in the order of the model. What the
    states have beyond them up to `total` (counters, BAdam's copy) is one."""
    configured = _configured(run)
    names = _state_names(run, configured.entry) if total else []
    found: list[int] = []
    for unit in units:
        sizes = [
            _size_on_card(name, tensor, configured)
            for tensor in unit.tensors
            if tensor.trainable
            for name in names * tensor.copies
        ]
        found += [size for size in sizes if size] * unit.repeat
    more = total - sum(found)
    return [*found, more] if more > 0 else found


def _size_on_card(name: str, tensor: Tensor, configured: _ConfiguredOptimizer) -> int:
    if configured.entry.get("paged") and tensor.numel >= _MIN_PAGED_SIZE:
        return _unpaged_bytes(name, tensor, configured)
    return _state_bytes(name, tensor, configured)


def _state_names(run: Run, entry: Mapping[str, Any]) -> list[str]:
    """The states of a parameter."""
    momentum = ["param"] if entry.get("momentum") and run.optimizer.momentum else []
    return [*entry["states"], *momentum]


# Full matrices of optimizers in host memory, which DeepSpeed gathers in batches and keeps between them (deepspeed
# 0.19.8 runtime/zero/stage_1_and_2.py:410 and stage3.py:243, `_muon_allgather_max_cached_bytes`).
_MUON_GATHERED_BYTES = 256 * 1024 * 1024


# DeepSpeed's Muon kept its momentum on the host before (0.18.2 and 0.18.3 runtime/zero/stage_1_and_2.py,
# get_flat_partition: "put on cpu to save space"), and refused stage 3 (0.18.8 and 0.18.9 runtime/engine.py).
_MUON_MOMENTUM_ON_CARD = (0, 18, 3)
_MUON_UNDER_STAGE_3 = (0, 18, 9)


def _divides_matrices(run: Run, entry: Mapping[str, Any]) -> bool:
    """Whether an engine divides matrices that a Newton-Schulz iteration needs whole. MuonClip has one momentum for
    everything, and takes flat partitions as vectors (ms-swift 4.6.0 optimizers/muonclip.py:316)."""
    parallel = run.parallelism
    if not entry.get("newton"):
        return False
    flat = parallel.engine == "deepspeed" or (parallel.engine == "fsdp" and parallel.fsdp.version == 1)
    return parallel.engine in ("deepspeed", "fsdp") and not (flat and "matrix" not in entry["states"])


def _sharded_muon(run: Run, entry: Mapping[str, Any], tensors: list[tuple[Tensor, int]]) -> OptimizerMemory:
    """DeepSpeed's own Muon under ZeRO, and a Muon over FSDP2's shards: a momentum of this rank's part of the matrices
    inside layers, two moments of its part of the rest (in MuonClip one), and one whole matrix in the Newton-Schulz
    iteration.

    Raises `MissingValue` for another Muon in DeepSpeed, and for FSDP1, whose flat parameters have no matrices.
    """
    parallel = run.parallelism
    if parallel.engine == "fsdp" and parallel.fsdp.version != 2:
        raise MissingValue("optimizer.name", "FSDP1's flat parameters hold no matrices for Muon")
    if parallel.engine == "deepspeed" and run.optimizer.engine != "deepspeed":
        raise MissingValue("optimizer.name", "a Muon that is not DeepSpeed's own sees flat partitions without matrices")
    release = run.stack.deepspeed if parallel.engine == "deepspeed" else ()
    if parallel.zero.stage == 3 and () < release < _MUON_UNDER_STAGE_3:
        raise MissingValue("optimizer.name", "DeepSpeed before 0.18.9 refuses its Muon under ZeRO-3")
    whole = list(_trainable_tensors(model_units(run)))
    matrices = [(tensor, number) for tensor, number in whole if _is_layer_matrix(tensor)]
    elements = sum(tensor.numel * number for tensor, number in whole)
    share = sum(tensor.numel * number for tensor, number in matrices) / max(1, elements)
    held = sum(tensor.numel * BYTES[tensor.dtype] * number for tensor, number in tensors)
    largest = max((_newton_bytes(entry, tensor) for tensor, _ in matrices), default=0)
    elements_of_matrices = sum(tensor.numel * number for tensor, number in matrices)
    gathered = _gathered_for_muon(run, elements_of_matrices) if parallel.engine == "deepspeed" else 0
    if () < release < _MUON_MOMENTUM_ON_CARD:
        return OptimizerMemory(int(2 * held * (1 - share)), largest + gathered, 0, int(held * share))
    return OptimizerMemory(int(held * (2 - share if "matrix" in entry["states"] else 1)), largest + gathered)


def _gathered_for_muon(run: Run, elements: int) -> int:
    """Bytes that DeepSpeed allocates for Muon beside one matrix's iteration. `elements`: of all matrices in layers.

    ZeRO-3 gathers gradients and momenta of as many matrices as fit in a reduce bucket (deepspeed 0.19.8 runtime/zero/
    stage3.py:1841). Stages 1 and 2 have the updates of a rank's matrices beside their gradients
    (stage_1_and_2.py:2752).
    """
    zero, width = run.parallelism.zero, BYTES.get(str(run.precision.trainable_dtype), 4)
    if run.offload.optimizer != "none":
        return _MUON_GATHERED_BYTES
    if zero.stage == 3:
        bucket = zero.reduce_bucket_size
        return 2 * width * (min(elements, bucket) if isinstance(bucket, int) else elements)
    ranks = run.parallelism.data_parallel_size
    return width * elements // (ranks if isinstance(ranks, int) and ranks > 0 else 1)


def _newton_bytes(entry: Mapping[str, Any], tensor: Tensor) -> int:
    """Muon's iteration on one matrix: four bf16 matrices and two bf16 Gram matrices, and a copy but in MuonClip, which
    reads the momentum itself."""
    shorter_side = min(tensor.shape[-2:])
    copy = rounded(tensor.numel * BYTES[tensor.dtype]) if "matrix" in entry["states"] else 0
    return copy + 8 * tensor.numel + 4 * shorter_side * shorter_side


def _configured(run: Run) -> _ConfiguredOptimizer:
    """The run's optimizer. The Trainer has 8-bit optimizers keep the states of `nn.Embedding` in 32 bits since
    transformers 4.52 (5.23 trainer.py:1328); before, its condition was never true (4.51 trainer.py)."""
    entry = entry_of(run.optimizer)
    version = run.stack.transformers
    embeddings_in_32_bits = any(name.startswith("bnb8") for name in entry["states"]) and (
        run.optimizer.embeddings_in_32_bits and (not version or version >= (4, 52))
    )
    rank = run.optimizer.rank or int(entry.get("rank", 0))
    chosen = run.optimizer
    if chosen.foreach is None and () < run.stack.torch < _FOREACH_BY_DEFAULT_SINCE:
        chosen = chosen._replace(foreach=False)
    return _ConfiguredOptimizer(entry, chosen, rank, embeddings_in_32_bits, chosen.projects_head)


_FOREACH_BY_DEFAULT_SINCE = (2, 0)  # torch 2.0.1 optim/optimizer.py, _default_to_fused_or_foreach; 1.13.1: single


def _trainable_tensors(units: tuple[Unit, ...]) -> Iterator[tuple[Tensor, int]]:
    for unit in units:
        for tensor in unit.tensors:
            if tensor.trainable:
                yield tensor, tensor.copies * unit.repeat


def _step_temporaries(configured: _ConfiguredOptimizer, tensors: list[tuple[Tensor, int]]) -> int:
    """Bytes that the step allocates beyond states and gradients."""
    entry, optimizer = configured.entry, configured.optimizer
    decayed = entry.get("decayed", 0) if optimizer.weight_decay else 0
    if "foreach" in entry and optimizer.foreach is not False:
        times = entry["foreach"] + decayed
        trainable_bytes = sum(rounded(tensor.numel * BYTES[tensor.dtype]) * number for tensor, number in tensors)
        return int(times * trainable_bytes)
    if entry.get("held"):
        return _held_step(configured, tensors)
    return max(tensor_step(configured, tensor) for tensor, _ in tensors)


def _held_step(configured: _ConfiguredOptimizer, tensors: list[tuple[Tensor, int]]) -> int:
    """As `tensor_step` for the tensor that needs most, with what the loop still refers to of the tensor before.
    Norms and biases are another parameter group, too small to matter."""
    most = previous = 0
    for tensor, number in [pair for pair in tensors if pair[0].kind not in ("norm", "bias")] or tensors:
        own = rounded(tensor.numel * BYTES[tensor.dtype])
        held = configured.entry["held"] * max(previous, own if number > 1 else 0)
        most = max(most, tensor_step(configured, tensor) + held)
        previous = own
    return most


def largest_tensor_step(run: Run, tensors: tuple[Tensor, ...]) -> int:
    """Bytes of temporaries of a step that goes tensor by tensor: those of the tensor that needs most, 0 without any."""
    configured = _configured(run)
    return max((tensor_step(configured, tensor) for tensor in tensors if tensor.trainable), default=0)


def tensor_step(configured: _ConfiguredOptimizer, tensor: Tensor) -> int:
    """Bytes that the update of one tensor allocates."""
    entry = configured.entry
    is_half = tensor.dtype in _HALF
    multiples = entry.get("half_single" if is_half and "half_single" in entry else "single", 0)
    multiples_in_fp32 = entry.get("half_single32" if is_half and "half_single32" in entry else "single32", 0)
    tensor_bytes, width = rounded(tensor.numel * BYTES[tensor.dtype]), BYTES[tensor.dtype]
    found = multiples * tensor_bytes + multiples_in_fp32 * rounded(4 * tensor.numel)
    if entry.get("newton") and _is_layer_matrix(tensor):
        return _newton_bytes(entry, tensor)
    if "low" in entry and _projected(tensor, configured):
        low = rounded(configured.rank * max(tensor.shape) * (4 if multiples_in_fp32 else width))
        return max(int(found + entry["low"] * low), _svd_bytes(tensor, width) if entry.get("svd") else 0)
    return int(found)


def _svd_bytes(tensor: Tensor, width: int) -> int:
    """A refresh of GaLore's projection: the fp32 gradient (a copy where it is half), the copy that the solver destroys,
    and the singular vectors of both sides (galore_torch 1.0 galore_projector.py:84)."""
    shorter, longer = sorted(tensor.shape)
    return rounded(4 * tensor.numel) * (1 if width == 4 else 2) + 4 * shorter * shorter + rounded(4 * shorter * longer)


def _state_bytes(name: str, tensor: Tensor, configured: _ConfiguredOptimizer) -> int:
    """Bytes of one state of one tensor."""
    count = tensor.numel
    if not count:  # an adapter of rank 0, which PEFT refuses
        return 0
    width = BYTES[configured.optimizer.state_dtype or tensor.dtype]
    if name == "param":
        return rounded(count * width)
    if name in ("float32", "bfloat16"):
        return rounded(count * BYTES[name])
    if name in _LOW_RANK:
        return _low_rank_bytes(name, tensor, configured, width)
    if name.startswith("bnb8"):
        state_bytes = rounded(4 * count) if _keeps_32_bits(tensor, configured) else _bnb_bytes(count)
        return state_bytes * (2 if name == "bnb8_double" else 1)
    if name in _CODE_TABLE_BYTES:
        return _torchao_bytes(name, count, width)
    return _shaped_bytes(name, tensor, width)


_Q_GALORE_GROUP = 256  # elements (axolotl 0.19.0 utils/schemas/training.py:240, qgalore_proj_group_size)
_LOW_RANK = ("low_rank", "low_bnb8", "low_factored", "projector", "projector8", "projector_float", "random")


def _bnb_bytes(count: int) -> int:
    if count < _MIN_8BIT_SIZE:
        return rounded(4 * count)
    return rounded(count) + _absmax_bytes(count)


def _absmax_bytes(count: int) -> int:
    return rounded(4 * -(-count // 256))


def _keeps_32_bits(tensor: Tensor, configured: _ConfiguredOptimizer) -> bool:
    return configured.embeddings_in_32_bits and tensor.kind in ("embedding", "position")


def _unpaged_bytes(name: str, tensor: Tensor, configured: _ConfiguredOptimizer) -> int:
    """The absmax of a paged 8-bit state is an ordinary tensor (bitsandbytes 0.50.2 optim/optimizer.py:521-525)."""
    if not name.startswith("bnb8") or _keeps_32_bits(tensor, configured):
        return 0
    return _absmax_bytes(tensor.numel) * (2 if name == "bnb8_double" else 1)


def _torchao_bytes(name: str, count: int, width: int) -> int:
    block = 128 if name == "ao4" else 256
    if count < _MIN_8BIT_SIZE or count % block:
        return rounded(count * width)
    return (
        rounded(count // 2 if name == "ao4" else count)
        + rounded(4 * (count // block))
        + rounded(_CODE_TABLE_BYTES[name])
    )


def _projected(tensor: Tensor, configured: _ConfiguredOptimizer) -> bool:
    """Whether GaLore or APOLLO projects this parameter: the weight of a linear layer whose name holds a target
    (transformers 5.23 trainer_optimizer.py:130-152; LLaMA-Factory 0.9.5 train/trainer_utils.py:186-197)."""
    if len(tensor.shape) != 2 or not configured.rank:
        return False
    targets = configured.optimizer.targets
    if not targets or targets in (("all-linear",), ("all_linear",)):
        return tensor.kind == "linear" or (tensor.kind == "head" and bool(targets) and configured.projects_head)
    return tensor.kind in ("linear", "head") and any(target in tensor.name for target in targets)


def _low_rank_bytes(name: str, tensor: Tensor, configured: _ConfiguredOptimizer, width: int) -> int:
    """Projected: states of (rank, longer side) and a projection of the shorter side."""
    if not _projected(tensor, configured):
        if name == "low_bnb8":
            return _bnb_bytes(tensor.numel)
        if name == "low_factored":
            return _factored_bytes(tensor.shape)
        return rounded(tensor.numel * width) if name == "low_rank" else 0
    shorter, longer = sorted(tensor.shape)
    if name == "low_bnb8":
        return _bnb_bytes(configured.rank * longer)
    if name == "low_factored":
        return _factored_bytes((configured.rank, longer))
    if name == "low_rank":
        return rounded(configured.rank * longer * width)
    if name == "projector8":
        scales = 2 * rounded(width * -(-configured.rank * shorter // _Q_GALORE_GROUP))
        return rounded(configured.rank * shorter) + scales + rounded(width * shorter)
    if name == "random" and configured.optimizer.projection != "svd":
        return rounded(configured.rank * shorter * width)
    return rounded(
        4 * shorter * shorter if width == 4 or name == "projector_float" else configured.rank * shorter * width
    )


def _factored_bytes(shape: tuple[int, ...]) -> int:
    """fp32 sums over columns and over rows; of a vector, fp32 per element."""
    count = numel(shape)
    if len(shape) < 2:
        return rounded(4 * count)
    return rounded(4 * count // shape[-1]) + rounded(4 * count // shape[-2])


def _is_layer_matrix(tensor: Tensor) -> bool:
    """Whether a tensor is a matrix of a layer. Muon updates those; AdamW updates all others."""
    return len(tensor.shape) == 2 and tensor.kind not in ("embedding", "head", "position")


def _shaped_bytes(name: str, tensor: Tensor, width: int) -> int:
    """States whose size depends on the shape."""
    shape = tensor.shape
    if name == "kahan":
        return rounded(tensor.numel * width) if tensor.dtype in _HALF else 0
    if name == "factored" or (name == "factored_matrix" and len(shape) > 1):
        return _factored_bytes(shape)
    if name == "factored_matrix":
        return 0
    if name == "flash8":
        return rounded(tensor.numel) + rounded(2 * -(-tensor.numel // 32))
    if name == "correction8":
        return rounded(tensor.numel) if tensor.dtype in _HALF else 0
    if name == "ao8_outside":
        return 0 if _is_layer_matrix(tensor) else _torchao_bytes("ao8", tensor.numel, width)
    if name == "orthonormal":
        side = min(shape[-2:]) if _is_layer_matrix(tensor) else 0
        return rounded(tensor.numel * width) * (1 if side else 2) + rounded(side * side * width)
    if name == "rows":
        return rounded(width * shape[0]) if len(shape) > 1 else ALIGNMENT
    if name == "matrix":
        return rounded(tensor.numel * width) * (1 if _is_layer_matrix(tensor) else 2)
    if len(shape) < 2:  # precond
        return 0
    return sum(2 * rounded(4 * side * side) for side in shape[-2:] if side <= _MAX_PRECONDITIONED_SIDE)
