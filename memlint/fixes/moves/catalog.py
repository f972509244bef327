"""What can be changed in a run to make it need less memory, and what each change costs.

A move proposes neutral changes (`{"checkpointing.mode": "full"}`) for a run or nothing; whether they help is
decided by a new estimate, whether the framework can say them by its format. Sources stand at each move.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import memlint.fixes.moves.host as host_moves
import memlint.fixes.moves.vision as vision_moves
import memlint.memory.families.lookup as families
from memlint.fixes.proposed_change import Move, ProposedChange, cost
from memlint.memory.parameters import stacks_experts
from memlint.run import Run


def attention(run: Run) -> Iterator[ProposedChange]:
    """Eager attention keeps several S x S score matrices a layer; sdpa and FlashAttention keep none.

    FlashAttention (Dao et al. 2022, arXiv 2205.14135, section 4) trains GPT-2 up to 3 times faster than eager code.
    """
    if run.attention.implementation != "eager":
        return
    if _loads_with_sdpa(run):
        yield ProposedChange("use sdpa attention", {"attention.implementation": "sdpa"}, 0.8, group="attention")
    elif (
        _soft_capped(run)
        and getattr(run.hardware.gpu, "flash_attention", 0) >= 2
        and run.precision.compute != "float32"
    ):
        changes = {"attention.implementation": "flash_attention_2"}
        yield ProposedChange(
            "use FlashAttention 2", changes, 0.7, group="attention", note="flash-attn must be installed"
        )


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
        yield ProposedChange(
            "turn on activation checkpointing", {"checkpointing.mode": "full"}, 1.25, group="checkpointing"
        )


def fused_loss(run: Run) -> Iterator[ProposedChange]:
    """Fused linear cross entropy never builds the logits (Hsu et al. 2024, Liger Kernel, arXiv 2410.10989). Unsloth
    puts a loss of its own into the model's code."""
    if run.stack.use_unsloth:
        return
    supported = families.supports_liger(run.model.architecture)
    if run.loss.kind in ("plain", "fused_ce") and supported and not run.loss.fallback_reason:
        yield ProposedChange("compute the loss with Liger's fused kernel", {"loss.kind": "liger"}, 0.95, group="loss")


def micro_batch(run: Run) -> Iterator[ProposedChange]:
    """Fewer sequences at a time and as many more steps of accumulation: the global batch stays."""
    size, steps = run.batch.micro_batch_size, run.batch.gradient_accumulation_steps
    if not (isinstance(size, int) and isinstance(steps, int)):
        return
    for smaller in (candidate for candidate in _divisors(size) if candidate < size):
        accumulation = steps * size // smaller
        yield ProposedChange(
            f"micro batch {size} -> {smaller}, accumulation {steps} -> {accumulation}",
            {"batch.micro_batch_size": smaller, "batch.gradient_accumulation_steps": accumulation},
            1.0 + 0.04 * (size // smaller - 1).bit_length(),
            group="batch",
        )


def _divisors(number: int) -> list[int]:
    """Divisors from the largest down, at most 8 of them: 64 -> 32, 16, 8, ..."""
    found = [part for part in range(min(number, 4096), 0, -1) if number % part == 0]
    return found[:8] + [1] * (len(found) > 8)


def evaluation(run: Run) -> Iterator[ProposedChange]:
    """Evaluation defaults to 8 sequences at a time, whatever training uses."""
    size = run.evaluation.batch_size
    if run.evaluation.enabled is True and isinstance(size, int) and size > 1:
        yield ProposedChange(f"evaluation batch {size} -> 1", {"evaluation.batch_size": 1}, 1.02, group="evaluation")
    if run.evaluation.enabled is True and run.evaluation.keeps_logits and run.evaluation.accumulation_steps is None:
        yield ProposedChange(
            "move evaluation logits to host memory", {"evaluation.accumulation_steps": 1}, 1.02, group="eval-logits"
        )
    if run.evaluation.enabled is True and run.purpose == "train":
        # The weights come out the same, but nothing shows while it trains whether they get worse, or picks the best.
        title = "evaluate saved checkpoints instead of while it trains"
        yield ProposedChange(title, {"evaluation.enabled": False}, 1.0, "low", False, "evaluation")


def buckets(run: Run) -> Iterator[ProposedChange]:
    """Communication buckets of 5e8 elements are 1 GB of half precision each, whatever the model's size."""
    zero = run.parallelism.zero
    if run.parallelism.engine != "deepspeed" or not isinstance(zero.stage, int) or zero.stage < 1:
        return
    small = 50_000_000
    changes = {}
    for field in ("reduce_bucket_size", "allgather_bucket_size"):
        value = getattr(zero, field)
        if isinstance(value, int) and value > small and not (zero.stage == 3 and field == "allgather_bucket_size"):
            changes[f"parallelism.zero.{field}"] = small
    if changes:
        yield ProposedChange("smaller ZeRO buckets (5e7 elements)", changes, 1.02, group="buckets")
    if zero.overlap_comm is True:
        # A second set of buckets is filled while the first is sent (deepspeed docs, config-json, overlap_comm).
        changes = {"parallelism.zero.overlap_comm": False}
        yield ProposedChange("no overlap of communication with backward", changes, 1.1, group="overlap")


# Names of one optimizer: 32-bit AdamW, and with 8-bit states (transformers 5.23 training_args.py, OptimizerNames).
_ADAMW = ("adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw_torch_xla")
_ADAMW_8BIT = ("adamw_8bit", "adamw_bnb_8bit", "adamw_torch_8bit")


def optimizer(run: Run) -> Iterator[ProposedChange]:
    """8-bit states (Dettmers et al. 2022, arXiv 2110.02861) match 32-bit Adam in their benchmarks; paged ones may leave
    the card where it is short (Dettmers et al. 2023, arXiv 2305.14314, section 3) and are slower by what crosses the
    bus then; Adafactor keeps a row and a column of each matrix (Shazeer and Stern 2018, arXiv 1804.04235). Adapters
    have so few states that only the cheapest of these are worth a change."""
    name, few = run.optimizer.name, run.method.kind == "lora"
    if not isinstance(name, str) or run.parallelism.engine == "deepspeed":
        return
    if name in ("adamw_torch", "adamw_hf"):
        yield ProposedChange(
            "fused AdamW: no temporaries in the step", {"optimizer.name": "adamw_torch_fused"}, 0.98, group="optimizer"
        )
    if name in _ADAMW and not few:
        yield _optimizer("paged AdamW", "paged_adamw_32bit", 1.4, "none")
    if name in _ADAMW:
        yield _optimizer("8-bit AdamW", "adamw_8bit", 1.0, "low")
    if name in (*_ADAMW, *_ADAMW_8BIT):
        same = name in _ADAMW_8BIT
        yield _optimizer("paged 8-bit AdamW", "paged_adamw_8bit", 1.1, "none" if same else "low")
    if not few and name in (*_ADAMW, *_ADAMW_8BIT, "paged_adamw_32bit", "paged_adamw", "paged_adamw_8bit"):
        yield _optimizer("Adafactor", "adafactor", 1.1, "medium")


def _optimizer(title: str, name: str, speed: float, quality: str) -> ProposedChange:
    return ProposedChange(title, {"optimizer.name": name}, speed, quality, False, "optimizer")


def zero_stage(run: Run) -> Iterator[ProposedChange]:
    """Stage 3 moves 1.5 times the bytes of stages 1 and 2 (Rajbhandari et al. 2020, arXiv 1910.02054, section 7)."""
    stage, world = run.parallelism.zero.stage, run.parallelism.world_size
    if run.parallelism.engine != "deepspeed" or not isinstance(stage, int) or not isinstance(world, int) or world < 2:
        return
    shared = (2, 3) if run.model.quantization.method == "none" else host_moves.stages(run)
    for higher, speed in ((2, 1.02), (3, 1.2)):
        if higher > stage and higher in shared:
            changes = {"parallelism.zero.stage": higher, **host_moves.stored_to_share(run)}
            yield ProposedChange(f"ZeRO stage {stage} -> {higher}", changes, speed, safe=False, group="zero")


def half_weights(run: Run) -> Iterator[ProposedChange]:
    """Weights, gradients and states in bfloat16: half of everything, with rounding in the update.

    Frameworks say it in two ways: as a mode of training (LLaMA-Factory's `pure_bf16`) or as the dtype that the
    model is loaded in (transformers' `dtype`). A frozen base is cast to bfloat16 in each matmul anyway.
    """
    engine, kind = run.parallelism.engine, run.method.kind
    if engine not in ("single", "ddp") or run.precision.autocast is not True:
        return
    loaded = {"model.weights_dtype": "bfloat16", "precision.trainable_dtype": "bfloat16"}
    if run.precision.trainable_dtype == "float32" and kind in ("full", "freeze"):
        mode = {
            "precision.trainable_dtype": "bfloat16",
            "precision.autocast": False,
            "precision.outputs_to_fp32": False,
        }
        yield ProposedChange("train in pure bfloat16", mode, 0.95, "medium", False, "precision")
        if run.model.weights_dtype == "float32":
            yield ProposedChange("load and train the weights in bfloat16", loaded, 0.95, "medium", False, "precision")
    if run.model.weights_dtype == "float32" and kind == "lora":
        yield ProposedChange("load the frozen base in bfloat16", loaded, 0.95, "low", False, "precision")


def mixed_precision(run: Run) -> Iterator[ProposedChange]:
    """Half precision where nothing was asked for: activations of half the size (Micikevicius et al., 1710.03740)."""
    if run.precision.compute != "float32" or run.precision.autocast is not False:
        return
    half = "bfloat16" if getattr(run.hardware.gpu, "bf16", True) else "float16"
    changes = {"precision.compute": half, "precision.autocast": True, "precision.outputs_to_fp32": True}
    yield ProposedChange(f"train in {half} mixed precision", changes, 0.6, "low", False, "precision")


def reference(run: Run) -> Iterator[ProposedChange]:
    """The reference model's log-probabilities computed once, before training (trl 1.16 dpo_config.py)."""
    if run.method.reference_model == "copy" and run.method.stage in ("dpo", "kto"):
        changes = {"method.reference_model": "precomputed"}
        yield ProposedChange(
            "compute the reference log-probabilities beforehand", changes, 1.0, safe=False, group="reference"
        )


def generation(run: Run) -> Iterator[ProposedChange]:
    """Completions of PPO and GRPO: fewer, shorter, or written without the whole model on each GPU."""
    if run.method.stage not in ("ppo", "grpo"):
        return
    zero, share, count = run.parallelism.zero, run.method.generator_share, run.method.num_generations
    if run.method.generator == "model" and zero.stage == 3 and zero.gathers_for_generation:
        changes: dict[str, Any] = {"parallelism.zero.gathers_for_generation": False}
        yield ProposedChange("generate from ZeRO-3's shards", changes, 2.0, safe=False, group="gather")
    if share > 0.2:
        changes = {"method.generator_share": 0.2}
        yield ProposedChange(f"vLLM's share of the card {share:g} -> 0.2", changes, 1.1, safe=False, group="generator")
    while run.method.stage == "grpo" and count > 3 and count % 2 == 0:
        count //= 2
        title = f"{run.method.num_generations} -> {count} completions a prompt"
        yield ProposedChange(title, {"method.num_generations": count}, 0.8, "medium", False, "generations")


def method(run: Run) -> Iterator[ProposedChange]:
    """LoRA (Hu et al. 2021, arXiv 2106.09685) and QLoRA (Dettmers et al. 2023, arXiv 2305.14314)."""
    plain = run.model.quantization.method == "none"
    if run.method.kind in ("full", "freeze") and run.method.stage != "pt":
        yield ProposedChange("train a LoRA adapter (rank 16)", lora_changes(run), 0.9, "medium", False, "method", RATE)
        if plain:
            changes = {**lora_changes(run), **quantize_changes()}
            yield ProposedChange(
                "train a QLoRA adapter (rank 16, 4-bit base)", changes, 1.17, "medium", False, "method", RATE
            )
    if run.method.kind == "full":
        yield from _frozen(run)
    if run.method.kind == "lora" and plain:
        yield ProposedChange("4-bit base (QLoRA)", quantize_changes(), 1.3, "low", False, "quantization")
    if run.model.quantization[:2] == ("bnb", 8) and not run.model.quantization.prequantized:
        yield ProposedChange("4 instead of 8 bits for the base", quantize_changes(), 1.0, "low", False, "quantization")
    if run.method.kind == "lora":
        yield from _lower_rank(run)


def _frozen(run: Run) -> Iterator[ProposedChange]:
    """A quarter of the layers trains: the last ones."""
    layers = len(getattr(run.model.architecture, "layer_type_ids", ())) // 4
    if layers:
        changes = {"method.kind": "freeze", "method.freeze_trainable_layers": layers}
        yield ProposedChange(f"train the last {layers} layers only", changes, 0.7, "medium", False, "method")


RATE = "adapters want a learning rate about 10 times that of full fine-tuning"


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
        yield ProposedChange(f"LoRA rank {rank} -> 16", changes, 0.98, "medium", False, "rank")


def quantize_changes() -> dict[str, Any]:
    return {
        "model.quantization.method": "bnb",
        "model.quantization.bits": 4,
        "model.quantization.kind": "nf4",
        "model.quantization.double_quant": True,
    }


_ORDINARY = 4096  # a bound above it is often far from what the data has: any length down to here can be asked for


def sequence(run: Run) -> Iterator[ProposedChange]:
    """Shorter sequences cut the data: the last thing to try, and often the only one that helps."""
    length = run.sequence.length
    if not isinstance(length, int):
        return
    if run.method.stage == "grpo":
        yield from _prompts(run)
        return
    shorter = 1 << max(0, (length - 1).bit_length() - 1)
    while shorter >= max(256, min(length // 8, _ORDINARY)):
        quality = "medium" if shorter * 2 >= length else "high"
        yield ProposedChange(
            f"sequences of {length} -> {shorter} tokens", {"sequence.length": shorter}, 0.9, quality, False, "sequence"
        )
        shorter //= 2


def _prompts(run: Run) -> Iterator[ProposedChange]:
    """GRPO's sequences are a prompt and a completion, bounded each."""
    prompt, completion = run.sequence.max_prompt_length, run.sequence.max_new_tokens
    if not isinstance(prompt, int):
        return
    for part in (2, 4, 8):
        quality = "medium" if part == 2 else "high"
        if prompt // part >= 256:
            changes = {"sequence.max_prompt_length": prompt // part}
            yield ProposedChange(
                f"prompts of {prompt} -> {prompt // part} tokens", changes, 0.9, quality, False, "sequence"
            )
        if completion // part >= 256:
            changes = {"sequence.max_new_tokens": completion // part}
            title = f"completions of {completion} -> {completion // part} tokens"
            yield ProposedChange(title, changes, 0.8, quality, False, "completion")


MOVES: tuple[Move, ...] = (
    attention,
    fused_loss,
    evaluation,
    buckets,
    micro_batch,
    checkpointing,
    optimizer,
    zero_stage,
    *host_moves.MOVES,
    half_weights,
    mixed_precision,
    reference,
    generation,
    method,
    sequence,
    *vision_moves.MOVES,
)


def steps(run: Run) -> tuple[ProposedChange, ...]:
    """Every change that could be tried on `run`, cheapest first; none for a run that trains nothing."""
    if run.purpose != "train":
        return ()
    return tuple(sorted((step for move in MOVES for step in move(run)), key=cost))
