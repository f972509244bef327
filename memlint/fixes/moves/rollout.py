"""Changes of reinforcement learning: what writes the completions, and the forwards that compute log-probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memlint.fixes.proposed_change import Move, ProposedChange
from memlint.run import Run


def generation(run: Run) -> Iterator[ProposedChange]:
    """Completions of PPO and GRPO: fewer, or written without the whole model on each GPU."""
    if run.method.stage not in ("ppo", "grpo"):
        return
    zero, count = run.parallelism.zero, run.method.num_generations
    if run.rollout.generator == "model" and zero.stage == 3 and zero.gathers_for_generation:
        changes: dict[str, Any] = {"parallelism.zero.gathers_for_generation": False}
        yield ProposedChange("generate from ZeRO-3's shards", changes, "gather", safe=False)
    while run.method.stage == "grpo" and count > 3 and count % 2 == 0:
        count //= 2
        title = f"{run.method.num_generations} -> {count} completions a prompt"
        yield ProposedChange(title, {"method.num_generations": count}, "generations", safe=False)


_SMALL_SHARE = 0.2


def engine(run: Run) -> Iterator[ProposedChange]:
    """An inference engine on the same cards: it sleeps while the model trains, or takes a smaller share of them."""
    share = run.rollout.share
    if not isinstance(share, float) or share <= 0:
        return
    if run.rollout.sleep_level == 0:
        title = "let vLLM give its memory back while the model trains"
        yield ProposedChange(title, {"rollout.sleep_level": 2}, "sleep", safe=False)
    if share > _SMALL_SHARE:
        title = f"vLLM's share of the card {share:g} -> {_SMALL_SHARE:g}"
        yield ProposedChange(title, {"rollout.share": _SMALL_SHARE}, "generator", safe=False)


def log_probabilities(run: Run) -> Iterator[ProposedChange]:
    """Fewer sequences in the forwards before the update: the same numbers, in more forwards."""
    rows, reference = run.rollout.log_prob_micro_batch_size, run.rollout.reference_micro_batch_size
    if not isinstance(rows, int) or not isinstance(reference, int):
        return
    smaller = max(rows, reference) // 2
    while smaller:
        changes = {
            "rollout.log_prob_micro_batch_size": min(rows, smaller),
            "rollout.reference_micro_batch_size": min(reference, smaller),
        }
        changed = {field: value for field, value in changes.items() if value != getattr(run.rollout, field[8:])}
        title = f"log-probabilities of {max(rows, reference)} -> {smaller} sequences at a time"
        yield ProposedChange(title, changed, "log probabilities")
        smaller //= 2


def tokens(run: Run) -> Iterator[ProposedChange]:
    """A lower bound on the tokens of one forward, down to the longest sequence."""
    bound, length = run.batch.max_tokens, run.sequence.length
    if not isinstance(bound, int) or not isinstance(length, int):
        return
    degree, smaller = run.parallelism.sequence_parallel_size, bound // 2
    while smaller >= max(length, 1):
        title = f"at most {bound // degree} -> {smaller // degree} tokens in a forward"
        yield ProposedChange(title, {"batch.max_tokens": smaller}, "tokens")
        smaller //= 2


MOVES: tuple[Move, ...] = (generation, engine, log_probabilities, tokens)
