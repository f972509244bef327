"""Unsloth: what its patched layers save, and the lowest and the highest peak among its releases.

Read in unsloth 2024.8, 2024.11.11, 2025.3.19, 2025.6.12, 2025.9.11, 2025.12.10 and 2026.10.9 with the unsloth_zoo of
their time. Its kernels need a GPU; fused_adapter.py says what was run without one. A config names no release, and what
a release does depends on other packages and on free memory. So the answer is an interval:

- layers: projections run with their adapters in one function that keeps its input once (kernels/fast_lora.py, the code
  that Axolotl's came from), norms and rotary embedding are kernels (kernels/rms_layernorm.py, rope_embedding.py).
  Releases before 2026 run PEFT's code where adapters have dropout (2025.9.11 models/llama.py:2821), xformers copies
  keys and values to all heads (:525-532), and Gemma's norms make a gradient of their own (rms_layernorm.py:187);
- checkpoints: inputs of recomputed layers are kept in pinned host memory where a script says so, as LLaMA-Factory does
  (`use_gradient_checkpointing="unsloth"`; zoo gradient_checkpointing.py, UnslothCheckpointFunction);
- loss: the cross entropy runs over logits that exist and writes their gradient over them (2024.8 models/llama.py:904,
  cut cross entropy where it is installed from 2024.11.8 on, on Ampere and later), from 2025.8 on in compiled chunks
  whose number follows the free memory: one of all tokens while there is room (zoo fused_losses/cross_entropy_loss.py,
  get_chunk_size), whose gradient the compiler writes over the logits. Accelerate makes fp32 of logits that are returned
  (github.com/unslothai/unsloth issue 465 died there);
- GRPO: the head multiplies the completions' hidden states in chunks inside of one compiled function, whose backward
  reads the logits of all chunks in half precision (zoo 2026.8 rl_replacements.py,
  chunked_hidden_states_selective_log_softmax; what AOTAutograd keeps of it: benchmarks/referee/unsloth_grpo.py). Until
  2025.10 the gradients of one sequence's logits were made at once (UnslothEfficientGRPO), and releases since then
  split a micro-batch into as few forwards as the free memory asks for, one row in each at least
  (autotune_batch_and_chunks);
- families without a forward of its own: transformers' code, compiled, with the loss and the checkpoints above
  (2025.9.11 models/loader.py, FastModel; zoo compiler.py). Compiled code keeps what the eager code does or less, so
  transformers' code with PEFT's is the upper end. Where a card has no bfloat16, some families compute in fp32
  (2026.10.9 loader.py, FORCE_FLOAT32). Experts that transformers 5 stacks stay in 16 bits until a release that packs
  them as well (zoo 2026.10.9 temporary_patches/moe_utils_bnb4bit.py; not in that of 2026.4.4, see
  benchmarks/data/published_figures.jsonl);
- full fine-tuning: every family goes that way (loader.py hands it to FastModel), in bfloat16 without autocast, weights,
  gradients and states alike, unless fp32 weights are asked for (2026.10.9 models/rl.py:2682, vision.py:4024). In
  float16 weights become fp32 under autocast (zoo training_utils.py, prepare_model_for_training). The newest keeps
  norms in fp32 and wraps the forward in autocast, so that what they return is fp32;
- preferences: TRL's losses pass no labels, and a forward without them returns whole logits (2026.10.9
  models/llama.py:2070-2185, zoo compiler.py:3675); the newest can score hidden states in chunks instead
  (models/dpo.py, UNSLOTH_FUSED_PREFERENCE_LOSS). GRPO of the families above asks their forward for hidden states, and
  one that was not rewritten returns logits (zoo compiler.py:3523, models/rl_replacements.py:4336);
- weights: in 4 bits a Hub name may stand for an `-unsloth-bnb-4bit` copy with some layers in 16 bits (mapper.py); one
  whole weight stays as a buffer (kernels/utils.py, WEIGHT_BUFFERS, from 2025.2 on); the newest moves an embedding that
  the head does not share to the host (2026.10.9 models/_utils.py:9719).
"""

from __future__ import annotations

import memlint.memory.card.device as device
import memlint.memory.evaluation as evaluation
import memlint.memory.families.lookup as families
from memlint.architectures.model import Architecture
from memlint.memory.phases import phases
from memlint.memory.segments.step import TrainingStep, training_step
from memlint.memory.state.parameters import MissingValue, stacks_experts
from memlint.memory.state.storage import BYTES, rounded
from memlint.memory.values import ModelState, Phase, Tensor, Unit
from memlint.run import UNKNOWN, Maybe, Run, replace

_FUSED_GROUPS = ("qkv", "o", "mlp")
_PREFERENCES = ("dpo", "orpo", "kto", "cpo", "simpo", "ipo")
_STAGES = ("pt", "sft", "grpo", *_PREFERENCES)
_STAGES_OF_FULL_TRAINING = ("pt", "sft")
_HALF = ("bfloat16", "float16")
_ADDS_IN_PLACE_SINCE = (2025, 3, 5)
_CHUNKED_LOSS_SINCE = (2025, 8, 5)
_TRANSFORMERS_BEFORE = (4, 55)  # the newest before that release (its pyproject.toml refuses 4.55.0 and 4.55.1)

# Share of the linear parameters that a dynamic 4-bit copy holds in 16 bits, at most: 0.2 in unsloth/Qwen2.5-7B-unsloth-
# bnb-4bit (7.54 GB of files, 5.55 without), 0.16 in Qwen2-VL-2B (unsloth.ai/blog/dynamic-4bit: 1.81 and 1.36 GB), 0.6
# in QwQ-32B (4.8 GB in each of ten files, 19.2 GB without), 0.04 and 0.01 in gpt-oss 20B and 120B (12.81 and 59.27 GiB
# reserved after loading, 11.68 and 57.86 without: the notebooks of benchmarks/data/published_figures.jsonl).
_DYNAMIC_SHARE = 0.25
_DYNAMIC_SHARES = {"qwq-32b": 0.65, "gpt-oss": 0.06}


def refuse(run: Run) -> None:
    """Raises `MissingValue` where Unsloth's code for the run is not modelled."""
    architecture: Architecture = run.model.architecture
    quantization = run.model.quantization
    method = run.method
    if run.purpose != "train":
        raise _not_modelled("inference with Unsloth's own kernels is not modelled")
    if any(layer.attention.kind == "mamba2" for layer in architecture.layer_types):
        raise _not_modelled("which code runs Mamba layers under Unsloth depends on what is installed")
    if method.kind not in ("lora", "full") or method.use_dora:
        raise _not_modelled("of what Unsloth trains only plain LoRA and full fine-tuning are modelled")
    trains_all = method.kind == "full"
    if method.stage not in (_STAGES_OF_FULL_TRAINING if trains_all else _STAGES):
        how = " with all weights trained" if trains_all else ""
        raise _not_modelled(f"stage {method.stage}{how} under Unsloth is not modelled")
    if trains_all and quantization.method != "none":
        raise _not_modelled("Unsloth loads weights that all train in 16 bits or more, whatever the run says")
    bits: Maybe[float] = quantization.bits
    if bits is UNKNOWN:
        raise MissingValue("model.quantization.bits", "in how many bits Unsloth loads the weights is not known")
    if quantization.method not in ("none", "bnb") or quantization.bits not in (4, 16):
        raise _not_modelled(f"Unsloth on {quantization.method} weights of {quantization.bits:g} bits is not modelled")
    if run.parallelism.engine not in ("single", "ddp"):
        raise _not_modelled(f"Unsloth under {run.parallelism.engine} is not modelled")
    if run.precision.compute not in _HALF:
        raise _not_modelled("Unsloth in full precision is not modelled")


def _is_compiled(run: Run) -> bool:
    """Whether Unsloth compiles transformers' code for the model, and runs none of its own."""
    architecture: Architecture = run.model.architecture
    own_forward = families.of(architecture).unsloth.own_forward and not architecture.towers
    return not own_forward or run.method.kind == "full"


def _not_modelled(reason: str) -> MissingValue:
    return MissingValue("stack.use_unsloth", reason)


def as_patched(run: Run) -> Run:
    """The run as the newest Unsloth computes it when memory is short. Runs without Unsloth are returned unchanged."""
    if not run.stack.use_unsloth or run.purpose != "train" or run.method.kind not in ("lora", "full"):
        return run
    compute = run.precision.compute
    changes: dict[str, object] = {
        "attention.implementation": _attention(run, least=True),
        "checkpointing.reentrant": True,
        "loss.kind": _loss(run),
        "loss.selection": "",
        "loss.liger_kernels": False,
        "loss.upcast_logits": False,
        "method.fused_adapters": _fused_groups(run),
        "model.quantization.upcast_rest_to_fp32": False,
        "model.quantization.vocabulary_to_bf16": False,
    }
    if run.checkpointing.unsloth_offloads:
        changes |= {"checkpointing.mode": "unsloth", "checkpointing.offload": True}
    if run.method.kind == "full":
        changes |= _trained_weights(run)
    elif compute in _HALF:
        changes["model.weights_dtype"] = compute
    if run.model.quantization.method == "bnb":
        changes["model.quantization.stacked_experts"] = True
        changes["model.quantization.double_quant"] = True  # BitsAndBytesConfig, 2025.9.11 models/llama.py:1987
    return replace(run, changes)


def _loss(run: Run) -> str:
    if run.method.stage in _PREFERENCES:
        return "plain"
    return "fused_ce" if run.method.stage == "grpo" else "unsloth"


def _trained_weights(run: Run) -> dict[str, object]:
    """In what dtype all weights are held, trained and computed with."""
    in_fp32 = run.precision.compute == "float16" or run.model.weights_dtype == "float32"
    dtype = "float32" if in_fp32 else "bfloat16"
    return {
        "model.weights_dtype": dtype,
        "precision.trainable_dtype": dtype,
        "precision.autocast": in_fp32,
        "precision.outputs_to_fp32": in_fp32,
    }


def _attention(run: Run, least: bool) -> str:
    """What computes attention in a layer, of what may be installed that which takes the least or the most memory."""
    found = families.of(run.model.architecture).unsloth.attention or ("sdpa", "sdpa")
    return found[0] if least else found[1]


def _fused_groups(run: Run) -> tuple[str, ...]:
    """The projections that run with their adapters in one function."""
    if _is_compiled(run):
        return ()
    return _FUSED_GROUPS[1:] if families.of(run.model.architecture).unsloth.query_bias else _FUSED_GROUPS


def peak_interval(run: Run, units: tuple[Unit, ...], state: ModelState, found: tuple[Phase, ...]) -> tuple[int, int]:
    """The lowest and the highest peak among releases, bytes. `found`: the phases of `run`, a result of `as_patched`."""
    central = max(phase.allocated_bytes for phase in found)
    return min(_lowest_peak(run, units, state), central), max(_highest_peak(run, units, state), central)


def possible_logits(step: TrainingStep) -> int:
    """Bytes of all logits in fp32, 0 where no release that the run may use builds them whole."""
    return 0 if _chunks(step) else 4 * step.counts["logits"]


def _lowest_peak(run: Run, units: tuple[Unit, ...], state: ModelState) -> int:
    changes: dict[str, object] = {"checkpointing.mode": "unsloth", "checkpointing.offload": True}
    changes |= {"batch.micro_batch_size": 1} if run.method.stage == "grpo" else {}
    changes |= {"method.fused_adapters": _FUSED_GROUPS} if run.method.kind == "lora" else {}
    least_run = replace(run, changes | {"loss.kind": "cut"})
    on_host = 0 if run.rollout.shares_weights else _input_embedding(run, units)
    return _peak(training_step(least_run, units), least_run, units, state._replace(weights=state.weights - on_host))


def _highest_peak(run: Run, units: tuple[Unit, ...], state: ModelState) -> int:
    state = _with_16_bit_weights(run, units, state)
    return max(_highest_peak_with(loss, run, units, state) for loss in _losses_that_may_run(run))


def _losses_that_may_run(run: Run) -> tuple[str, ...]:
    if run.method.stage in _PREFERENCES:
        return ("plain",)
    hands_out_logits = run.method.stage == "grpo" and _is_compiled(run)
    return ("fused_ce", "plain") if hands_out_logits else ("fused_ce",)


def _highest_peak_with(loss: str, run: Run, units: tuple[Unit, ...], state: ModelState) -> int:
    changes: dict[str, object] = {"checkpointing.offload": False, "loss.kind": loss}
    changes["attention.implementation"] = _attention(run, least=False)
    if run.method.dropout:
        changes["method.fused_adapters"] = ()
    if run.method.stage in _PREFERENCES:
        changes["precision.outputs_to_fp32"] = True
    if _is_compiled(run):
        changes |= _eager_code(run)
        units = _as_computed(run, units)
    most_run = replace(run, changes)
    # A padded batch gets a mask of numbers where nothing trains, with which no fused kernel groups heads
    # (2025.9.11 models/llama.py:802-813, :556).
    evaluation_run = replace(most_run, {"attention.implementation": "eager"})
    step = training_step(most_run, units)
    if _chunks(step) and run.method.stage != "grpo":
        most_run = replace(most_run, {"precision.outputs_to_fp32": False})  # nothing is returned to be made fp32
        evaluation_run = replace(evaluation_run, {"loss.kind": "cut"})
        step = _with_chunked_logits(step._replace(run=most_run), state)
    kernels = step.kernels._replace(
        norms_in_place=False, expands_kv_heads=True, adapter_output_is_separate=_adapter_output_is_separate(run)
    )
    step = step._replace(kernels=kernels)
    return _peak(step, evaluation_run, units, state) + _outputs_of_fp32_norms(step)


def _outputs_of_fp32_norms(step: TrainingStep) -> int:
    """Bytes of a norm's output, of its gradient and of the next norm's output where full training in bfloat16 has
    norms in fp32: autocast copies what follows to bfloat16, and keeps the copy alone."""
    run = step.run
    if run.method.kind != "full" or run.precision.trainable_dtype != "bfloat16":
        return 0
    return 3 * BYTES["float32"] * step.tokens.count * int(run.model.architecture.hidden_size)


def _eager_code(run: Run) -> dict[str, object]:
    """What makes the run one of transformers' and PEFT's code as they are, which compiled code does not exceed."""
    changes: dict[str, object] = {
        "stack.use_unsloth": False,
        "checkpointing.mode": "none" if run.checkpointing.mode == "none" else "full",
    }
    if run.precision.compute == "float16":
        changes |= {"precision.compute": "float32", "precision.autocast": False}
    return changes


def _as_computed(run: Run, units: tuple[Unit, ...]) -> tuple[Unit, ...]:
    """The units with the dtype that eager code computes in: fp32 instead of float16, as some families need."""
    if run.precision.compute != "float16":
        return units
    return tuple(
        unit._replace(
            tensors=tuple(
                tensor._replace(dtype="float32") if tensor.dtype == "float16" else tensor for tensor in unit.tensors
            )
        )
        for unit in units
    )


def _with_16_bit_weights(run: Run, units: tuple[Unit, ...], state: ModelState) -> ModelState:
    """The state with the weights that releases may hold in 16 bits although the run asks for 4."""
    extra = _largest_weight(units)
    if not run.rollout.shares_weights:
        extra += max(_dynamic_16_bit_bytes(run, units), _bytes_over_4_bits(_stacks(run, units)))
    return state._replace(weights=state.weights + extra, load_peak=state.load_peak + extra)


def _peak(step: TrainingStep, evaluation_run: Run, units: tuple[Unit, ...], state: ModelState) -> int:
    found, _ = phases(step, units, state)
    if evaluation_run.evaluation.enabled is True:
        found += (evaluation.evaluation(evaluation_run, units, state, simulated=False),)
    return max(phase.allocated_bytes for phase in found)


_MAX_UNCHUNKED_TOKENS = 1024  # up to this many, logits were whole until 2025.12 (2025.9.11 models/llama.py:1199)


def _chunks(step: TrainingStep) -> bool:
    """Whether no release that the run may use builds whole logits in fp32."""
    run = step.run
    if run.method.stage in _PREFERENCES:
        return False
    return run.method.stage == "grpo" or (_loss_in_chunks(run) and step.tokens.count > _MAX_UNCHUNKED_TOKENS)


def _loss_in_chunks(run: Run) -> bool:
    """Whether the release chunks the loss. Without a release in the run, the transformers release decides."""
    if run.stack.unsloth:
        return run.stack.unsloth >= _CHUNKED_LOSS_SINCE
    return not () < run.stack.transformers < _TRANSFORMERS_BEFORE


def _adapter_output_is_separate(run: Run) -> bool:
    """Whether an adapter's output is a tensor of its own: before `addmm_` (kernels/utils.py, matmul_lora; in 2025.3.5,
    not in 2025.2.15)."""
    return run.stack.unsloth < _ADDS_IN_PLACE_SINCE if run.stack.unsloth else not _loss_in_chunks(run)


def _with_chunked_logits(step: TrainingStep, state: ModelState) -> TrainingStep:
    """A chunk's fp32 logits would take at most what is free as the first loss runs, and bf16 ones are all that there is
    of them (get_chunk_size: half of it is the target, of which the count is rounded)."""
    usable = device.usable_bytes(step.run)
    logits = step.counts["logits"]
    if usable:
        logits = min(logits, max(0, usable - state.weights) // 4)
    return step._replace(counts={**step.counts, "logits": logits})


def _input_embedding(run: Run, units: tuple[Unit, ...]) -> int:
    """Bytes of the frozen embeddings that a release may keep on the host."""
    if run.model.architecture.tied_embeddings:
        return 0
    return sum(rounded(t.stored_bytes) for t in units[0].tensors if t.kind == "embedding" and not t.trainable)


def _quantized_weights(units: tuple[Unit, ...]) -> list[tuple[int, Tensor]]:
    """The 4-bit base weights of decoder layers, each with the number of its copies in the model."""
    return [
        (unit.repeat * tensor.copies, tensor)
        for unit in units
        for tensor in unit.tensors
        if unit.name == "layer" and tensor.stored_bytes < tensor.numel
    ]


def _largest_weight(units: tuple[Unit, ...]) -> int:
    return max((rounded(2 * tensor.numel) for _, tensor in _quantized_weights(units)), default=0)


def _dynamic_16_bit_bytes(run: Run, units: tuple[Unit, ...]) -> int:
    """Bytes that a dynamic 4-bit copy holds beyond 4 bits; 0 for a folder, and for a plain copy that the run names."""
    name = str(run.model.name).lower()
    is_plain_copy = name.endswith("-bnb-4bit") and not name.endswith("-unsloth-bnb-4bit")
    if run.model.quantization.method != "bnb" or is_plain_copy or name.count("/") != 1 or name[:1] in "./~":
        return 0
    share = next((value for part, value in _DYNAMIC_SHARES.items() if part in name), _DYNAMIC_SHARE)
    return int(share * _bytes_over_4_bits(_quantized_weights(units)))


def _stacks(run: Run, units: tuple[Unit, ...]) -> list[tuple[int, Tensor]]:
    """The experts that transformers holds as one tensor a layer, as `_quantized_weights`."""
    if not stacks_experts(run) or families.of(run.model.architecture).unsloth.packs_experts:
        return []
    return [(count, tensor) for count, tensor in _quantized_weights(units) if tensor.kind == "experts"]


def _bytes_over_4_bits(weights: list[tuple[int, Tensor]]) -> int:
    """What the weights take in 16 bits beyond their 4 bits."""
    return sum(count * (BYTES["bfloat16"] * tensor.numel - tensor.stored_bytes) for count, tensor in weights)
