"""What can be changed in a run to make it need less memory.

A move proposes changes of the run's fields (`{"checkpointing.mode": "full"}`), or nothing. Whether they help, a new
estimate says; whether they can be written, the format; what they cost, fixes/costs.py. Changes of one group come from
the weakest to the strongest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import memlint.fixes.moves.host as host_moves
import memlint.fixes.moves.rollout as rollout_moves
import memlint.fixes.moves.sequences as sequence_moves
import memlint.fixes.moves.vision as vision_moves
import memlint.memory.families.lookup as families
from memlint.fixes.moves.quantization import four_bits, is_divided, quantize_changes
from memlint.fixes.proposed_change import Move, ProposedChange
from memlint.memory.state.parameters import stacks_experts
from memlint.run import Run


def attention(run: Run) -> Iterator[ProposedChange]:
    """Eager attention keeps several S x S score matrices a layer; sdpa and FlashAttention keep none.

    FlashAttention (Dao et al. 2022, arXiv 2205.14135, section 4) trains GPT-2 up to 3 times faster than eager code.
    """
    if run.attention.implementation != "eager":
        return
    if _loads_with_sdpa(run):
        yield ProposedChange("use sdpa attention", {"attention.implementation": "sdpa"}, "attention")
    elif (
        _soft_capped(run)
        and getattr(run.hardware.gpu, "flash_attention", 0) >= 2
        and run.precision.compute != "float32"
    ):
        changes = {"attention.implementation": "flash_attention_2"}
        yield ProposedChange("use FlashAttention 2", changes, "attention", note="flash-attn must be installed")


def _loads_with_sdpa(run: Run) -> bool:
    """Attention sinks (gpt-oss) and ALiBi have no sdpa form: transformers refuses to load such a model with it."""
    return not _soft_capped(run) and families.loads_with_sdpa(run.model.architecture)


def _soft_capped(run: Run) -> bool:
    """Soft-capped scores (Gemma 2) have no sdpa form: transformers falls back to eager or wants FlashAttention."""
    return any(kind.attention.softcap for kind in getattr(run.model.architecture, "layer_types", ()))


def checkpointing(run: Run) -> Iterator[ProposedChange]:
    """One more forward a step: 4/3 of the time in the limit (Chen et al. 2016, arXiv 1604.06174).

    Hugging Face's guide says about 20 % slower (transformers docs, perf_train_gpu_one).
    """
    if run.checkpointing.mode == "none":
        yield ProposedChange("turn on activation checkpointing", {"checkpointing.mode": "full"}, "checkpointing")


_LIGER = "the liger-kernel package must be installed"


def fused_loss(run: Run) -> Iterator[ProposedChange]:
    """Fused linear cross entropy never builds the logits (Hsu et al. 2024, Liger Kernel, arXiv 2410.10989). Unsloth
    puts a loss of its own into the model's code."""
    if run.stack.use_unsloth:
        return
    if run.planning.fuses_log_probabilities and run.loss.kind == "fused_ce":
        title = "compute log-probabilities without the whole logits (fused kernels)"
        yield ProposedChange(title, {"loss.kind": "chunked"}, "loss")
    if run.planning.loss_parts and run.loss.kind == "plain" and not run.loss.parts and run.method.stage == "sft":
        yield _in_parts(run)
    supported = families.supports_liger(run.model.architecture)
    if run.loss.kind in ("plain", "fused_ce") and supported and not run.loss.fallback_reason:
        yield ProposedChange("compute the loss with Liger's fused kernel", {"loss.kind": "liger"}, "loss", note=_LIGER)


def _in_parts(run: Run) -> ProposedChange:
    """The logits in half precision, converted and scored part by part (torchtune 0.6.1
    modules/loss/ce_chunked_output_loss.py)."""
    changes = {
        "loss.parts": run.planning.loss_parts,
        "loss.logits_first": True,
        "loss.compiled": bool(run.stack.compile),
        "precision.upcast_lmhead_output": False,
    }
    return ProposedChange(f"compute the loss in {run.planning.loss_parts} parts", changes, "loss")


def micro_batch(run: Run) -> Iterator[ProposedChange]:
    """Fewer sequences at a time and as many more steps of accumulation: the global batch stays. 3 x 8 becomes 2 x 12.

    Where accumulation itself takes room, the whole batch at once may need less; of a micro batch of 1, the same
    without the others: the global batch shrinks.
    """
    size, steps = run.batch.micro_batch_size, run.batch.gradient_accumulation_steps
    if not (isinstance(size, int) and isinstance(steps, int)):
        return
    for smaller in _divisors(size * steps, size - 1, run.planning.least_micro_batch):
        accumulation = steps * size // smaller
        title = f"micro batch {size} -> {smaller}, accumulation {steps} -> {accumulation}"
        note = _FEWER_COMPARED if run.method.compares_samples else ""
        yield ProposedChange(title, _batch(smaller, accumulation), "batch", not note, note)
    if steps > 1 and _keeps_gradients(run):
        title = f"micro batch {size} -> {size * steps}, accumulation {steps} -> 1"
        yield ProposedChange(title, _batch(size * steps, 1), WHOLE_BATCH, note=_NO_ACCUMULATION)
    if size == 1 < steps and _keeps_gradients(run):
        title = f"accumulation {steps} -> 1: the global batch shrinks from {steps} sequences to 1 a GPU"
        yield ProposedChange(title, _batch(size, 1), CUT_ACCUMULATION, safe=False)


_FEWER_COMPARED = (  # Gao et al. 2021, Scaling Deep Contrastive Learning Batch Size, arXiv 2101.06983
    "the loss compares each sample with the others of its micro batch, and of fewer it learns less: a cached loss"
    " (GradCache) compares them all and computes a few at a time"
)
_NO_ACCUMULATION = "gradients that accumulation keeps on the card from one micro batch to the next are gone"


def _keeps_gradients(run: Run) -> bool:
    """Whether gradients of earlier micro batches take room that a single micro batch does not: FSDP holds whole ones,
    DeepSpeed buffers of its own where the optimizer is on the CPU."""
    offloads = run.parallelism.engine == "deepspeed" and run.offload.optimizer != "none"
    return offloads or _keeps_whole_gradients(run)


def _batch(size: int, accumulation: int) -> dict[str, Any]:
    return {"batch.micro_batch_size": size, "batch.gradient_accumulation_steps": accumulation}


def update_in_backward(run: Run) -> Iterator[ProposedChange]:
    """Each parameter is updated as soon as its gradient is there, which is freed then (Lv et al. 2023, LOMO, arXiv
    2306.09782). Nothing accumulates: of a micro batch of 1 the whole batch goes at once, or the global batch shrinks;
    of a larger one smaller micro batches come first."""
    size, steps, own = run.batch.micro_batch_size, run.batch.gradient_accumulation_steps, run.optimizer
    if not (isinstance(size, int) and isinstance(steps, int)) or 1 not in (size, steps):
        return
    if not run.planning.updates_in_backward or own.layerwise or own.max_grad_norm or run.method.kind != "full":
        return
    title, update = "update each layer in the backward", {"optimizer.layerwise": True}
    if steps == 1:
        yield ProposedChange(title, update, UPDATE_IN_BACKWARD)
        return
    whole = f"{title}; micro batch {size} -> {steps}, accumulation {steps} -> 1"
    yield ProposedChange(whole, {**update, **_batch(steps, 1)}, WHOLE_BATCH)
    shrinks = f"{title}; accumulation {steps} -> 1: the global batch shrinks from {steps} sequences to 1 a GPU"
    yield ProposedChange(shrinks, {**update, **_batch(size, 1)}, UPDATE_IN_BACKWARD, safe=False)


def reduction(run: Run) -> Iterator[ProposedChange]:
    """FSDP reduces gradients once a step, and keeps them whole on every GPU until then (torch docs,
    FullyShardedDataParallel, no_sync): reduced after each micro batch, shards of them are kept."""
    if _keeps_whole_gradients(run):
        changes = {"parallelism.fsdp.reduces_each_backward": True}
        yield ProposedChange("reduce gradients after each micro batch (sync_each_batch)", changes, "reduction")


def _keeps_whole_gradients(run: Run) -> bool:
    """Whether a step of FSDP has several micro batches and reduces their gradients once."""
    steps = run.batch.gradient_accumulation_steps
    several = isinstance(steps, int) and steps > 1
    return run.parallelism.engine == "fsdp" and several and not run.parallelism.fsdp.reduces_each_backward


def _divisors(number: int, most: int, least: int = 1) -> list[int]:
    """Divisors that are at most `most`, from the largest down, at most 8 of them: of 64 and 32 -> 32, 16, 8, ..."""
    found = [part for part in range(min(most, 4096), least - 1, -1) if number % part == 0]
    return found[:8] + found[-1:] * (len(found) > 8)


def evaluation(run: Run) -> Iterator[ProposedChange]:
    """Evaluation defaults to 8 sequences at a time, whatever training uses."""
    size = run.evaluation.batch_size
    if run.evaluation.enabled is not True:
        return
    if isinstance(size, int):
        for smaller in _divisors(size, size - 1):
            title = f"evaluation batch {size} -> {smaller}"
            yield ProposedChange(title, {"evaluation.batch_size": smaller}, "evaluation")
    if run.purpose == "train":
        title = "evaluate saved checkpoints instead of while it trains"
        yield ProposedChange(title, {"evaluation.enabled": False}, "evaluation", safe=False)
    if run.evaluation.keeps_logits and run.evaluation.accumulation_steps is None:
        changes = {"evaluation.accumulation_steps": 1}
        yield ProposedChange("move evaluation logits to host memory", changes, "evaluation logits")


_SMALL_BUCKET = 50_000_000  # elements: 100 MB of half precision
_BUCKETS = {  # those that a stage has
    1: ("reduce_bucket_size", "allgather_bucket_size"),
    2: ("reduce_bucket_size", "allgather_bucket_size"),
    3: ("reduce_bucket_size", "prefetch_bucket_size"),
}
_LIVE = ("max_live_parameters", "max_reuse_distance")
_FEW_LIVE = 100_000_000


def buckets(run: Run) -> Iterator[ProposedChange]:
    """Communication buckets of 5e8 elements are 1 GB of half precision each, whatever the model's size; at stage 3,
    fewer gathered parameters stay for their next use (deepspeed docs, config-json, "ZeRO Optimizations")."""
    zero = run.parallelism.zero
    if run.parallelism.engine != "deepspeed" or zero.stage not in _BUCKETS:
        return
    wanted = dict.fromkeys(_BUCKETS[zero.stage], _SMALL_BUCKET)
    if zero.stage == 3:
        wanted |= dict.fromkeys(_LIVE, _FEW_LIVE)
    larger = {name: size for name, size in wanted.items() if _is_above(getattr(zero, name), size)}
    if larger:
        changes = {f"parallelism.zero.{name}": size for name, size in larger.items()}
        yield ProposedChange("smaller ZeRO buckets (5e7 elements)", changes, "buckets")
    if zero.overlap_comm is True:
        # A second set of buckets is filled while the first is sent (deepspeed docs, config-json, overlap_comm).
        changes = {"parallelism.zero.overlap_comm": False}
        yield ProposedChange("no overlap of communication with backward", changes, "overlap")


def _is_above(value: Any, size: int) -> bool:
    return isinstance(value, int) and value > size


# Names of one optimizer: 32-bit AdamW, and with 8-bit states (transformers 5.23 training_args.py, OptimizerNames).
_ADAMW = ("adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw_torch_xla")
_ADAMW_8BIT = ("adamw_8bit", "adamw_bnb_8bit", "adamw_torch_8bit")


def optimizer(run: Run) -> Iterator[ProposedChange]:
    """8-bit states (Dettmers et al. 2022, arXiv 2110.02861) match 32-bit Adam in their benchmarks; paged ones may leave
    the card where it is short (Dettmers et al. 2023, arXiv 2305.14314, section 3) and are slower by what crosses the
    bus then; Adafactor keeps a row and a column of each matrix (Shazeer and Stern 2018, arXiv 1804.04235). Adapters
    have so few states that only the cheapest of these are worth a change. What FSDP keeps in host memory is updated
    there, where bitsandbytes has no step before 0.50, and one that is not compiled since (backends/cpu/ops.py)."""
    name, few = run.optimizer.name, run.method.kind == "lora"
    if not isinstance(name, str) or run.parallelism.engine == "deepspeed" or run.planning.fixed_optimizer:
        return
    if name in ("adamw_torch", "adamw_hf"):
        changes = {"optimizer.name": "adamw_torch_fused"}
        yield ProposedChange("fused AdamW: no temporaries in the step", changes, "optimizer")
    in_host_memory = run.parallelism.engine == "fsdp" and run.parallelism.fsdp.cpu_offload
    if _shards_are_dtensors(run):
        if name in _ADAMW and not in_host_memory:
            yield _optimizer("torchao's 8-bit AdamW", "adamw_torch_8bit", "torchao must be installed")
        return
    if name in _ADAMW and not in_host_memory:
        yield _optimizer("8-bit AdamW", "adamw_8bit")
    if not few and name in (*_ADAMW, *_ADAMW_8BIT, "paged_adamw_32bit", "paged_adamw", "paged_adamw_8bit"):
        yield _optimizer("Adafactor", "adafactor")
    if name in _ADAMW and not few and not in_host_memory:
        yield _optimizer("paged AdamW", "paged_adamw_32bit")
    if name in (*_ADAMW, *_ADAMW_8BIT) and not in_host_memory:
        yield _optimizer("paged 8-bit AdamW", "paged_adamw_8bit")


def _shards_are_dtensors(run: Run) -> bool:
    """Whether an optimizer gets FSDP2's DTensors. bitsandbytes' kernels take none (0.50.0 optim/optimizer.py; axolotl
    0.19.0 utils/schemas/validation.py:1249), and transformers' Adafactor adds plain tensors to them (5.23
    optimization.py, Adafactor.step: "got mixed torch.Tensor and DTensor")."""
    return run.parallelism.engine == "fsdp" and run.parallelism.fsdp.version == 2


def _optimizer(title: str, name: str, note: str = "") -> ProposedChange:
    return ProposedChange(title, {"optimizer.name": name}, "optimizer", safe=False, note=note)


_LOADED_IN_HALF = {"model.weights_dtype": "bfloat16", "precision.trainable_dtype": "bfloat16"}


def _autocasts_alone(run: Run) -> bool:
    """Whether torch.autocast alone makes the run compute in half precision: no engine casts the weights."""
    return run.parallelism.engine in ("single", "ddp") and run.precision.autocast is True


def half_weights(run: Run) -> Iterator[ProposedChange]:
    """Weights, gradients and states in bfloat16: half of everything, with rounding in the update.

    Frameworks say it in two ways: as a mode of training (LLaMA-Factory's `pure_bf16`) or as the dtype that the
    model is loaded in (transformers' `dtype`), some with an optimizer beside it. A frozen base is cast to bfloat16 in
    each matmul anyway.
    """
    kind, named = run.method.kind, run.planning.half_optimizer
    if named and run.precision.trainable_dtype == "float32" and kind == "full":
        changes = {**_LOADED_IN_HALF, "optimizer.name": named}
        yield ProposedChange("train in bfloat16, with the AdamW for it", changes, "precision", False)
    if not _autocasts_alone(run):
        return
    if run.precision.trainable_dtype == "float32" and kind in ("full", "freeze"):
        mode = {
            "precision.trainable_dtype": "bfloat16",
            "precision.autocast": False,
            "precision.outputs_to_fp32": False,
        }
        yield ProposedChange("train in pure bfloat16", mode, "precision", safe=False)
        if run.model.weights_dtype == "float32":
            yield ProposedChange("load and train the weights in bfloat16", _LOADED_IN_HALF, "precision", safe=False)
    if run.model.weights_dtype == "float32" and kind == "lora":
        yield ProposedChange("load the frozen base in bfloat16", _LOADED_IN_HALF, "precision", safe=False)


def mixed_precision(run: Run) -> Iterator[ProposedChange]:
    """Half precision where nothing was asked for: activations of half the size (Micikevicius et al., 1710.03740).
    DeepSpeed makes parameters of it in place of autocast (fixes/consequences.py)."""
    if run.precision.compute != "float32" or run.precision.autocast is not False:
        return
    half = "bfloat16" if getattr(run.hardware.gpu, "bf16", True) else "float16"
    changes = {"precision.compute": half, "precision.autocast": True, "precision.outputs_to_fp32": True}
    yield ProposedChange(f"train in {half} mixed precision", changes, "precision", safe=False)


def reference(run: Run) -> Iterator[ProposedChange]:
    """The reference model's log-probabilities computed once, before training (trl 1.16 dpo_config.py). TRL refuses that
    for samples with images (dpo_trainer.py:764)."""
    sees = bool(getattr(run.model.architecture, "towers", ()))
    if run.method.reference_model == "copy" and run.method.stage in ("dpo", "kto") and not sees:
        changes = {"method.reference_model": "precomputed"}
        yield ProposedChange("compute the reference log-probabilities beforehand", changes, "reference", safe=False)


def method(run: Run) -> Iterator[ProposedChange]:
    """Fewer parameters train: the last layers, a LoRA adapter (Hu et al. 2021, arXiv 2106.09685), or one on a base of 4
    bits (QLoRA, Dettmers et al. 2023, arXiv 2305.14314)."""
    full = run.method.kind in ("full", "freeze") and run.method.stage != "pt"
    if run.method.kind == "full":
        yield from _last_layers(run)
    if full:
        yield from _adapters(run)
    if run.method.kind == "lora":
        yield from _quantized_base(run)
        yield from _lower_rank(run)


def _adapters(run: Run) -> Iterator[ProposedChange]:
    """An adapter, on the base as it is loaded, in bfloat16 where it is loaded in float32, and in 4 bits."""
    rate, (words, note) = _adapter_rate(run)
    optimizer = _plain_optimizer(run)
    words = f"{', AdamW' if optimizer else ''}{words}"
    adapter = {**lora_changes(run), **rate, **optimizer}
    yield ProposedChange(f"train a LoRA adapter (rank 16{words})", adapter, "method", False, note)
    if run.model.weights_dtype == "float32" and _autocasts_alone(run):
        title = f"train a LoRA adapter (rank 16, base in bfloat16{words})"
        yield ProposedChange(title, {**adapter, **_LOADED_IN_HALF}, "method", False, note)
    quantized = four_bits(run)
    if quantized is not None:
        title = f"train a QLoRA adapter (rank 16, 4-bit base{words})"
        yield ProposedChange(title, {**adapter, **quantized}, "method", False, note)


def _plain_optimizer(run: Run) -> dict[str, Any]:
    """AdamW where the optimizer keeps states of a low rank or of a block: that is a way of its own to train in full,
    and adapters are refused beside it (LLaMA-Factory 0.9.5 hparams/finetuning_args.py:616)."""
    return {"optimizer.name": "adamw_torch"} if run.optimizer.rank or run.optimizer.badam_mode else {}


def _last_layers(run: Run) -> Iterator[ProposedChange]:
    """A quarter of the layers trains: the last ones."""
    layers = len(getattr(run.model.architecture, "layer_type_ids", ())) // 4
    if layers:
        changes = {"method.kind": "freeze", "method.freeze_trainable_layers": layers}
        yield ProposedChange(f"train the last {layers} layers only", changes, "method", safe=False)


# LLaMA-Factory 0.9.5 trains adapters with 10 times the rate of full training (examples/train_lora/qwen3_lora_sft.yaml,
# 1e-4, beside examples/train_full/qwen3_full_sft.yaml, 1e-5); 2e-4 is QLoRA's (arXiv 2305.14314, appendix B.2).
_RATE_FACTOR, _HIGHEST_RATE = 10, 2e-4


def _adapter_rate(run: Run) -> tuple[dict[str, Any], tuple[str, str]]:
    """The learning rate that an adapter gets in place of full training's: the change, what the title says of it, and a
    note where the rate is not known."""
    rate = run.optimizer.learning_rate
    if not isinstance(rate, float):
        return {}, ("", "adapters want a learning rate about 10 times that of full training")
    higher = float(f"{min(_RATE_FACTOR * rate, _HIGHEST_RATE):.3g}")
    if higher <= rate:
        return {}, ("", "")
    return {"optimizer.learning_rate": higher}, (f", learning rate {rate:g} -> {higher:g}", "")


def _quantized_base(run: Run) -> Iterator[ProposedChange]:
    changes, quantization = four_bits(run), run.model.quantization
    if changes is not None:
        yield ProposedChange("4-bit base (QLoRA)", changes, "quantization", safe=False)
    if quantization.method == "bnb" and _stays_whole_in_experts(run):
        changes = {"model.quantization.experts_on_load": True}
        yield ProposedChange("quantise the experts as well", changes, "experts", safe=False)
    if quantization[:2] == ("bnb", 8) and not quantization.prequantized and not is_divided(run):
        title = "4 instead of 8 bits for the base"
        yield ProposedChange(title, quantize_changes(run), "quantization", safe=False)


def _stays_whole_in_experts(run: Run) -> bool:
    """Whether bitsandbytes leaves a layer's experts as they are, which one parameter holds that is no linear layer."""
    quantization = run.model.quantization
    packed = quantization.experts_on_load or quantization.stacked_experts or quantization.prequantized
    has_experts = any(kind.mlp.experts for kind in getattr(run.model.architecture, "layer_types", ()))
    return has_experts and stacks_experts(run) and not packed


def refuses_dropout(run: Run) -> bool:
    """Whether adapters would get a dropout by default that PEFT refuses: beside stacked experts, which "all-linear"
    reaches (peft 0.21.2 tuners/lora/layer.py:2366)."""
    stacked = bool(families.of(run.model.architecture).experts.peft_stacked_targets) and stacks_experts(run)
    return stacked and run.planning.lora_dropout > 0


def lora_changes(run: Run) -> dict[str, Any]:
    """The base with the adapter switched off is the reference that full training keeps a copy for (trl 1.16
    trainer/dpo_trainer.py:908, LLaMA-Factory 0.9.5 train/trainer_utils.py, create_ref_model)."""
    adapter = {"method.kind": "lora", "method.rank": 16, "method.alpha": 32, "method.targets": ("all-linear",)}
    if refuses_dropout(run):
        adapter["method.dropout"] = 0.0
    return {**adapter, "method.reference_model": "shared"} if run.method.reference_model == "copy" else adapter


def _lower_rank(run: Run) -> Iterator[ProposedChange]:
    """Quality hardly moves with the rank when all linear layers have an adapter (QLoRA, arXiv 2305.14314, appendix A.2;
    ranks of 4 and less in LoRA, arXiv 2106.09685, section 7.2). alpha / rank stays."""
    rank, alpha = run.method.rank, run.method.alpha
    if not isinstance(rank, int) or rank <= 16 or run.method.rank_pattern:
        return
    changes: dict[str, Any] = {"method.rank": 16}
    if alpha and alpha * 16 % rank == 0:
        changes["method.alpha"] = int(alpha * 16) // rank
        yield ProposedChange(f"LoRA rank {rank} -> 16", changes, "rank", safe=False)


_SHORTEST = 256
_ORDINARY = 4096  # a bound above it is often far from what the data has: any length down to here can be asked for


def sequence(run: Run) -> Iterator[ProposedChange]:
    """Shorter sequences cut the data: the last thing to try, and often the only one that helps."""
    length = run.sequence.length
    if not isinstance(length, int):
        return
    if prompts_and_completions(run):
        yield from _prompts(run)
        return
    for shorter in _shorter(length):
        title = f"sequences of {length} -> {shorter} tokens"
        yield ProposedChange(title, {"sequence.length": shorter}, "sequence", safe=False)


def _shorter(length: int) -> Iterator[int]:
    """Powers of two and what is half-way between them, from the longest down: of 4096 -> 3072, 2048, 1536, ..."""
    power = 1 << max(0, (length - 1).bit_length() - 1)
    while power >= max(_SHORTEST, min(length // 8, _ORDINARY)):
        yield from (size for size in (power * 3 // 2, power) if size < length)
        power //= 2


def prompts_and_completions(run: Run) -> bool:
    """Whether a sequence is a prompt and a completion, each with a bound of its own (GRPO, PPO)."""
    prompt, length = run.sequence.max_prompt_length, run.sequence.length
    parts = isinstance(prompt, int) and prompt + run.sequence.max_new_tokens == length
    return run.method.stage in ("ppo", "grpo") and parts


def _prompts(run: Run) -> Iterator[ProposedChange]:
    """Prompts and completions, a half to an eighth as long."""
    prompt, completion = run.sequence.max_prompt_length, run.sequence.max_new_tokens
    if not isinstance(prompt, int):
        return
    for part in (part for part in (2, 4, 8) if prompt // part >= _SHORTEST):
        title = f"prompts of {prompt} -> {prompt // part} tokens"
        yield ProposedChange(title, {"sequence.max_prompt_length": prompt // part}, "sequence", safe=False)
    for part in (part for part in (2, 4, 8) if completion // part >= _SHORTEST):
        title = f"completions of {completion} -> {completion // part} tokens"
        yield ProposedChange(title, {"sequence.max_new_tokens": completion // part}, "completion", safe=False)


# The whole batch at once, in place of smaller micro batches: more activations and fewer gradients.
WHOLE_BATCH = "whole batch"
CUT_ACCUMULATION = "accumulation"  # fewer sequences in the global batch
UPDATE_IN_BACKWARD = "update"  # and no accumulation at all
# Groups of changes that decide which others there are.
STRUCTURE = ("method", "zero", "fsdp")
# Groups of changes that decide which others a format can write: verl's fused kernels read no head that FSDP2 divides.
DECIDING_GROUPS = (*STRUCTURE, "loss")
# Groups whose changes may raise a peak: sharded runs load quantised weights whole before they share them.
MAY_COST_MEMORY = (*STRUCTURE, "quantization", WHOLE_BATCH)
# Groups whose changes differ in degree alone.
GRADED_GROUPS = ("batch", "evaluation", "sequence", "completion", "images", "generations") + (
    "log probabilities",
    "tokens",
    "shared sequences",
    "critic batch",
    "engine ranks",
    "gathered parts",
    "generator",
)
MOVES: tuple[Move, ...] = (
    method,
    *host_moves.MOVES,
    attention,
    fused_loss,
    evaluation,
    buckets,
    micro_batch,
    update_in_backward,
    reduction,
    checkpointing,
    optimizer,
    half_weights,
    mixed_precision,
    reference,
    *rollout_moves.MOVES,
    *sequence_moves.MOVES,
    sequence,
    *vision_moves.MOVES,
)


def steps(run: Run) -> tuple[ProposedChange, ...]:
    """Every change that could be tried on `run`; those of one group from the weakest to the strongest. None for a run
    that trains nothing."""
    if run.purpose != "train":
        return ()
    return tuple(step for move in MOVES for step in move(run))
