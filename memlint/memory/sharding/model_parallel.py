"""What tensor, pipeline, context, expert and sequence (Ulysses) parallelism divide, and what they leave whole.

Parameters first become what one GPU of a model-parallel group holds (`shard_units`); ZeRO, FSDP or DDP then share
those over the data-parallel ranks. Activations are divided by `activation_divisors`.
"""

from __future__ import annotations

from memlint._record import NamedTuple
from memlint.identity_cache import IdentityCache
from memlint.memory.state.storage import BYTES
from memlint.memory.values import Tensor, Unit, with_tensors
from memlint.run import SERVERS, Run

_EXPERTS = ".experts."
# Biases of matrices that are divided by their inputs: every rank adds the whole of one.
_ROW_PARALLEL_BIASES = ("o_proj.bias", "down_proj.bias", "dense.bias", "fc2.bias", "linear_proj.bias")
_COMPUTED = IdentityCache(32)  # by units and dtype, so that what is cached by a layer's tensors is found again


def in_compute_dtype(run: Run, units: tuple[Unit, ...]) -> tuple[Unit, ...]:
    """The units in the dtype that operations read: DeepSpeed casts every floating parameter to its half dtype,
    FSDP's mixed precision gathers in it. Nothing is left for autocast to cast or cache then. Under FSDP1 frozen weights
    may need gradients."""
    engine = run.parallelism.engine
    if engine not in ("deepspeed", "fsdp"):
        return _mixed_halves_as_fp32(run, units)
    from memlint.memory.sharding.fsdp.plan import compute_dtype, with_flat_gradients
    from memlint.memory.sharding.zero.layout import engine_dtype, is_quantized

    dtype = engine_dtype(run) if engine == "deepspeed" else compute_dtype(run)

    def computed(tensor: Tensor) -> Tensor:
        return tensor if is_quantized(tensor) else _in_dtype(tensor, dtype)

    found: tuple[Unit, ...] = _COMPUTED.get(units, dtype) or _COMPUTED.put(with_tensors(units, computed), units, dtype)
    return with_flat_gradients(run, found) if engine == "fsdp" else found


_OTHER_HALF_DTYPE = {"float16": "bfloat16", "bfloat16": "float16"}


def _mixed_halves_as_fp32(run: Run, units: tuple[Unit, ...]) -> tuple[Unit, ...]:
    """Frozen weights in the half-precision dtype that autocast does not compute in (fp16 under bf16 autocast, or the
    reverse) count as fp32: each product casts a copy, and its result is added to a residual stream in the other dtype,
    which PyTorch promotes to fp32 (torch 2.13 c10/core/ScalarType.cpp,
    promoteTypes). LLaMA-Factory loads `auto` since 0.9.4, whatever `fp16` says. Stacked experts compute in their own
    dtype (transformers 5.23 integrations/moe.py, `_grouped_mm`)."""
    other = _OTHER_HALF_DTYPE.get(str(run.precision.compute)) if run.precision.autocast else None
    if other is None or run.model.weights_dtype != other:
        return units
    return with_tensors(units, lambda tensor: _as_fp32(tensor, other))


def _as_fp32(tensor: Tensor, other: str) -> Tensor:
    is_promoted = tensor.dtype == other and not tensor.trainable and tensor.kind != "experts"
    return tensor._replace(dtype="float32") if is_promoted else tensor


def _in_dtype(tensor: Tensor, dtype: str) -> Tensor:
    if tensor.dtype == dtype:
        return tensor
    return tensor._replace(dtype=dtype, stored_bytes=tensor.numel * BYTES[dtype])


class Divisors(NamedTuple):
    """What one GPU's activations are divided by, and how many micro-batches it holds at once.

    `tokens` divides every tensor along the sequence (context parallelism, Ulysses; Ulysses' attention has all tokens
    but that share of the heads, which comes to the same). `inner` divides what stands between a column-parallel and
    a row-parallel matrix: query, key, value, attention, the MLP's intermediate. `logits` divides the vocabulary.
    `residual` divides norms and residuals (Megatron's sequence parallelism, which no format
    here can express yet: 1). Experts spread over GPUs each see, in a balanced run, as many tokens as without.
    """

    tokens: int = 1
    inner: int = 1
    logits: int = 1
    residual: int = 1
    in_flight: int = 1


def stages(run: Run) -> tuple[int, ...]:
    """The pipeline stages that may be the fullest: the first (most micro-batches in flight), the last (logits), and the
    second where these two have fewer layers."""
    shared = run.parallelism
    size = shared.pipeline_parallel_size
    if size <= 1:
        return (0,)
    is_uneven = bool(shared.first_stage_layers or shared.last_stage_layers)
    return (0, 1, size - 1) if is_uneven and size > 2 else (0, size - 1)


def shard_units(run: Run, units: tuple[Unit, ...], stage: int = 0) -> tuple[Unit, ...]:
    """The units as one GPU of pipeline stage `stage` holds them, before data parallelism. Unit order stays; a unit of
    another stage keeps no tensors."""
    parallel = run.parallelism
    if parallel.pipeline_parallel_size > 1:
        units = _pipeline(run, units, stage)
    if parallel.tensor_parallel_size == 1 and parallel.expert_parallel_size == 1 and tensor_ranks_of_experts(run) == 1:
        return units
    return with_tensors(units, lambda tensor: _shard(run, tensor))


def activation_divisors(run: Run, stage: int = 0) -> Divisors:
    """How the walk over one micro-batch shrinks on one GPU.

    Logits stay whole in Hugging Face models, whose plan gathers the head's output (`colwise_gather_output`,
    transformers 5.23 modeling_llama.py:412), and are divided in Megatron's vocabulary-parallel loss. One-forward-
    one-backward keeps as many micro-batches as stages follow, itself included, bounded by the accumulation.
    """
    parallel = run.parallelism
    megatron = parallel.engine == "megatron"
    tensor = parallel.tensor_parallel_size
    return Divisors(
        tokens=parallel.context_parallel_size * parallel.sequence_parallel_size,
        inner=tensor,
        logits=tensor if megatron else 1,
        residual=1,
        in_flight=_in_flight(run, stage),
    )


def _in_flight(run: Run, stage: int) -> int:
    following = run.parallelism.pipeline_parallel_size - stage
    batches = run.batch.gradient_accumulation_steps
    return max(1, min(following, batches)) if isinstance(batches, int) else max(1, following)


def tensor_ranks_of_experts(run: Run) -> int:
    """GPUs that share each expert."""
    return run.parallelism.expert_tensor_parallel_size or run.parallelism.tensor_parallel_size


def _pipeline(run: Run, units: tuple[Unit, ...], stage: int) -> tuple[Unit, ...]:
    """The layers of one stage. The first stage has the embedding and the towers, the last one the head."""
    layers, size = sum(unit.repeat for unit in units if unit.name == "layer"), run.parallelism.pipeline_parallel_size
    left, right = _layers_of(run, layers, stage)
    found: list[Unit] = []
    position = 0
    for index, unit in enumerate(units):
        if unit.name == "layer":
            inside = max(0, min(right, position + unit.repeat) - max(left, position))
            position += unit.repeat
            found.append(unit._replace(repeat=inside) if inside else unit._replace(tensors=(), repeat=1))
            continue
        last = index == len(units) - 1
        here = stage == size - 1 if last else stage == 0
        found.append(unit if here else unit._replace(tensors=()))
    return tuple(found)


def _layers_of(run: Run, layers: int, stage: int) -> tuple[int, int]:
    """The layers of one stage, from and to (the larger share where they do not divide evenly). The first and the last
    stage may have others than the rest (megatron core 0.13 transformer/transformer_block.py,
    get_num_layers_to_build)."""
    shared = run.parallelism
    first, last, size = shared.first_stage_layers, shared.last_stage_layers, shared.pipeline_parallel_size
    others = size - bool(first) - bool(last)
    share = -(-max(0, layers - first - last) // others) if others > 0 else 0
    before = first or share
    left = 0 if stage == 0 else before + (stage - 1) * share
    if stage == size - 1 and last:
        return max(0, layers - last), layers
    return min(left, layers), min(layers - last, left + (before if stage == 0 else share))


def is_expert(tensor: Tensor) -> bool:
    """Whether a tensor belongs to the routed experts of a layer: their stacks, and adapters upon them."""
    return tensor.kind == "experts" or _EXPERTS in tensor.name


def _shard(run: Run, tensor: Tensor) -> Tensor:
    parallel = run.parallelism
    experts = is_expert(tensor)
    if experts and (parallel.expert_parallel_size > 1 or parallel.expert_tensor_parallel_size):
        return _divide_experts(tensor, parallel.expert_parallel_size, tensor_ranks_of_experts(run))
    return _divide(tensor, parallel.tensor_parallel_size) if _is_split(run, tensor, experts) else tensor


def _is_split(run: Run, tensor: Tensor, experts: bool) -> bool:
    """Whether tensor parallelism splits a tensor. Norms, routers and biases of row-parallel matrices stay whole.
    Megatron, vLLM, SGLang (vocabulary) and DeepSpeed (hidden size) split the embedding, transformers' plans do not, nor
    those of frameworks that take them as they are."""
    if experts or tensor.kind in ("linear", "head"):
        return True
    if tensor.kind == "embedding":
        return run.parallelism.divides_embedding or run.parallelism.engine in ("megatron", "deepspeed", *SERVERS)
    if tensor.kind == "bias":
        return not tensor.name.endswith(_ROW_PARALLEL_BIASES)
    return False


def _divide_experts(tensor: Tensor, expert_parallel: int, tensor_parallel: int) -> Tensor:
    """Whole experts on each GPU: fewer copies, or fewer along the first dimension of a stacked tensor."""
    if tensor.copies > 1:
        return _divide(tensor._replace(copies=-(-tensor.copies // expert_parallel)), tensor_parallel)
    return _divide(tensor, expert_parallel * tensor_parallel)


def _divide(tensor: Tensor, parts: int) -> Tensor:
    if parts == 1:
        return tensor
    numel = -(-tensor.numel // parts)
    shape = (-(-tensor.shape[0] // parts), *tensor.shape[1:]) if tensor.shape else tensor.shape
    return tensor._replace(numel=numel, shape=shape, stored_bytes=-(-tensor.stored_bytes // parts))
