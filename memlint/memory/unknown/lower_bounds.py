"""Estimates without a central figure: with the reason, and a lower bound of the allocated bytes if there is one.

Bytes on one GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import memlint.memory.card.device as device
import memlint.memory.state.parameters as parameters
import memlint.memory.unknown.values as unknown_values
from memlint._record import NamedTuple
from memlint.memory.state.model_state import PlacedModel, with_counts
from memlint.memory.state.parameters import MissingValue
from memlint.memory.values import Estimate, UnknownField
from memlint.run import UNKNOWN, Quantization, Run, replace

_Estimator = Callable[[Run], Estimate]


def unknown(*fields: UnknownField, **facts: Any) -> Estimate:
    """An estimate without figures. `fields`: what is missing, with reasons."""
    return Estimate((), "", None, None, None, None, None, None, "unknown", unknown=fields, **facts)


def with_completions_alone(run: Run, found: Estimate, estimate: _Estimator) -> Estimate:
    """A lower bound for a run whose prompts have no maximum length: completions without prompts.

    The reason (for people) names the memory for completions of maximum length. Since all may be shorter, the lower
    bound (for rules) is that of one token.
    """
    written = run.sequence.max_new_tokens
    if not isinstance(written, int) or not written or run.sequence.length is not UNKNOWN:
        return found
    whole, certain = (estimate(_with_completions(run, length)) for length in (written, 1))
    low, least = (one.allocated_low_bytes or one.allocated_bytes for one in (whole, certain))
    if low is None or least is None:
        return found
    (missing,) = found.unknown
    reason = f"{missing.reason}: at least {_gib(low)} where completions have {written} tokens"
    facts = {"parameters": whole.parameters, "trainable_parameters": whole.trainable_parameters}
    return unknown(UnknownField(missing.field, reason), allocated_low_bytes=least, **facts)


def _with_completions(run: Run, length: int) -> Run:
    return run._replace(sequence=run.sequence._replace(length=length, max_new_tokens=length))


class _Least(NamedTuple):
    """The value of an unknown field that needs the least memory, and its name in messages.

    `ways`: the changes of the run that set it. Where it depends on the run which of several needs least, all of them.
    """

    words: str
    ways: tuple[Mapping[str, object], ...]


def _least(field: str, value: object, words: str) -> tuple[str, _Least]:
    return field, _Least(words, ({field: value},))


_FROZEN = _Least(
    "frozen weights", ({"method.kind": "ia3", "method.targets": (), "method.rank": 0, "method.dropout": 0.0},)
)
_MANY = 1024
_LEAST: Mapping[str, _Least] = {
    **dict(
        (
            _least("method.rank", 1, "rank 1"),
            _least("method.dropout", 0.0, "no dropout"),
            _least("method.target_parameters", (), "no adapters on stacked experts"),
            _least("method.extra_models", (), "the trained model alone"),
            _least("checkpointing.mode", "full", "layers that are computed twice"),
            _least("sequence.length", 1, "sequences of one token"),
            _least("method.texts_per_sample", 2, "two texts a sample"),
            _least("sequence.source_length", 1, "sources of one token"),
            _least("batch.micro_batch_size", 1, "a batch of one"),
            _least("attention.implementation", "flash_attention_2", "FlashAttention"),
            _least("optimizer.name", "sgd", "SGD"),
            _least("evaluation.samples", 1, "one batch of them"),
            _least("precision.trainable_dtype", "bfloat16", "16 bits"),
            _least("method.adapter_dtype", "bfloat16", "adapters in 16 bits"),
            _least("parallelism.fsdp.strategy", "FULL_SHARD", "full sharding"),
            _least("parallelism.zero.hpz_partition_size", 1, "no secondary partition"),
            _least("rollout.sync_bucket_bytes", 0, "no bucket for new weights"),
        )
    ),
    "model.quantization.bits": _Least(
        "weights in 4 bits", ({"model.quantization": Quantization("bnb", 4, "nf4", double_quant=True)},)
    ),
    "method.kind": _FROZEN,
    "method.targets": _FROZEN,
    # GPUs share what one holds alone; buffers for what they send each other may make the other way of it less.
    "parallelism.world_size": _Least(
        f"{_MANY:,} GPUs", ({"parallelism.world_size": 1}, {"parallelism.world_size": _MANY})
    ),
    # Autocast keeps copies of weights in fp32, which fp32 alone does not have.
    "precision.compute": _Least(
        "16 or 32 bits",
        ({"precision.compute": "bfloat16"}, {"precision.compute": "float32", "precision.autocast": False}),
    ),
}
_AUTO = ("param_persistence_threshold", "reduce_bucket_size", "prefetch_bucket_size")  # `auto` asks for a width
_NO_BUCKETS = _Least("no buckets", ({f"parallelism.zero.{name}": 0 for name in _AUTO},))
_16_BITS = {"model.weights_dtype": "bfloat16"}
_4_BITS = {**_16_BITS, "model.quantization": Quantization("bnb", 4, "nf4", double_quant=True)}
_LEAST_OF_STATED_SIZE: Mapping[str, _Least] = {
    **_LEAST,
    "model.weights_dtype": _Least("16 bits", (_16_BITS,)),  # that of the checkpoint, which is not there
    **{f"parallelism.zero.{name}": _NO_BUCKETS for name in _AUTO},
}


_SHOWN = 54 << 20  # a lower bound below this reads "0.0 GiB"


class _Bound(NamedTuple):
    """Bytes that a run allocates at least, its parameters, and the values that were taken for it, in words."""

    low: int
    parameters: int | None
    words: tuple[str, ...]


def with_least_values(run: Run, found: Estimate, estimate: _Estimator) -> Estimate:
    """A lower bound for a run with unknown fields: the estimate with the value of each that needs the least memory.

    `found` if a field without such a value is unknown, too. Where no card is named, the number of GPUs has none:
    nothing would be compared with the bound, and `memory.unknown.gpu_numbers` gives the figures of each number.

    Where the maximum length is far above the length of most samples, the reason (for people) names the memory for
    samples of that length, and the lower bound (for rules) is that of one token.
    """
    (missing,) = found.unknown
    if missing.field == "parallelism.world_size" and not device.usable_bytes(run):
        return with_parameters(run, found)
    is_named = missing.field == "model.architecture"
    bound = _bound(run, missing.field, _LEAST_OF_STATED_SIZE if is_named else _LEAST, frozenset(), estimate)
    if bound is None:
        return found
    if missing.field == "parallelism.world_size" and bound.low < _SHOWN:
        return with_parameters(run, found)  # what is left where very many share a small model
    words, certain = list(dict.fromkeys(bound.words)), bound
    if run.sequence.length_is_bound and isinstance(run.sequence.length, int):
        words.append(f"samples of {run.sequence.length} tokens")
        least = _LEAST_OF_STATED_SIZE if is_named else _LEAST
        certain = _bound(_of_one_token(run), missing.field, least, frozenset(), estimate) or bound._replace(low=0)
    reason = f"{missing.reason}: at least {_gib(bound.low)} with {_listed(words)}"
    counted = None if is_named else bound.parameters
    return unknown(UnknownField(missing.field, reason), allocated_low_bytes=certain.low or None, parameters=counted)


def _of_one_token(run: Run) -> Run:
    written = run.sequence.max_new_tokens
    one = 1 if isinstance(written, int) and written else written
    source = run.sequence.source_length
    source = 1 if isinstance(source, int) and source else source
    return run._replace(sequence=run.sequence._replace(length=1, max_new_tokens=one, source_length=source))


def _bound(
    run: Run, field: str, known: Mapping[str, _Least], settled: frozenset[str], estimate: _Estimator
) -> _Bound | None:
    """The least of a run without `field`, and without those that are found missing then; None where one of them has no
    least value."""
    least = known.get(field) or _of_model(run, field) or _of_flag(run, field) or _of_sequence_sharing(run, field)
    if least is None or field in settled:
        return None
    found: list[_Bound] = []
    for way in least.ways:
        changed = replace(run, dict(way))
        tried = estimate(changed)
        low = tried.allocated_low_bytes or tried.allocated_bytes
        below: _Bound | None = _Bound(low, tried.parameters, ()) if low else None
        if below is None and tried.unknown:
            below = _bound(changed, tried.unknown[0].field, known, settled | {field}, estimate)
        if below is None:
            return None
        found.append(below._replace(words=(least.words, *below.words)))
    return min(found, key=lambda one: one.low)


def _of_model(run: Run, field: str) -> _Least | None:
    """What a model of which a field is not known is at least. Who does not see how a model is loaded does not know
    either whether it is quantised, but where all of it trains."""
    if field == "model.architecture":
        return _of_stated_size(run)
    if field != "model.weights_dtype":
        return None
    is_known = run.method.kind == "full" or run.model.quantization.method != "none"
    if is_known or "model.quantization.method" in run.origins:
        return _Least("16 bits", (_16_BITS,))
    return _Least("weights in 16 or 4 bits", (_16_BITS, _4_BITS))


def _of_flag(run: Run, field: str) -> _Least | None:
    """A flag that nobody sets, off and on."""
    ways = unknown_values.both_ways(run, field)
    return _Least(f"`{field}` as it needs least", ways) if ways else None


def _of_sequence_sharing(run: Run, field: str) -> _Least | None:
    """The more GPUs share a sequence, the less each keeps of it; weights are shared by all of them in any case."""
    world = run.parallelism.world_size
    if field != "parallelism.sequence_parallel_size" or not isinstance(world, int):
        return None
    return _Least("sequences that all GPUs share", ({field: world, "parallelism.data_parallel_size": 1},))


def _of_stated_size(run: Run) -> _Least | None:
    """A model of which nothing is known but the size that its name states, where each card has all of its layers, or a
    share of each of them: experts that cards divide or the host holds are a part of the model that nobody knows."""
    name = run.model.name
    divides = run.purpose != "train" or run.stack.use_ktransformers or run.parallelism.expert_parallel_size > 1
    if run.model.architecture is not UNKNOWN or not isinstance(name, str) or divides:
        return None
    import memlint.architectures.stated_size as stated_size

    model = stated_size.architecture(name)
    return model and _Least(f"the {stated_size.stated(name)} that its name states", ({"model.architecture": model},))


def _listed(words: list[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def with_parameters(run: Run, found: Estimate) -> Estimate:
    """`found` with the number of the model's parameters, if its architecture is known."""
    try:
        return found._replace(parameters=parameters.total(parameters.units(run)))
    except MissingValue:
        return found


def with_merged_model(run: Run, found: Estimate) -> Estimate:
    """The estimate of an export: nothing is on a card, and the host holds the model."""
    import memlint.memory.host as host

    try:
        return with_parameters(run, found)._replace(host_bytes=host.merging(run))
    except MissingValue:
        return found


def fullest_stage(run: Run) -> Estimate:
    """A lower bound for a run with pipeline stages: what a GPU of the fullest stage holds at least."""
    import memlint.memory.sharding.pipeline as pipeline

    if run.stack.unmodelled and not run.stack.unmodelled_adds:
        return unknown(UnknownField("stack.unmodelled", f"{run.stack.unmodelled} is not modelled"))
    bound = pipeline.fullest_stage(run)
    stages = run.parallelism.pipeline_parallel_size
    field = "parallelism.pipeline_parallel_size" if stages > 1 else "parallelism.engine"
    figures = (
        f"weights {_gib(bound.weights)}, gradients {_gib(bound.gradients)}, optimizer states "
        f"{_gib(bound.optimizer_states)}, inputs of {bound.layers} layers {_gib(bound.activations)}"
        + (f", the loss {_gib(bound.logits)}" if bound.logits else "")
    )
    where = f"the fullest of {stages} stages with {bound.in_flight} micro batches in flight" if stages > 1 else "a GPU"
    if run.batch.max_tokens:
        where += f" for full micro batches of {run.batch.max_tokens} tokens"
    whole = parameters.units(run)
    has_vocabulary = run.model.architecture.vocab_size > 0
    others = "what else its layers keep is not modelled"
    if not has_vocabulary:
        others = f"the vocabulary's size is not known, and {others}"
    reason = f"at least {_gib(bound.total)} on {where} ({figures}); {others}"
    details = {
        "weights_bytes": bound.weights,
        "gradients_bytes": bound.gradients,
        "optimizer_state_bytes": bound.optimizer_states,
        "kept_activations_bytes": bound.activations,
    }
    certain = pipeline.fullest_stage(_half_filled(run))
    found = unknown(UnknownField(field, reason), allocated_low_bytes=certain.total, details=details)
    if not has_vocabulary:
        return found
    trainable = parameters.total(whole, trainable=True)
    return found._replace(parameters=parameters.total(whole), trainable_parameters=trainable)


def _half_filled(run: Run) -> Run:
    """Micro batches that are filled with sequences one after the other: of several, all but one are half full at least
    (first fit)."""
    most = run.batch.max_tokens
    return run._replace(batch=run.batch._replace(max_tokens=most // 2)) if isinstance(most, int) and most > 1 else run


def state_alone(run: Run, placed: PlacedModel, missing: MissingValue) -> Estimate:
    """A lower bound for a run whose activations are not modelled: its model state."""
    state = placed.state
    bound = state.weights + state.optimizer_states + max(state.gradients_at_step, state.gradients_resident)
    # A feature that is not modelled may also reduce the model state (layers that are swapped in): no lower bound then.
    low = None if run.stack.unmodelled and not run.stack.unmodelled_adds else bound
    least = f": at least {_gib(low)} of weights, gradients and optimizer states" if low else ""
    field = UnknownField(missing.field, f"{missing.reason}{least}")
    return with_counts(unknown(field, allocated_low_bytes=low), placed)._replace(trainable_parameters=None)


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
