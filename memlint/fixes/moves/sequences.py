"""Several GPUs that share each sequence: Ulysses and ring attention, where the framework has them."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.fixes.proposed_change import Move, ProposedChange
from memlint.run import Run, get

_LONG = 8192  # below, a smaller micro-batch or checkpointing is enough, and the exchange costs more than it saves


def shared_sequences(run: Run) -> Iterator[ProposedChange]:
    """Each GPU holds its part of a sequence, and its part of the heads in attention (Jacobs et al. 2023, DeepSpeed
    Ulysses, arXiv 2309.14509, section 3). A group trains one sequence where each of its GPUs trained one, so that as
    many times the accumulation keeps the global batch. A single long sequence has no smaller micro-batch."""
    ranks, steps = run.parallelism.data_parallel_size, run.batch.gradient_accumulation_steps
    if not (isinstance(ranks, int) and isinstance(steps, int)) or not _can_share(run):
        return
    now = get(run, run.planning.sequence_sharing)
    numbers = (ranks,) if run.planning.all_share_sequences else (2, 4, 8)
    for times in (times for times in numbers if ranks % times == 0 and times > 1 and _heads_divide(run, now * times)):
        changes = {
            run.planning.sequence_sharing: now * times,
            "parallelism.data_parallel_size": ranks // times,
            "batch.gradient_accumulation_steps": steps * times,
        }
        title = f"share each sequence over {now * times} GPUs ({times} times the accumulation)"
        yield ProposedChange(title, changes, "shared sequences", note=run.planning.sequence_sharing_needs)


def _can_share(run: Run) -> bool:
    """Ring attention and Ulysses are written for FlashAttention. Images want code that puts their features into a part
    of the sequence alone."""
    length, attention = run.sequence.length, run.attention.implementation
    alone = run.batch.micro_batch_size == 1 or bool(run.batch.max_tokens)
    flash = isinstance(attention, str) and attention.startswith("flash_attention")
    long = isinstance(length, int) and length >= _LONG
    sees = bool(getattr(run.model.architecture, "towers", ())) and not run.planning.shares_images
    return bool(run.planning.sequence_sharing) and alone and flash and long and not sees and _padding_is_removed(run)


def _padding_is_removed(run: Run) -> bool:
    """Under reinforcement learning the engine shares joined sequences alone (verl 0.9.1
    workers/engine/fsdp/transformer_impl.py:148)."""
    return run.method.stage not in ("ppo", "grpo") or run.sequence.unpadded is True


def _heads_divide(run: Run, degree: int) -> bool:
    """Whether every layer's attention can give each GPU as many heads, of keys and values as well. Linear attention
    hands states from one part of a sequence to the next, which verl leaves out (verl-project/verl#7476)."""
    kinds = [layer.attention for layer in getattr(run.model.architecture, "layer_types", ())]
    return bool(kinds) and all(one.kind == "attention" and one.kv_heads % degree == 0 for one in kinds)


MOVES: tuple[Move, ...] = (shared_sequences,)
