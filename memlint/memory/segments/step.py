"""The values that all segments of a run's training step share: sizes, kernels and dtypes.

`training_step` collects them; with them `memlint.memory.segments.of_model` turns the model's units into segments.
Counts are elements on one GPU and for one micro-batch; memory is in bytes.
"""

from __future__ import annotations

import memlint.memory.families.lookup as families
import memlint.memory.layers.elements as elements
import memlint.memory.sharding.model_parallel as parallel
import memlint.memory.sharding.packed_experts as packed_experts
from memlint._record import NamedTuple
from memlint.architectures.model import Architecture
from memlint.memory.autograd.ops import FP32_BYTES
from memlint.memory.autograd.profile import Profile
from memlint.memory.autograd.walk import Segment, TensorBytes
from memlint.memory.layers.elements import Tokens
from memlint.memory.layers.kernel_config import KernelConfig
from memlint.memory.loss.fused import LABELLED, LOGITS_BLOCK, TILE_COLUMNS, block_elements
from memlint.memory.loss.shape import (
    CHUNK,
    CHUNK_ROWS,
    HALF,
    LOGITS_ROW,
    LOGITS_ROWS_BEYOND,
    REST,
    SCORED,
    SCORED_ROW,
)
from memlint.memory.state.parameters import MissingValue, stacks_experts
from memlint.memory.state.storage import BYTES
from memlint.memory.values import Tensor, Unit, UnitState
from memlint.run import Run

COPY_PREFIX = "adapter_copy."  # of the names of copies that `modules_to_save` makes (parameters.py)


class TrainingStep(NamedTuple):
    """The values that all segments of one training step share. `counts`: number of elements by extent."""

    run: Run
    architecture: Architecture
    tokens: Tokens
    kernels: KernelConfig
    width: int  # bytes of one element of the residual stream as it leaves the embedding
    counts: dict[str, int]
    vocabulary: int
    mask_width: int = 0  # bytes of one element of eager attention's mask
    needs_gradient: bool = True  # False: the head runs under `no_grad`


def required_count(value: object, field: str, reason: str) -> int:
    """`value` as a count. Raises `MissingValue` with `field` and `reason` if it is unknown."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise MissingValue(field, reason)


def training_step(run: Run, units: tuple[Unit, ...], simulated: bool = False, sequences: int = 0) -> TrainingStep:
    """The values that the segments of a step share. Raises `MissingValue` if one is unknown.

    `simulated`: comparable to a step on fake tensors, without the memory that CUDA kernels allocate internally.
    `sequences`: sequences in one forward; 0: those of the run's micro-batch.
    """
    architecture: Architecture = run.model.architecture
    tokens = _tokens_of_forward(run, sequences)
    embedding = token_embedding(units[0])
    counts = _counts(run, tokens, embedding)
    kernels = kernel_config(run, simulated)
    width = _stream_width(architecture, BYTES[embedding.dtype], kernels.autocast_width)
    traits = families.of(architecture).attention
    mask_width = 1 if traits.mask_of_flags else BYTES[embedding.dtype] if traits.mask_before_norm else width
    differs = (has_streams(architecture) or traits.mask_of_flags) and mask_width != width
    widens = architecture.projected_embeddings or architecture.encoder_decoder  # later layers' streams may be wider
    if kernels.mask and (differs or widens):
        kernels = kernels._replace(mask_width=mask_width)
    return TrainingStep(run, architecture, tokens, kernels, width, counts, embedding.shape[0], mask_width)


def _tokens_of_forward(run: Run, sequences: int) -> Tokens:
    """The tokens of one forward on one GPU; `sequences` as for `training_step`. Raises `MissingValue`."""
    micro_batch = required_count(run.batch.micro_batch_size, "batch.micro_batch_size", "say the batch size per GPU")
    length = required_count(run.sequence.length, "sequence.length", "say the longest sequence")
    if not isinstance(run.checkpointing.mode, str):
        raise MissingValue("checkpointing.mode", "it is not known whether activations are checkpointed")
    required_count(run.method.texts_per_sample, "method.texts_per_sample", "say how many texts a sample has")
    if run.batch.max_tokens != 0 and not sequences:
        sequences = 1
        length = required_count(run.batch.max_tokens, "batch.max_tokens", "say how many tokens one forward takes")
    source = run.model.architecture.source_positions
    source = source or required_count(run.sequence.source_length, "sequence.source_length", "say the longest source")
    on_this_gpu = -(-length // parallel.activation_divisors(run).tokens)
    return Tokens(sequences or sequences_per_sample(run) * micro_batch, on_this_gpu, source)


def _counts(run: Run, tokens: Tokens, embedding: Tensor) -> dict[str, int]:
    """The number of elements by extent: those of the layers, and those of the embedding, the head and the loss."""
    architecture: Architecture = run.model.architecture
    hidden, vocabulary = architecture.hidden_size, embedding.shape[0]
    counts = elements.of_model(architecture, tokens, vocabulary)
    counts["source"] = tokens.sequences * tokens.source * hidden
    counts["source_rows"] = tokens.sequences * tokens.source
    counts["embedded"] = tokens.count * embedding.shape[-1]
    labelled = _completion_tokens(run, tokens, 0) if _scores_completions_alone(run) else tokens.count
    counts[LABELLED] = labelled * hidden
    _count_logits(counts, run, tokens, vocabulary)
    rows = chunk_rows(run, labelled, hidden, vocabulary)
    counts["logits_chunk"] = rows * vocabulary
    counts["logits_next_chunk"] = min(rows, max(0, labelled - rows)) * vocabulary
    counts["hidden_chunk"] = rows * hidden
    counts["logits_tile"] = rows * TILE_COLUMNS
    counts["head_tile"] = TILE_COLUMNS * hidden
    counts["rows_tile"] = rows * hidden
    counts[LOGITS_BLOCK] = block_elements(-(-labelled // tokens.sequences), vocabulary)
    return counts


def _count_logits(counts: dict[str, int], run: Run, tokens: Tokens, vocabulary: int) -> None:
    """Sets the extents of the logits and of their parts. `counts["logits"]`: those of all tokens on one GPU."""
    divisor = parallel.activation_divisors(run).logits
    counts["logits"] //= divisor
    counts[HALF] = counts["logits"] // 2
    counts[SCORED] = _scored_tokens(run, tokens) * vocabulary // divisor
    counts[SCORED_ROW] = -(-counts[SCORED] // tokens.sequences)
    if run.loss.compared_tokens and not run.loss.prompt_logits:
        counts["logits"] = min(counts["logits"], counts[SCORED])
    counts[CHUNK] = min(tokens.count, CHUNK_ROWS) * vocabulary
    counts[REST] = max(0, counts["logits"] - counts[CHUNK])
    if _scores_completions_alone(run):  # and of one token before them (trl 0.15.2 grpo_trainer.py:449)
        counts["logits"] = min(counts["logits"], _completion_tokens(run, tokens, 1) * vocabulary)
    counts[LOGITS_ROW] = -(-counts["logits"] // tokens.sequences)
    counts[LOGITS_ROWS_BEYOND] = max(0, 2 * counts[LOGITS_ROW] - counts["logits"])


def _stream_width(architecture: Architecture, embedded: int, autocast_width: int) -> int:
    """Bytes of one element of the residual stream as it leaves the embedding; `embedded`: of its table. Autocast runs
    a LayerNorm in fp32 and a linear layer in its own dtype."""
    if autocast_width and architecture.projected_embeddings:
        return autocast_width
    if autocast_width and has_streams(architecture):
        return FP32_BYTES  # autocast computes the magnitude that streams are brought to, a power, in fp32
    return FP32_BYTES if autocast_width and norm_of_embedding(architecture) == "layer" else embedded


def has_streams(architecture: Architecture) -> bool:
    """Whether layers hand on several residual streams."""
    return any(kind.streams > 1 for kind in architecture.layer_types)


def norm_of_embedding(architecture: Architecture) -> str:
    """Kind of the norm over the embedded tokens: that of the layers, or "" without one."""
    return architecture.layer_types[0].norm if architecture.embedding_norm else ""


def _scores_completions_alone(run: Run) -> bool:
    """Whether only the logits of completions are computed."""
    return bool(run.method.stage == "grpo" and run.sequence.max_new_tokens and not run.loss.prompt_logits)


def _scored_tokens(run: Run, tokens: Tokens) -> int:
    """The number of tokens whose log-softmax a loss over log-probabilities, or beside a teacher, computes."""
    if run.loss.compared_tokens:
        return tokens.sequences * min(tokens.length, run.loss.compared_tokens)
    return _completion_tokens(run, tokens, 0) if run.loss.scores_completions else tokens.count


def _completion_tokens(run: Run, tokens: Tokens, before: int) -> int:
    """The number of tokens of the completions in one forward, plus `before` tokens in front of each."""
    written = run.sequence.max_new_tokens
    return tokens.sequences * min(tokens.length, written + before) if isinstance(written, int) else tokens.count


def sequences_per_sample(run: Run) -> int:
    """Sequences in one step for each sample of the micro-batch: chosen and rejected, a prompt's completions, or the
    texts that are compared.

    GRPO's micro batch counts prompts, each with all its completions, up to trl 0.14 (grpo_trainer.py:335 and 417), and
    completions since 0.15 (grpo_trainer.py:468, RepeatRandomSampler).
    """
    if run.method.stage == "grpo" and () < run.stack.trl < (0, 15):
        return max(1, run.method.num_generations)
    if run.method.stage in _PAIRED_STAGES:
        return 2
    return run.method.texts_per_sample if isinstance(run.method.texts_per_sample, int) else 1


def token_embedding(unit: Unit) -> Tensor:
    """The token embedding that the forward reads: the trainable copy if `modules_to_save` made one."""
    found = [tensor for tensor in unit.tensors if tensor.kind == "embedding"]
    if found:
        return next((tensor for tensor in found if tensor.name.startswith(COPY_PREFIX)), found[0])
    raise MissingValue("model.architecture", "this architecture names no token embedding")


def kernel_config(run: Run, simulated: bool) -> KernelConfig:
    """Which kernels the step's layers run. Raises `MissingValue` where precision or attention is not known."""
    precision = run.precision
    compute = precision.compute
    if not isinstance(compute, str):
        raise MissingValue("precision.compute", "say whether training runs in bf16, fp16 or fp32")
    if not isinstance(precision.autocast, bool):
        raise MissingValue("precision.autocast", "it is not known whether autocast is on")
    implementation = run.attention.implementation
    if not isinstance(implementation, str):
        raise MissingValue("attention.implementation", "say the attention implementation")
    autocast_width = BYTES[compute] if precision.autocast else 0
    if families.of(run.model.architecture).attention.eager_only:
        implementation = "eager"
    liger = liger_layers(run)
    return KernelConfig(
        autocast_width=autocast_width,
        attention=implementation,
        kernel_memory=not simulated,
        mask=implementation == "eager",
        bfloat16=compute == "bfloat16",
        liger=liger != "",
        experts=_expert_implementation(run),
        delta_rule=_delta_rule_implementation(run),
        scan=_scan_implementation(run),
        fused_adapters=run.method.fused_adapters,
        softmax_keeps_dtype=_softmax_keeps_dtype(run),
        returns_weights=families.of(run.model.architecture).attention.returned_weights.include(run.stack.transformers),
        softmax_keeps_input=() < run.stack.torch < _SOFTMAX_BY_ITS_RESULT_SINCE,
        gated_kernel=not run.stack.use_unsloth,
        dequantized_width=_dequantized_width(run),
        moves_attention=run.parallelism.sequence_parallel_size * run.parallelism.context_parallel_size > 1,
        ring=run.parallelism.context_parallel_size,
        keeps_linear_inputs=_keeps_linear_inputs(run),
        mixes_halves=_mixes_halves(run),
        keeps_stacks=packed_experts.outlive_their_gathering(run),
        float8="" if precision.fp8 == "none" else precision.fp8,
        unpacks_with=_UNPACKS_WITH if run.model.quantization.method == "torchao" else 0,
        norms_in_place=liger != "out_of_place",
        caches_fused_parts=run.checkpointing.mode == "none" and _caches_fused_parts(run.model.architecture),
    )


# torchao 0.9 dtypes/nf4tensor.py, get_original_weight: int64 indexes of both halves, their values in half precision,
# and both scaled, until all are stacked.
_UNPACKS_WITH = 8 + 2 + 2

# Before, `_softmax_backward_data` got the input, for its dtype alone (transformers 4.25.1 pytorch_utils.py:45).
_SOFTMAX_BY_ITS_RESULT_SINCE = (1, 11)


def caches_keys(architecture: Architecture) -> bool:
    """Whether the language model of an image-text model caches its keys and values in a training step."""
    return bool(architecture.towers) and not families.of(architecture).vision.passes_use_cache


def _caches_fused_parts(architecture: Architecture) -> bool:
    return caches_keys(architecture) and any(kind.attention.fused_qkv for kind in architecture.layer_types)


def _keeps_linear_inputs(run: Run) -> bool:
    """Whether linear layers save their input even for a frozen weight. ZeRO-3 permanently replaces
    `torch.nn.functional.linear` by a function that does (deepspeed 0.19.8 runtime/zero/linear.py:100-105,
    LinearFunctionForZeroStage3.setup_context; partition_parameters.py:412)."""
    zero = run.parallelism.zero
    return run.parallelism.engine == "deepspeed" and zero.stage == 3 and zero.memory_efficient_linear


def _expert_implementation(run: Run) -> str:
    """How this run computes a layer's experts: grouped_mm, copied (one by one out of the stack), loop (linears), host
    (on the CPU), or a kernel that replaces grouped_mm."""
    if run.stack.use_ktransformers:
        return "host"
    if families.of(run.model.architecture).experts.copied.include(run.stack.transformers):
        return "copied"
    return (run.stack.expert_kernel or "grouped_mm") if stacks_experts(run) else "loop"


def _dequantized_width(run: Run) -> int:
    """Bytes of an element of experts that Axolotl quantised on load, once dequantised: 4-bit ones take the dtype that
    they were loaded in, 8-bit ones fp32 (bitsandbytes 0.50.2 functional.py:941 and _ops.py:119)."""
    quantization = run.model.quantization
    if not quantization.experts_on_load:
        return 0
    return 4 if quantization.bits > 4 else BYTES[str(run.model.weights_dtype)]


def _mixes_halves(run: Run) -> bool:
    """Whether experts have one half precision and router scores the other. Autocast casts the router's product, but
    leaves grouped products in the dtype of the experts (transformers 5.23 integrations/moe.py:373). Engines that cast
    weights themselves give both the same dtype."""
    weights = run.precision.trainable_dtype if run.method.kind == "full" else run.model.weights_dtype
    alone = run.parallelism.engine in ("single", "ddp") and run.precision.autocast is True
    return alone and {run.precision.compute, weights} == {"float16", "bfloat16"}


def _softmax_keeps_dtype(run: Run) -> bool:
    """Whether eager attention's softmax computes in the dtype of the scores in this release, not in fp32."""
    traits = families.of(run.model.architecture).attention
    upcast = traits.softmax_upcasts_fp16 and run.precision.compute == "float16"
    return traits.softmax_kept_dtype.include(run.stack.transformers) and not upcast


def _delta_rule_implementation(run: Run) -> str:
    """The implementation of the gated delta rule: fla's kernels, or transformers' own code, which solved row by row in
    a loop before 5.17 (models/qwen3_5/modeling_qwen3_5.py, torch_chunk_gated_delta_rule, of 5.16.0 and 5.17.0)."""
    if run.stack.linear_attention in ("fla", "kernels"):
        return "fla"
    return "loop" if () < run.stack.transformers < (5, 17) else "torch"


def _scan_implementation(run: Run) -> str:
    """The implementation of Mamba 2's scan: mamba_ssm's kernel, or transformers' own code.

    Before 5.18 transformers' code kept the product of every position with every other one's states
    (models/granitemoehybrid of 5.14.0: 17 GB per layer for 2,048 tokens). Training with that is impossible, so a run on
    such a release is assumed to have the kernel.
    """
    version = run.stack.transformers
    return "kernel" if run.stack.linear_attention == "kernels" or () < version < (5, 18) else "torch"


def liger_layers(run: Run) -> str:
    """How decoder layers run Liger's or Unsloth's kernels: "" (not), in_place (norms write their gradient over the
    incoming one), or out_of_place (norms allocate a new one)."""
    if run.stack.use_unsloth:
        return "in_place"
    return families.of(run.model.architecture).liger.layers if run.loss.liger_kernels else ""


def autograd_owns_grads(run: Run, unit_state: UnitState) -> bool:
    """Whether gradients of parameters remain the tensors that autograd made, so that no engine moves them."""
    return unit_state.gradient_kept > 0 and run.parallelism.engine in ("single", "ddp")


def segment(profile: Profile, sizes: TensorBytes, unit_state: UnitState, repeat: int = 1) -> Segment:
    return Segment(
        profile,
        sizes,
        repeat,
        unit_state.gathered_forward,
        unit_state.gathered_backward,
        unit_state.gradient_live,
        unit_state.gradient_kept,
        unit_state.gradient_end,
        unit_state.moments,
        gathered_entering=unit_state.gathered_entering,
    )


# Chosen and rejected sequences go through one forward.
_PAIRED_STAGES = ("dpo", "online_dpo", "orpo", "cpo", "simpo", "ipo", "rm")


def chunk_rows(run: Run, tokens: int, hidden: int, vocabulary: int) -> int:
    """The number of tokens whose logits a fused loss holds at once.

    Liger: tokens / ceil(vocabulary / hidden), rounded up to a power of two (liger_kernel 0.8.5
    ops/fused_linear_cross_entropy.py). Chunked losses have a setting for it. Cut cross entropy holds one block.
    """
    if run.loss.parts and run.loss.kind == "plain":
        return -(-tokens // run.loss.parts)
    if run.loss.chunk_tokens:
        return min(tokens, run.loss.chunk_tokens)
    if run.loss.kind == "cut":
        return 128
    parts = -(-vocabulary // hidden)
    return int(min(tokens, 1 << max(0, (-(-tokens // parts) - 1).bit_length())))
