"""Estimates without a central figure: with the reason, and a lower bound of the allocated bytes if there is one.

Bytes on one GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import memlint.memory.parameters as parameters
from memlint._record import NamedTuple
from memlint.memory.model_state import PlacedModel, with_counts
from memlint.memory.parameters import MissingValue
from memlint.memory.values import Estimate, UnknownField
from memlint.run import Run, replace

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
    if not isinstance(written, int) or not written:
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
    """The value of an unknown field that needs the least memory, and its name in messages. `field`: the field to set,
    if it is not the unknown one."""

    value: object
    words: str
    field: str = ""


_LEAST: Mapping[str, _Least] = {
    "method.rank": _Least(1, "rank 1"),
    "method.kind": _Least("ia3", "frozen weights and a vector for each layer"),
    "method.targets": _Least("ia3", "frozen weights and a vector for each layer", "method.kind"),
    "sequence.length": _Least(1, "sequences of one token"),
    "batch.micro_batch_size": _Least(1, "a batch of one"),
    "attention.implementation": _Least("flash_attention_2", "FlashAttention"),
    "optimizer.name": _Least("sgd", "SGD"),
    "precision.compute": _Least("bfloat16", "16 bits"),
}


def with_least_values(run: Run, found: Estimate, estimate: _Estimator) -> Estimate:
    """A lower bound for a run with unknown fields: the estimate with the value of each that needs the least memory.

    `found` if a field without such a value is unknown, too.
    """
    (missing,) = found.unknown
    words: list[str] = []
    field, low = missing.field, None
    while low is None:
        least = _LEAST.get(field)
        if least is None or least.words in words:
            return found
        run, words = replace(run, {least.field or field: least.value}), [*words, least.words]
        tried = estimate(run)
        low = tried.allocated_low_bytes or tried.allocated_bytes
        field = tried.unknown[0].field if tried.unknown else ""
    reason = f"{missing.reason}: at least {_gib(low)} with {_listed(words)}"
    return unknown(UnknownField(missing.field, reason), allocated_low_bytes=low, parameters=tried.parameters)


def _listed(words: list[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def with_merged_model(run: Run, found: Estimate) -> Estimate:
    """The estimate of an export: nothing is on a card, and the host holds the model."""
    import memlint.memory.host as host

    try:
        return found._replace(host_bytes=host.merging(run), parameters=parameters.total(parameters.units(run)))
    except MissingValue:
        return found


def fullest_stage(run: Run) -> Estimate:
    """A lower bound for a run with pipeline stages: what a GPU of the fullest stage holds at least."""
    import memlint.memory.sharding.pipeline as pipeline

    bound = pipeline.fullest_stage(run)
    stages = run.parallelism.pipeline_parallel_size
    field = "parallelism.pipeline_parallel_size" if stages > 1 else "parallelism.engine"
    figures = (
        f"weights {_gib(bound.weights)}, gradients {_gib(bound.gradients)}, optimizer states "
        f"{_gib(bound.optimizer_states)}, inputs of {bound.layers} layers {_gib(bound.activations)}"
    )
    where = f"the fullest of {stages} stages with {bound.in_flight} micro batches in flight" if stages > 1 else "a GPU"
    reason = f"at least {_gib(bound.total)} on {where} ({figures}); what else its layers keep is not modelled"
    whole = parameters.units(run)
    details = {
        "weights_bytes": bound.weights,
        "gradients_bytes": bound.gradients,
        "optimizer_state_bytes": bound.optimizer_states,
        "kept_activations_bytes": bound.activations,
    }
    found = unknown(UnknownField(field, reason), allocated_low_bytes=bound.total, details=details)
    trainable = parameters.total(whole, trainable=True)
    return found._replace(parameters=parameters.total(whole), trainable_parameters=trainable)


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
