"""Values of a run that change as a consequence of others, so that a plan is estimated as its file will be read.

What depends on the framework and on the rest of the file is in `planning.entails` of the run (formats/entailed.py); a
planned run is the run that its file says, in every field that memory reads (tests/laws/test_offered_laws.py).

The written file is read back in any case, and its own estimate counts (fixes/written_plans.py). A consequence that is
missing here leads to plans that change more than they need, or that do not fit when they are read back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from memlint.fixes.costs import global_batch
from memlint.fixes.moves.catalog import prompts_and_completions, refuses_dropout
from memlint.fixes.moves.host import deepspeed_changes
from memlint.run import Optimizer, Run, get, liger_rows, replace


def consistent(run: Run, before: Run, chosen: Iterable[str] = ()) -> Run:
    """`run`, which is `before` with changes, completed by what follows from them. `chosen`: the fields that were
    changed; what a plan says of ZeRO's buckets and of the dropout of adapters stays."""
    kept = frozenset(name for name in chosen if name.startswith("parallelism.zero.") or name == "method.dropout")
    for part in _PARTS:
        follows = dict(part(run, before))  # all of them together: a whole section, and then a field of it
        for name in kept.intersection(follows):
            del follows[name]
        if follows and any(get(run, name) != value for name, value in follows.items()):
            run = replace(run, follows)
    return run


# The fields that change as a consequence, and cost something.
FIELDS = ("loss.liger_kernels", "optimizer.name", "precision.compute", "sequence.length")

Follows = Iterator[tuple[str, Any]]


def _completions(run: Run, before: Run) -> Follows:
    """Sequences of GRPO and PPO are a prompt and a completion."""
    prompt = run.sequence.max_prompt_length
    if prompts_and_completions(before) and isinstance(prompt, int):
        yield "sequence.length", prompt + run.sequence.max_new_tokens


def _rows(run: Run, before: Run) -> Follows:
    """Where tokens bound a forward: fewer of the longest sequences fit into fewer tokens, and more into as many tokens
    where they are shorter. The forwards before the update are bounded as the update is, where nothing else was said."""
    now, then, length = run.batch.max_tokens, before.batch.max_tokens, run.sequence.length
    if not isinstance(now, int) or not now or (now, length) == (then, before.sequence.length):
        return
    for field in ("rollout.log_prob_length", "rollout.reference_length"):
        if now != then == get(before, field):
            yield field, now
    size, steps = before.batch.micro_batch_size, before.batch.gradient_accumulation_steps
    if isinstance(length, int) and length:
        fitting = max(1, now // length)
        yield "batch.micro_batch_size", fitting
        if isinstance(size, int) and isinstance(steps, int):
            yield "batch.gradient_accumulation_steps", -(-size * steps // fitting)


def _forwards(run: Run, before: Run) -> Follows:
    """The forwards before the update run in micro batches of the update's size, where the framework says nothing
    else."""
    now, then = run.batch.micro_batch_size, before.batch.micro_batch_size
    for field in ("rollout.log_prob_micro_batch_size", "rollout.reference_micro_batch_size"):
        origin = before.origins.get(field)
        if now != then and origin is not None and origin.kind == "inferred" and get(before, field) == then:
            yield field, now


def _critic(run: Run, before: Run) -> Follows:
    """PPO's critic trains in micro-batches of the policy's size, where it has none of its own."""
    value, size = before.method.value_model, run.batch.micro_batch_size
    if value is None or run.planning.critic_has_own_batch or size == before.batch.micro_batch_size:
        return
    if value.micro_batch_size == before.batch.micro_batch_size:
        yield "method.value_model.micro_batch_size", size


def _accumulation(run: Run, before: Run) -> Follows:
    """GPUs that share a sequence train it together: the global batch wants as many times the accumulation, whatever
    the micro-batch has become."""
    ranks, whole = run.parallelism.data_parallel_size, global_batch(before)
    size = run.batch.micro_batch_size
    if not (isinstance(ranks, int) and isinstance(size, int)) or ranks == before.parallelism.data_parallel_size:
        return
    if run.parallelism.world_size == before.parallelism.world_size and whole and whole % (size * ranks) == 0:
        yield "batch.gradient_accumulation_steps", whole // (size * ranks)


def _updated_in_backward(run: Run, before: Run) -> Follows:
    """An optimizer that steps in the backward accumulates nothing, whatever a smaller micro batch asks for."""
    if run.planning.updates_in_backward and run.optimizer.layerwise and not before.optimizer.layerwise:
        yield "batch.gradient_accumulation_steps", 1


def _evaluation(run: Run, before: Run) -> Follows:
    """Evaluation takes the sizes of training where one key says both."""
    for field, source in _SIZES_OF_EVALUATION.items():
        origin, value = before.origins.get(field), get(run, source)
        said_together = origin is not None and origin == before.origins.get(source) and origin.pointer
        if said_together and get(before, field) == get(before, source) == get(run, field) != value:
            yield field, value


_SIZES_OF_EVALUATION = {
    "evaluation.batch_size": "batch.micro_batch_size",
    "evaluation.accumulation_steps": "batch.gradient_accumulation_steps",
}


def _tiles(run: Run, before: Run) -> Follows:
    """As many tiles of the MLP as the tokens of a forward fill."""
    tokens, length, size = run.planning.tokens_of_a_tile, run.sequence.length, run.batch.micro_batch_size
    if run.checkpointing.mlp_tiles and tokens and isinstance(length, int) and isinstance(size, int):
        yield "checkpointing.mlp_tiles", -(-length * size // tokens)


def _kernels(run: Run, before: Run) -> Follows:
    """One switch for the loss and the layers (transformers 5.23 integrations/liger.py, LLaMA-Factory 0.9.5
    model/model_utils/liger_kernel.py), where the framework has none for each."""
    if run.loss.kind == "liger" != before.loss.kind and not run.planning.liger_kernels_apart:
        yield "loss.liger_kernels", True


def _fused_rows(run: Run, before: Run) -> Follows:
    """Liger's losses of preferences and rollouts take one pair, sequence or completion at a time."""
    length = run.sequence.max_new_tokens if run.method.stage == "grpo" else run.sequence.length
    if run.loss.kind == "liger" and isinstance(length, int) and (rows := liger_rows(run.method.stage, length)):
        yield "loss.chunk_tokens", rows


def _adapters(run: Run, before: Run) -> Follows:
    """Adapters have the framework's default of dropout, where the change does not say that they have none."""
    dropout = run.planning.lora_dropout
    if run.method.kind == "lora" != before.method.kind and dropout and not refuses_dropout(run):
        yield "method.dropout", dropout


def _entailed(run: Run, before: Run) -> Follows:
    """What the framework makes of the changed file, as its format says (formats/entailed.py)."""
    for one in run.planning.entails:
        if _has(run, one.given) and not _has(before, one.given):
            yield from one.changes


def _has(run: Run, values: Iterable[tuple[str, Any]]) -> bool:
    return all(get(run, name) == value for name, value in values)


def _plain_optimizer(run: Run, before: Run) -> Follows:
    """What replaces an optimizer for full training, where adapters train, has none of its options."""
    if run.method.kind == "lora" != before.method.kind and run.optimizer.name != before.optimizer.name:
        for name in ("rank", "targets", "layerwise", "badam_mode", "projection"):
            yield f"optimizer.{name}", getattr(_PLAIN, name)


_PLAIN = Optimizer()


def _pure(run: Run, before: Run) -> Follows:
    """`pure_bf16` computes in bfloat16, whatever the file trained in."""
    if run.precision.autocast is False and run.precision.trainable_dtype == "bfloat16" and before.precision.autocast:
        yield "precision.compute", "bfloat16"


def _half_under_deepspeed(run: Run, before: Run) -> Follows:
    """DeepSpeed's half precision is that of the parameters, with fp32 masters in the shards (deepspeed docs,
    config-json, "BFLOAT16 Training Options")."""
    half, stage = run.precision.compute, run.parallelism.zero.stage
    stays = run.parallelism.engine == before.parallelism.engine == "deepspeed"
    if stays and isinstance(stage, int) and half != "float32" == before.precision.compute:
        yield "precision.outputs_to_fp32", False
        yield from deepspeed_changes(str(half), stage).items()


def _section(run: Run, before: Run) -> Follows:
    """A DeepSpeed section of `auto` (formats/deepspeed/edits.py, new_section): buckets follow the hidden size
    (transformers 5.23 integrations/deepspeed.py, trainer_config_finalize), and stage 3 overlaps (deepspeed 0.19
    runtime/zero/config.py, overlap_comm_valid)."""
    if run.parallelism.engine != "deepspeed" or before.parallelism.engine == "deepspeed":
        return
    hidden, stage = getattr(run.model.architecture, "hidden_size", 0), run.parallelism.zero.stage
    yield "precision.outputs_to_fp32", False
    yield "parallelism.zero.reduce_bucket_size", hidden * hidden
    if stage == 3:
        yield "parallelism.zero.prefetch_bucket_size", int(0.9 * hidden * hidden)
        yield "parallelism.zero.param_persistence_threshold", 10 * hidden
        yield "parallelism.zero.overlap_comm", True
        yield "parallelism.zero.gather_16bit_weights_on_model_save", True


def _gathered(run: Run, before: Run) -> Follows:
    """Stage 3 saves the model whole where it gathers it."""
    name = "gather_16bit_weights_on_model_save"
    if getattr(run.parallelism.zero, name) and not getattr(before.parallelism.zero, name):
        yield "saving.gathers_full_weights", True


def _launched(run: Run, before: Run) -> Follows:
    """Some frameworks start DeepSpeed with segments of the allocator that grow, and one process without."""
    starts = run.parallelism.engine == "deepspeed" != before.parallelism.engine
    if starts and run.planning.deepspeed_expands_segments:
        yield "stack.expandable_segments", True


def _pinned(run: Run, before: Run) -> Follows:
    """What is moved to the host is pinned there (formats/deepspeed/edits.py)."""
    if run.parallelism.engine != "deepspeed":
        return
    for part in ("optimizer", "parameters"):
        if getattr(run.offload, part) == "cpu" != getattr(before.offload, part):
            yield f"offload.{part}_pinned", True


def _cpu_optimizer(run: Run, before: Run) -> Follows:
    """An AdamW whose states are offloaded is DeepSpeed's own (accelerate 1.15 utils/deepspeed.py,
    map_pytorch_optim_to_deepspeed)."""
    offloads = run.parallelism.engine == "deepspeed" and run.offload.optimizer != "none" == before.offload.optimizer
    if offloads and "adamw" in str(run.optimizer.name):
        yield "optimizer.name", "cpu_adam"
        yield "optimizer.engine", "deepspeed"


_PARTS: tuple[Callable[[Run, Run], Follows], ...] = (
    *(
        _completions,
        _rows,
        _forwards,
        _critic,
        _accumulation,
        _updated_in_backward,
        _evaluation,
        _tiles,
        _kernels,
        _fused_rows,
        _adapters,
    ),
    *(
        _plain_optimizer,
        _pure,
        _half_under_deepspeed,
        _section,
        _gathered,
        _launched,
        _pinned,
        _cpu_optimizer,
        _entailed,
    ),
)
