"""Changes of reinforcement learning: what writes the completions, and the forwards that compute log-probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memlint.fixes.proposed_change import Move, ProposedChange
from memlint.memory.card.device import usable_bytes
from memlint.memory.generation.rollout import engine_room
from memlint.memory.state.parameters import MissingValue
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


_SHARES = (0.7, 0.6, 0.5, 0.4, 0.3, 0.2)
_SEQUENCES = 16  # that an engine writes at once at least: below, it waits for its cache more than it computes


def engine(run: Run) -> Iterator[ProposedChange]:
    """An inference engine on the same cards: it sleeps while the model trains, or takes a smaller share of them, as far
    as that leaves room for its weights and a cache."""
    share = run.rollout.share
    if not isinstance(share, float) or share <= 0:
        return
    if run.rollout.sleep_level == 0:
        title = "let vLLM give its memory back while the model trains"
        yield ProposedChange(title, {"rollout.sleep_level": 2}, "sleep", safe=False)
    least = least_share(run)
    for smaller in (one for one in _SHARES if least <= one < share):
        title = f"vLLM's share of the card {share:g} -> {smaller:g}"
        yield ProposedChange(title, {"rollout.share": smaller}, "generator", safe=False)


def least_share(run: Run) -> float:
    """The share in which an engine has room for its weights, what it computes with and _SEQUENCES of full length; 0
    where the card or the model is not known."""
    usable = usable_bytes(run)
    try:
        return engine_room(run, _SEQUENCES) / usable if usable else 0.0
    except MissingValue:
        return 0.0


def engine_ranks(run: Run) -> Iterator[ProposedChange]:
    """An engine over more of the cards: each holds less of its weights, and more of its cache."""
    ranks, share = run.rollout.tensor_parallel_size, run.rollout.share
    if not (isinstance(ranks, int) and isinstance(share, float)) or share <= 0:
        return
    for more in divided_over(run, ranks):
        title = f"vLLM's weights over {ranks} -> {more} GPUs"
        yield ProposedChange(title, {"rollout.tensor_parallel_size": more}, "engine ranks", safe=False)


def divided_over(run: Run, ranks: int) -> tuple[int, ...]:
    """The numbers of a node's GPUs, more than `ranks`, that an engine can spread over."""
    node = _gpus_of_a_node(run)
    more = (ranks * times for times in (2, 4, 8))
    return tuple(one for one in more if node and node % one == 0 and _heads(run, one))


_LARGEST_NODE = 8


def _gpus_of_a_node(run: Run) -> int:
    """GPUs that an engine can spread over; where nobody says how many a node has, all of a run that one can hold. 0
    where that is not known either."""
    world, node = run.parallelism.world_size, run.parallelism.gpus_per_node
    if isinstance(node, int):
        return node
    return world if isinstance(world, int) and world <= _LARGEST_NODE else 0


def _heads(run: Run, ranks: int) -> bool:
    """Whether vLLM can give each GPU as many heads (vllm 0.33.0 config/model.py, verify_with_parallel_config)."""
    kinds = [layer.attention for layer in getattr(run.model.architecture, "layer_types", ())]
    return all(one.heads % ranks == 0 for one in kinds)


_MOST_PARTS = 16  # of a model of 72B (ms-swift examples/train/grpo/internal/train_72b_4gpu.sh)


def gathered_parts(run: Run) -> Iterator[ProposedChange]:
    """New weights for an engine in several parts: under ZeRO-3 each GPU gathers a part of them at a time, whole."""
    parts = run.rollout.gathered_parts
    shards = run.parallelism.engine == "deepspeed" and run.parallelism.zero.stage == 3
    while shards and run.rollout.generator.startswith("vllm") and 0 < parts < _MOST_PARTS:
        parts *= 2
        title = f"weights sent to vLLM in {parts} parts"
        yield ProposedChange(title, {"rollout.gathered_parts": parts}, "gathered parts")


def critic(run: Run) -> Iterator[ProposedChange]:
    """PPO's critic is a second model that trains: smaller micro-batches of its own, and host memory while the others
    compute."""
    value = run.method.value_model
    if value is None:
        return
    size = value.micro_batch_size
    while run.planning.critic_has_own_batch and isinstance(size, int) and size > 1:
        size //= 2
        changes = {"method.value_model.micro_batch_size": size}
        yield ProposedChange(f"critic: micro batch {value.micro_batch_size} -> {size}", changes, "critic batch")
    away = {f"method.value_model.{name}": True for name in _AWAY if not getattr(value, name)}
    if away and not value.in_one_step:
        title = "critic: weights and optimizer states in host memory while it does not compute"
        yield ProposedChange(title, away, "critic", safe=False)


_AWAY = ("offloads_weights", "offloads_optimizer")


def waiting(run: Run) -> Iterator[ProposedChange]:
    """Optimizer states, and then the weights as well, in host memory while an engine on the same cards writes
    completions: they have nothing to do then."""
    own = run.rollout
    if not isinstance(own.share, float) or own.share <= 0 or run.parallelism.fsdp.cpu_offload or own.offloads_weights:
        return
    states = {} if own.offloads_optimizer else {"rollout.offloads_optimizer": True}
    if states and run.offload.optimizer == "none":
        yield ProposedChange("optimizer states in host memory during the rollout", states, "waiting", safe=False)
    if run.method.kind != "lora":
        title = f"weights{' and optimizer states' if states else ''} in host memory during the rollout"
        yield ProposedChange(title, {**states, "rollout.offloads_weights": True}, "waiting", safe=False)


def reference(run: Run) -> Iterator[ProposedChange]:
    """A reference model whose layers come from host memory for its forward."""
    if run.method.reference_model == "copy" and not run.rollout.offloads_reference:
        changes = {"rollout.offloads_reference": True}
        yield ProposedChange("reference model in host memory", changes, "reference offload", safe=False)


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
        title = f"at most {bound} -> {smaller} tokens in a forward"
        if degree > 1:
            title = f"at most {smaller // degree} tokens in a forward on each GPU"
        yield ProposedChange(title, {"batch.max_tokens": smaller}, "tokens")
        smaller //= 2


MOVES: tuple[Move, ...] = (
    *(generation, engine, engine_ranks, gathered_parts, waiting, reference, critic, log_probabilities, tokens),
)
