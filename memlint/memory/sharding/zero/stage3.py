"""ZeRO stage 3: every parameter split over the ranks, gathered around its use.

deepspeed 0.19.8 runtime/zero/stage3.py unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import memlint.memory.families.lookup as families
import memlint.memory.sharding.packed_experts as packed_experts
import memlint.memory.state.adapters as adapters
from memlint.identity_cache import IdentityCache
from memlint.memory.loss.shape import loss_kind
from memlint.memory.sharding.zero.host import host_buffer_bytes, nvme_parameter_bytes, swap_buffer_bytes
from memlint.memory.sharding.zero.layout import (
    ZeroLayout,
    flat_partition,
    is_quantized,
    ranks_per_node,
    required_setting,
    tied_elements,
    tied_gradient_elements,
)
from memlint.memory.sharding.zero.reduction import ReductionSettings, reduction_moments
from memlint.memory.sharding.zero.trace import (
    NOTHING_READ,
    Gathered,
    ModuleCall,
    PrefetchSettings,
    ReadByModel,
    RepeatedUnit,
    Replay,
    replay,
)
from memlint.memory.state import optimizers as optimizer
from memlint.memory.state.storage import BYTES
from memlint.memory.values import ModelState, Moment, Tensor, Unit, UnitState, with_tensors
from memlint.run import UNKNOWN, Run, Zero

_EXPERTS = ".experts"
_OUTER_MODELS = 2  # the causal model and its decoder, which are called before the embedding
_OF_PEFT = 2  # PeftModel and LoraModel around them


def at_rest(run: Run, units: tuple[Unit, ...], layout: ZeroLayout) -> ModelState:
    """The model state on one rank: partitions and persistent parameters."""
    loaded, packed = _stored_bytes(units), _is_packed(units)
    units = _as_partitioned(units, layout)
    zero = run.parallelism.zero
    weights = _sharded_weights(run, units, layout)
    constants = loaded - _stored_bytes(units) if packed else 0
    states = _ShardedStates(run, layout, weights.shards)
    partitions = 0 if run.offload.parameters != "none" else weights.partitioned
    width = BYTES.get(zero.communication_dtype, layout.element)  # IPGBucketZ3.buffer, deepspeed 0.18.5 stage3.py:616
    bucket = width * required_setting(zero.reduce_bucket_size, "parallelism.zero.reduce_bucket_size")
    bucket = bucket if zero.contiguous_gradients and layout.trainable else 0
    secondary = _hpz_partition(run, weights, layout)
    return ModelState(
        weights=weights.whole + constants + partitions,
        optimizer_states=states.on_gpu,
        gradients_resident=states.gradients,
        communication=bucket + weights.persistent,
        units=(),
        gradients_at_step=states.gradients,
        step_temporaries=secondary + max(states.step, weights.persistent),
        communication_at_step=bucket,
        save_temporaries=layout.element * _largest(units) if zero.gather_16bit_weights_on_model_save else 0,
        load_peak=loaded if packed else _load_peak(zero, weights, partitions, layout.element * _largest(units)),
        host_bytes=(states.on_host + _host_weights(run, weights, layout)) * ranks_per_node(run),
        notes=_notes(run),
    )


def _load_peak(zero: Zero, weights: _ShardedWeights, partitions: int, largest: int) -> int:
    """Bytes while the weights load. zero.Init divides each tensor as it comes; without it the engine moves the whole
    model to the GPU, then divides it (engine.py:2096)."""
    return weights.whole + (partitions + largest if zero.shards_on_load else weights.unsharded)


def with_units(run: Run, units: tuple[Unit, ...], layout: ZeroLayout, state: ModelState) -> ModelState:
    """The state with what is gathered for each unit."""
    units = _as_partitioned(units, layout)
    weights = _sharded_weights(run, units, layout)
    secondary = _hpz_partition(run, weights, layout)
    gathered = _gathered(run, units, weights)
    return state._replace(
        units=_units(run, units, layout, gathered, secondary),
        gathered_at_loss=secondary + layout.element * gathered.at_loss,
        gathered_at_loss_backward=secondary + layout.element * gathered.at_loss_backward,
    )


_PARTITIONED = IdentityCache(32)  # by units and by bytes of an element (a small number is always the same object)


def _as_partitioned(units: tuple[Unit, ...], layout: ZeroLayout) -> tuple[Unit, ...]:
    """The units as the engine partitions them; the same object for the same units."""
    if not _is_packed(units):
        return units
    found: tuple[Unit, ...] | None = _PARTITIONED.get(units, layout.element)
    if found is None:
        found = with_tensors(units, lambda tensor: _packed(tensor, layout.element))
        _PARTITIONED.put(found, units, layout.element)
    return found


def _is_packed(units: tuple[Unit, ...]) -> bool:
    return any(tensor.dtype in _PACKED_DTYPES for unit in units for tensor in unit.tensors)


_SHARDED = IdentityCache(32)


def _sharded_weights(run: Run, units: tuple[Unit, ...], layout: ZeroLayout) -> _ShardedWeights:
    """The weights of a run, which are asked for at rest and once more with what is gathered for each unit."""
    key = units, layout.element, run.parallelism
    found: _ShardedWeights | None = _SHARDED.get(*key)
    if found is None:
        found = _weights(run, units, layout)
        _SHARDED.put(found, *key)
    return found


def _weights(run: Run, units: tuple[Unit, ...], layout: ZeroLayout) -> _ShardedWeights:
    zero = run.parallelism.zero
    shards = zero.mics_shard_size if zero.mics_shard_size > 1 else layout.ranks
    threshold = required_setting(zero.param_persistence_threshold, "parallelism.zero.param_persistence_threshold")
    return _ShardedWeights(units, layout.element, shards, threshold)


class _ShardedStates:
    """Bytes of fp32 master weights and optimizer states, on the GPU and on the host. `gradients`: partitions on the
    GPU. `step`: temporaries of an update.

    Master weights are a copy also of fp32 weights: `device == self.device` compares a device with its name (:1163).
    A partial offload (`ratio`) leaves the first sub-groups on the GPU (:1105).
    """

    def __init__(self, run: Run, layout: ZeroLayout, shards: int) -> None:
        groups = [[-(-numel // shards) for numel in group] for group in layout.groups]
        limit = required_setting(run.parallelism.zero.sub_group_size, "parallelism.zero.sub_group_size")
        subgroups = [elements for group in groups for elements in _subgroups(group, limit)]
        memories = [optimizer.memory(run, flat_partition(elements)) for elements in subgroups]
        sizes = [layout.master * e + memory.states + memory.host for e, memory in zip(subgroups, memories, strict=True)]
        share = sum(subgroups)
        offloads = run.offload.optimizer != "none"
        kept_on_gpu = int((1 - run.offload.optimizer_ratio) * len(sizes)) if offloads else len(sizes)
        self.on_gpu = sum(sizes[:kept_on_gpu])
        self.on_host = self._on_host(run, layout, subgroups[kept_on_gpu:], sizes[kept_on_gpu:]) if offloads else 0
        self.gradients = 0 if offloads else layout.accumulation * share
        largest = max((numel for group in groups for numel in group), default=0)
        self.step = (
            0
            if offloads
            else _step_memory(layout, largest, subgroups, [memory.step_temporaries for memory in memories])
        )

    def _on_host(self, run: Run, layout: ZeroLayout, subgroups: list[int], sizes: list[int]) -> int:
        """Host bytes: the half gradients in one buffer (:791); fp32 weights, states and gradients of each sub-group
        (:1338), or on NVMe the buffers that these pass through."""
        pinned = run.offload.optimizer_pinned
        accumulated = host_buffer_bytes(layout.accumulation * sum(subgroups), pinned)
        if run.offload.optimizer == "nvme":
            return accumulated + swap_buffer_bytes(run, layout.master, subgroups)
        gradients = sum(host_buffer_bytes(layout.master * elements, pinned) for elements in subgroups)
        return accumulated + gradients + sum(sizes)


_PACKED_DTYPES = ("nf4", "fp4")


def _packed(tensor: Tensor, element: int) -> Tensor:
    """A 4-bit tensor as the engine partitions it: its packed bytes, counted in elements of the engine's dtype.

    bitsandbytes' weights are parameters, which `Init(module=...)` partitions whatever their dtype is
    (parameter_offload.py:270, partition_parameters.py:1836: `dtype=param.dtype`); the constants beside them are not.
    Other formats' are buffers. No zero.Init meets them while they load (transformers 5.23 modeling_utils.py:3815), so
    that the engine moves the whole model to the GPU first (engine.py:2094).
    """
    if tensor.dtype not in _PACKED_DTYPES or tensor.trainable:
        return tensor
    packed = -(-tensor.numel // 2)
    return tensor._replace(numel=-(-packed // element), dtype=_DTYPE_OF_WIDTH[element], stored_bytes=packed)


_DTYPE_OF_WIDTH = {2: "bfloat16", 4: "float32"}


def _stored_bytes(units: tuple[Unit, ...]) -> int:
    return sum(tensor.stored_bytes * tensor.copies * unit.repeat for unit in units for tensor in unit.tensors)


def _host_weights(run: Run, weights: _ShardedWeights, layout: ZeroLayout) -> int:
    """Host bytes of offloaded weights; the trainable ones are one buffer (`param_groups_fp16_flat_cpu_memory`)."""
    if run.offload.parameters == "none":
        return 0
    if run.offload.parameters == "nvme":
        return nvme_parameter_bytes(run, layout, weights.shards)
    return host_buffer_bytes(weights.partitioned, run.offload.parameters_pinned)


def _notes(run: Run) -> tuple[str, ...]:
    """What the run uses and the estimate counts only roughly."""
    zero = run.parallelism.zero
    notes = {
        "MiCS is refused by DeepSpeed since 0.19": zero.mics_shard_size > 1 and run.stack.deepspeed >= (0, 19),
        "quantised all-gathers are counted as if they were not": zero.quantized_weights,
        "the buffers of quantised gradient reduction are not counted": zero.quantized_gradients,
    }
    return tuple(note for note, applies in notes.items() if applies)


class _ShardedWeights:
    """Bytes of weights: `whole` (quantised, not partitioned), `partitioned` (this rank's share), `persistent` (never
    released once gathered), `unsharded` (all that is partitioned, on all ranks together)."""

    def __init__(self, units: tuple[Unit, ...], element: int, shards: int, threshold: int) -> None:
        self.whole = self.partitioned = self.persistent = self.unsharded = 0
        self.threshold = threshold
        self.shards = shards
        for unit in units:
            for tensor in unit.tensors:
                self._add(tensor, tensor.copies * unit.repeat, element)

    def _add(self, tensor: Tensor, copies: int, element: int) -> None:
        if is_quantized(tensor):
            self.whole += tensor.stored_bytes * copies
            return
        self.partitioned += element * -(-tensor.numel // self.shards) * copies
        self.unsharded += element * tensor.numel * copies
        if tensor.numel <= self.threshold and self.shards > 1:
            self.persistent += element * tensor.numel * copies


def _subgroups(group: list[int], limit: int) -> list[int]:
    """Elements of the sub-groups that the optimizer steps one at a time (:1210-1236)."""
    if limit >= sum(group):
        return [sum(group)]
    found: list[int] = []
    size = 0
    for numel in group:
        size += numel
        if size >= limit:
            found.append(size)
            size = 0
    return [*found, size] if size else found


def _step_memory(layout: ZeroLayout, largest: int, subgroups: list[int], temporaries: list[int]) -> int:
    """Bytes of an update's temporaries: the norm in fp64, one tensor at a time (:2457); then for each sub-group its
    flat copy, the fp32 gradient made of it (:2686) and the optimizer's own temporaries."""
    copy = layout.accumulation if layout.accumulation != layout.master else 0
    steps = [layout.master * e + max(copy * e, own) for e, own in zip(subgroups, temporaries, strict=True)]
    return max(8 * largest, *steps) if steps else 0


def _hpz_partition(run: Run, weights: _ShardedWeights, layout: ZeroLayout) -> int:
    """Bytes of hpZ's secondary partition, within a small group of ranks: alive from the forward to the step."""
    group = run.parallelism.zero.hpz_partition_size
    return weights.unsharded // group if 1 < group <= layout.ranks else 0


def _units(
    run: Run, units: tuple[Unit, ...], layout: ZeroLayout, gathered: Replay, secondary: int
) -> tuple[UnitState, ...]:
    reduced = reduction_moments(
        units, _reduction_settings(run, layout), layout.element * tied_gradient_elements(run, units)
    )
    return tuple(
        UnitState(
            gathered_forward=secondary + layout.element * elements.forward,
            gathered_backward=secondary + layout.element * elements.backward,
            moments=_with_released(moments, elements, layout.element),
        )
        for elements, moments in zip(gathered.units, reduced, strict=True)
    )


def _with_released(moments: tuple[Moment, ...], elements: Gathered, element: int) -> tuple[Moment, ...]:
    """The moments of a unit's repetitions with what each has gathered less than the unit at most."""
    if len(elements.each_backward) != len(moments):
        return moments
    most = element * elements.backward
    return tuple(
        _fullest(moment, most, element * again, element * own)
        for moment, (again, own) in zip(moments, elements.each_backward, strict=True)
    )


def _fullest(moment: Moment, most: int, again: int, own: int) -> Moment:
    """A repetition's moment with the bytes that are gathered then: while its forward is computed `again`, beside the
    gradients that its backward begins with, or in its `own` backward, as its gradients come. `most`: in any."""
    if moment.begin + again > moment.live + own:
        return moment._replace(live=moment.begin, end=max(0, moment.end + own - again), released=most - again)
    return moment._replace(released=most - own)


def _reduction_settings(run: Run, layout: ZeroLayout) -> ReductionSettings:
    zero = run.parallelism.zero
    return ReductionSettings(
        element=layout.element,
        ranks=layout.ranks,
        bucket=required_setting(zero.reduce_bucket_size, "parallelism.zero.reduce_bucket_size"),
        stage=3,
        overlaps=bool(zero.overlap_comm),
        contiguous=zero.contiguous_gradients,
        scatters=zero.reduce_scatter,
        wide=layout.accumulation > layout.element,
        reduced=BYTES.get(zero.communication_dtype, layout.element),
    )


def _gathered(run: Run, units: tuple[Unit, ...], weights: _ShardedWeights) -> Replay:
    if weights.shards == 1:  # partitions are used in place (partition_parameters.py:61-86, :904)
        host = run.offload.parameters != "none"
        whole = tuple(Gathered(_elements(unit), _elements(unit)) if host else Gathered(0, 0) for unit in units)
        return Replay(whole, 0, 0)
    zero = run.parallelism.zero
    settings = PrefetchSettings(
        weights.shards,
        required_setting(zero.prefetch_bucket_size, "parallelism.zero.prefetch_bucket_size"),
        required_setting(zero.max_live_parameters, "parallelism.zero.max_live_parameters"),
        required_setting(zero.max_reuse_distance, "parallelism.zero.max_reuse_distance"),
    )
    checkpointing = run.checkpointing.mode not in ("none", UNKNOWN)
    trained = [any(tensor.trainable for tensor in unit.tensors) for unit in units]
    different = {id(unit.tensors): unit for unit in units}
    leaves = bool(zero.leaf_modules) or _is_leaf_by_default(run)
    outlive = packed_experts.outlive_their_gathering(run)
    outer = _OUTER_MODELS + (_OF_PEFT if run.method.kind in adapters.PER_WEIGHT_KINDS else 0)
    calls = {key: _known_module_calls(unit, weights.threshold, leaves, outlive) for key, unit in different.items()}
    segments = [
        RepeatedUnit(
            calls[id(unit.tensors)],
            unit.repeat,
            checkpointing and unit.name == "layer",
            backward=checkpointing or any(trained[: index + 1]),
            reentrant=run.checkpointing.reentrant,
        )
        for index, unit in enumerate(units)
    ]
    tied = tied_elements(run, units)
    if reads_head(run):
        rest = units[-1]._replace(tensors=tuple(one for one in units[-1].tensors if one.kind != "head"))
        segments[-1] = segments[-1]._replace(modules=_module_calls(rest, weights.threshold, leaves, outlive))
    elif tied:
        head = ModuleCall((), tied) if tied <= weights.threshold else ModuleCall((), tied=True)
        segments[-1] = segments[-1]._replace(modules=(*segments[-1].modules, head))
    segments[0] = segments[0]._replace(modules=_with_outer_models(segments[0].modules, outer))
    segments[-1] = segments[-1]._replace(modules=_with_decoder(segments[-1].modules, outer))
    return replay(tuple(segments), settings, _read_by_model(run, units, tied, weights.threshold))


_DEFAULT_LEAVES = (0, 18, 1)


def _is_leaf_by_default(run: Run) -> bool:
    """Whether DeepSpeed gathers a block of experts as one without being told to."""
    older = () < run.stack.deepspeed < _DEFAULT_LEAVES
    return not older and families.of(run.model.architecture).experts.zero3_leaf


def _with_outer_models(embedding: tuple[ModuleCall, ...], outer: int) -> tuple[ModuleCall, ...]:
    """The calls before the first layer: those of `outer` models that contain each other, the embedding, and that of the
    rotary embedding, which has no backward."""
    without = ModuleCall((), passes="forward")
    return (*[without] * outer, *embedding, without)


def _with_decoder(tail: tuple[ModuleCall, ...], outer: int) -> tuple[ModuleCall, ...]:
    """The calls after the last layer, norm and head, if the model has them. The backward of the decoder, which contains
    the norm, comes after that of the head, and those of the other `outer` models before; the outermost one's is no part
    of the tail."""
    decoder = ModuleCall((), passes="backward")
    calls = (call._replace(depth=int(number == 0)) for number, call in enumerate(tail))
    return (decoder, *calls, *[decoder] * (outer - _OUTER_MODELS))


def reads_head(run: Run) -> bool:
    """Whether the model's forward reads the head's weight and does not call the head: Liger's fused loss (liger_kernel
    0.8.5 transformers/model/llama.py, lce_forward) and cut cross entropy (apple/ml-cross-entropy
    cut_cross_entropy/transformers/llama.py:105, cce_forward)."""
    return loss_kind(run) in ("liger", "cut") and run.method.stage in ("pt", "sft")


def _read_by_model(run: Run, units: tuple[Unit, ...], tied: int, threshold: int) -> ReadByModel:
    """The head that the model reads. `tied`: elements of an embedding that is the head too, 0 where the head has its
    own; `threshold`: a parameter of so many elements is persistent, which is not gathered for a step."""
    if not reads_head(run):
        return NOTHING_READ
    heads = (one.numel for one in units[-1].tensors if one.kind == "head" and not is_quantized(one))
    elements = tied or max(heads, default=0)
    return ReadByModel(elements, tied > 0) if elements > threshold else NOTHING_READ


_MODULE_CALLS = IdentityCache(64)


def _known_module_calls(unit: Unit, threshold: int, leaves: bool, stacks_outlive: bool) -> tuple[ModuleCall, ...]:
    """`_module_calls`, which the runs of one search share: most differ in other settings."""
    known: dict[tuple[Any, ...], tuple[ModuleCall, ...]]
    known = _MODULE_CALLS.get(unit.tensors) or _MODULE_CALLS.put({}, unit.tensors)
    key = unit.name, threshold, leaves, stacks_outlive
    if key not in known:
        known[key] = _module_calls(unit, threshold, leaves, stacks_outlive)
    return known[key]


def _module_calls(unit: Unit, threshold: int, leaves: bool, stacks_outlive: bool) -> tuple[ModuleCall, ...]:
    """The module calls of a unit in the order of its forward, each module before those in it. Experts that are modules
    of their own follow one another. `leaves`: their block comes all at once (`set_z3_leaf_modules`). `stacks_outlive`:
    autograd keeps stacked experts, but with adapters on them a product of its own."""
    stacks_outlive = stacks_outlive and not any(_EXPERTS in one.name for one in unit.tensors if one.kind == "adapter")
    leaf = _block_of_experts(unit) if leaves else ""
    by_module: dict[str, list[Tensor]] = {}
    for tensor in unit.tensors:
        if not is_quantized(tensor):
            by_module.setdefault(_module(tensor, leaf), []).append(tensor)
    adapted = {_base(name) for name, tensors in by_module.items() if tensors[0].kind == "adapter"} - {"", leaf}
    is_layer = unit.name == "layer"
    found = [ModuleCall(())] if is_layer else []
    entered: list[tuple[str, ...]] = [()]
    for name in _in_call_order(by_module) if is_layer else by_module:
        tensors = by_module[name]
        path = _path(name, name != leaf and tensors[0].kind == "adapter", adapted)
        found += [ModuleCall((), depth=depth) for depth in _called_between(entered, path)]
        copies = 1 if name == leaf else min(t.copies for t in tensors)
        call = _module_call(tensors, copies, threshold)._replace(depth=len(path))
        outlives = stacks_outlive and any(one.kind == "experts" for one in tensors)
        found += [call._replace(outlive=True) if outlives else call] * copies
        entered.append(path)
    return tuple(found)


def _base(adapter: str) -> str:
    """The module that an adapter's tensor adapts: `self_attn.q_proj` of `self_attn.q_proj.weight.lora_A`."""
    return adapter.rpartition(".")[0].rpartition(".")[0]


def _path(name: str, is_adapter: bool, adapted: set[str]) -> tuple[str, ...]:
    """The modules from the layer's child down to the named one. PEFT's layer contains its base and the adapters."""
    module = _base(name) if is_adapter else name
    parts = module.split(".")
    path = tuple(".".join(parts[:count]) for count in range(1, len(parts) + 1))
    return (*path, name) if is_adapter or module in adapted else path


def _called_between(entered: list[tuple[str, ...]], path: tuple[str, ...]) -> list[int]:
    """Depths of the modules without parameters that are called after the last of `entered` and before `path`: those
    that contain it, an MLP's activation after its first projection, the dropout before an adapter."""
    last = entered[-1]
    shared = next((depth for depth, pair in enumerate(zip(last, path, strict=False)) if pair[0] != pair[1]), len(last))
    found = list(range(shared + 1, len(path)))
    if path[0] in _MLPS and shared == 1 and all(one[:2] == last[:2] for one in entered if one[:1] == path[:1]):
        found.insert(0, 2)
    return [*found, len(path)] if last and last[-1] in path[:-1] else found


_MLPS = ("mlp", "feed_forward", "ffn")


def _in_call_order(modules: Iterable[str]) -> list[str]:
    """The modules of a layer as its forward calls them: a norm of the layer itself before the attention, at the end, or
    between attention and MLP, as its name says."""
    return sorted(modules, key=_place_in_forward)


def _place_in_forward(module: str) -> int:
    """0 to 4. Families of transformers 5.23 agree on these names."""
    is_norm = "." not in module and ("norm" in module or module.startswith("ln_"))
    if not is_norm:
        return 3 if module.partition(".")[0] in (*_MLPS, "block_sparse_moe", "fc1", "fc2") else 1
    if module.startswith(("post_feedforward", "post_mlp", "post_ff", "output_", "final_")):
        return 4
    return 0 if module.startswith(_NORMS_BEFORE_ATTENTION) else 2


_NORMS_BEFORE_ATTENTION = (
    "input_",
    "ln_1",
    "norm_1",
    "operator_norm",
    "attention_",
    "attn_norm",
    "self_attn_layer_norm",
)


def _module_call(tensors: list[Tensor], parts: int, threshold: int) -> ModuleCall:
    """One of `parts` equal modules that own `tensors` together."""
    gathered = [t.numel for t in tensors for _ in range(t.copies // parts) if t.numel > threshold]
    persistent = sum(t.numel * t.copies // parts for t in tensors if t.numel <= threshold)
    return ModuleCall(tuple(gathered), persistent, frozen=not any(tensor.trainable for tensor in tensors))


def _module(tensor: Tensor, leaf: str) -> str:
    """The module that owns a tensor; an adapter matrix is a module of its own, but for those in a `leaf`."""
    if leaf and tensor.name.startswith(leaf + "."):
        return leaf
    return tensor.name if tensor.kind == "adapter" else tensor.name.rpartition(".")[0]


def _block_of_experts(unit: Unit) -> str:
    """The module of a layer that contains its experts; "" where there are none."""
    return next((one.name.partition(".")[0] for one in unit.tensors if _EXPERTS in one.name), "")


def _elements(unit: Unit) -> int:
    return sum(t.numel * t.copies for t in unit.tensors if not is_quantized(t))


def _largest(units: tuple[Unit, ...]) -> int:
    return max((t.numel for unit in units for t in unit.tensors if not is_quantized(t)), default=0)
