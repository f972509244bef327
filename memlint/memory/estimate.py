"""The closed-form estimate of a run's GPU memory: what `memlint.estimate` returns. Bytes on one GPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import memlint.memory.card.device as device
import memlint.memory.card.interval as interval
import memlint.memory.families.lookup as families
import memlint.memory.state.model_state as model_state
import memlint.memory.unknown.values as unknown_values
from memlint._lazy import Lazy
from memlint._record import NamedTuple
from memlint.memory.autograd.walk import Segment, Walk
from memlint.memory.canonical_run import canonical
from memlint.memory.card.figures import (
    NOTHING_BESIDE_TENSORS,
    least_needed,
    overhead_inputs,
    step_reserve,
    with_card_figures,
)
from memlint.memory.details import details_of, host_details, image_details
from memlint.memory.estimate_cache import EstimateCache
from memlint.memory.phases import beside_another_graph, inputs_bytes, least_allocated, phase, phases, phases_with_images
from memlint.memory.segments.of_model import runs_reference_forward, segments
from memlint.memory.segments.step import TrainingStep, required_count, training_step
from memlint.memory.state.model_state import PlacedModel, placed_model, with_counts, with_reference_copy
from memlint.memory.state.parameters import MissingValue
from memlint.memory.unknown.readings import over_readings
from memlint.memory.unknown.unmodelled import refuse_unmodelled, refuse_unplaceable
from memlint.memory.values import (
    Estimate,
    ModelState,
    Phase,
    StagedEstimate,
    Stages,
    TensorEstimate,
    Unit,
    UnknownField,
    tensors_of,
)
from memlint.run import SERVERS, UNKNOWN, Run, writes_completions

TYPE_CHECKING = False
if TYPE_CHECKING:
    import memlint.memory.generation.rollout as rollout
    from memlint.memory.state.frozen_models import FrozenModel
else:
    rollout = Lazy("memlint.memory.generation.rollout")

# The policy reads its own completions and the reference's in two forwards, whose graphs wait for one backward (trl 1.13
# experimental/xpo/xpo_trainer.py, _compute_logprobs).
_STAGES_WITH_TWO_GRAPHS = ("xpo",)

_ESTIMATES = EstimateCache(512)  # of a few KB each
_TENSORS = EstimateCache(64)  # they come back where a file is read again with a fix
# An estimate only depends on the model and on these fields of a run, not on format, paths and origins.
_FIRST, _LAST = Run._fields.index("method"), Run._fields.index("purpose") + 1


def estimate(run: Run) -> Estimate:
    """The peak of `run` per GPU. Never raises on a Run: missing values are listed in `unknown`."""
    return _over_numbers(run, over_readings(run, estimate_as_it_stands))


def _over_numbers(run: Run, found: Estimate) -> Estimate:
    """`found`; where only the number of GPUs is missing, what all usual numbers of them agree on."""
    if run.parallelism.world_size is not UNKNOWN or not found.unknown:
        return found
    from memlint.memory.unknown.gpu_numbers import over_numbers_of_gpus  # where nothing says how many there are

    return over_numbers_of_gpus(run, found, estimate_as_it_stands)


def estimate_as_it_stands(run: Run) -> Estimate:
    """The estimate of the run itself, ignoring its other readings."""
    return _cached(canonical(run), estimate_uncached)


def _cached(run: Run, make: Callable[[Run], Estimate]) -> Estimate:
    """The cached estimate of a canonical run, computed by `make` if there is none."""
    found: Estimate = _ESTIMATES.get(run.model, run[_FIRST:_LAST], lambda: make(run), _is_known)
    return found


def estimate_in_stages(run: Run) -> StagedEstimate:
    """The estimate of `run`, of which tensors and the card's figures are computed when they are asked for.

    A card that is named decides the verdict, so that its figures are needed in any case.
    """
    if device.usable_bytes(run):
        return StagedEstimate(estimate(run))
    own = canonical(run)
    origins = {name: (origin.kind, origin.detail) for name, origin in run.origins.items()}
    basis = own.model, own[_FIRST:_LAST], run.readings
    return StagedEstimate(Stages(basis, origins, partial(_first_stage, run, own), partial(estimate, run)))


def _first_stage(run: Run, own: Run) -> TensorEstimate | Estimate:
    """The estimate of the tensors of `run`, which is `own` in canonical form. Where nothing is replayed in a model of
    the allocator, as for all but full fine-tuning, the whole estimate is hardly more work."""
    if run.method.kind != "full" or run.purpose != "train":
        return estimate(run)
    found: TensorEstimate | Estimate = _TENSORS.get(
        own.model, own[_FIRST:_LAST], partial(_tensors_or_unknown, own), _is_known
    )
    return over_readings(run, estimate_as_it_stands, found) if isinstance(found, Estimate) else found


def _tensors_or_unknown(run: Run) -> TensorEstimate | Estimate:
    """The estimate of a run's tensors; the whole one where there are no figures."""
    found = estimate_uncached(run, replays=False)
    return found if found.unknown else tensors_of(found)


def estimate_unless_over(run: Run) -> Estimate | None:
    """The estimate of a training run; None if it certainly does not fit its card, in the first of its readings.

    The computation stops as soon as that is certain: later parts can only add to the total.
    """
    if run.readings:
        return None if estimate_unless_over(run._replace(readings=())) is None else estimate(run)
    try:
        return _over_numbers(run, _cached(canonical(run), partial(estimate_uncached, may_stop=True)))
    except _SurelyOver:
        return None


class _SurelyOver(Exception):
    """A run needs more than its card has, even without what is not counted yet."""


def _stop_where_over(run: Run, least: int) -> None:
    """Raises `_SurelyOver` if `least` bytes are more than the card has."""
    if least > device.usable_bytes(run) > 0:
        raise _SurelyOver


def least_bytes(run: Run) -> int:
    """A lower bound of the bytes that the card of a training run shows: without activations. 0 if that is not modelled.

    Much cheaper than an estimate. A run that needs more than its card has without activations does not fit.
    """
    run = canonical(run)
    try:
        unknown_values.refuse(run)
        if _is_divided_into_stages(run):
            return 0
        return _without_activations(with_effective_attention(_patched_by_unsloth(run)))
    except MissingValue:
        return 0


def trains_nothing(run: Run) -> bool:
    """Whether no parameter of the run trains, said without estimating it. Raises `MissingValue`."""
    unknown_values.refuse(run)
    return model_state.trains_nothing(_patched_by_unsloth(canonical(run)))


def _without_activations(run: Run) -> int:
    return least_allocated(placed_model(run, at_rest=True).state) + device.outside_allocator(run)


def _is_known(found: Estimate | TensorEstimate) -> bool:
    """Whether to cache an estimate. Those without figures are not cached, because their reasons quote the file."""
    return not found.unknown


def estimate_uncached(run: Run, simulated: bool = False, may_stop: bool = False, replays: bool = True) -> Estimate:
    """The estimate without the cache.

    `simulated`: comparable to a step on fake tensors, that is without the memory that CUDA kernels allocate internally.
    `may_stop`: raise `_SurelyOver` as soon as the run is over its budget. `replays`: figures of the card; without them
    the allocator is not replayed, and only what `tensors_of` takes of the estimate holds.
    """
    try:
        return _estimate(with_effective_attention(_patched_by_unsloth(run)), simulated, may_stop, replays)
    except MissingValue as missing:
        import memlint.memory.unknown.lower_bounds as lower_bounds

        found = lower_bounds.unknown(UnknownField(missing.field, _reason(run, missing)))
        if missing.field == "sequence.length" and writes_completions(run):
            return lower_bounds.with_completions_alone(run, found, partial(estimate_uncached, replays=False))
        if run.purpose == "export":
            return lower_bounds.with_merged_model(run, found)
        return lower_bounds.with_least_values(run, found, _tensors_without_bounds)


def _tensors_without_bounds(run: Run) -> Estimate:
    """The estimate without a replay; if a value is missing, one that only names the missing field."""
    try:
        return _estimate(with_effective_attention(_patched_by_unsloth(run)), replays=False)
    except MissingValue as missing:
        import memlint.memory.unknown.lower_bounds as lower_bounds

        return lower_bounds.unknown(UnknownField(missing.field, missing.reason))


def _patched_by_unsloth(run: Run) -> Run:
    if not run.stack.use_unsloth:
        return run
    import memlint.memory.unsloth as unsloth

    return unsloth.as_patched(run)


def with_effective_attention(run: Run) -> Run:
    """The run, with eager attention if this release of transformers has no sdpa for the model."""
    has_sdpa = families.of(run.model.architecture).attention.sdpa
    if run.attention.implementation != "sdpa" or has_sdpa.include(run.stack.transformers):
        return run
    return run._replace(attention=run.attention._replace(implementation="eager"))


def _reason(run: Run, missing: MissingValue) -> str:
    """Why the value is missing: the format's reason if there is one, else the estimator's."""
    origin = run.origins.get(missing.field)
    return origin.detail if origin is not None and origin.kind == "unknown" and origin.detail else missing.reason


def _is_divided_into_stages(run: Run) -> bool:
    return run.parallelism.engine == "megatron" or run.parallelism.pipeline_parallel_size > 1


class _Models(NamedTuple):
    """The models that a run has on one GPU. `policy`: the state of the trained and the frozen models. `state`: the same
    with the value model, if there is one."""

    placed: PlacedModel
    frozen: tuple[FrozenModel, ...]
    critic: rollout.Critic | None
    policy: ModelState
    state: ModelState


def _models(run: Run, placed: PlacedModel) -> _Models:
    frozen = _frozen_models(run)
    policy = _with_other_models(run, placed, frozen)
    value = run.method.value_model
    critic = rollout.critic(run) if value is not None else None
    state = policy if critic is None else rollout.with_critic(policy, critic, value)
    return _Models(placed, frozen, critic, policy, state)


def _frozen_models(run: Run) -> tuple[FrozenModel, ...]:
    """The other, frozen models that the run loads, placed by its engine."""
    if run.method.extra_models == ():
        return ()
    from memlint.memory.state.frozen_models import frozen_models

    return frozen_models(run)


def _with_other_models(run: Run, placed: PlacedModel, frozen: tuple[FrozenModel, ...]) -> ModelState:
    """The state of the trained model, plus a copy of it as reference (if there is one) and the frozen models."""
    state = with_reference_copy(run, placed.units, placed.state)
    if not frozen:
        return state
    from memlint.memory.state.frozen_models import with_weights_of

    return with_weights_of(frozen, state)


def _estimate(run: Run, simulated: bool = False, may_stop: bool = False, replays: bool = True) -> Estimate:
    unknown_values.refuse(run)
    if _is_divided_into_stages(run):
        import memlint.memory.unknown.lower_bounds as lower_bounds

        return lower_bounds.fullest_stage(run)
    refuse_unplaceable(run)
    if may_stop:
        _stop_where_over(run, _without_activations(run))
    placed = placed_model(run)
    try:
        refuse_unmodelled(run, placed.computed)
    except MissingValue as missing:
        import memlint.memory.unknown.lower_bounds as lower_bounds

        return lower_bounds.state_alone(run, placed, missing)
    models = _models(run, placed)
    found = (
        _inference(run, models) if run.purpose == "inference" else _training(run, models, simulated, may_stop, replays)
    )
    return with_counts(found, placed)


def _training(run: Run, models: _Models, simulated: bool, may_stop: bool, replays: bool) -> Estimate:
    units, state = models.placed.computed, models.state
    step = training_step(run, units, simulated)
    found, walk = _training_phases(step, models, simulated, may_stop)
    updated = _value_update(run, models)
    every = found if updated is None else (*found, updated)
    peak = max(every, key=_allocated)
    details = {**details_of(run, state, walk, peak), "other_models_bytes": state.weights - models.placed.state.weights}
    details |= overhead_inputs(every, units, state) | image_details(run, units)
    if may_stop:
        _stop_where_over(run, least_needed(run, peak, details | NOTHING_BESIDE_TENSORS))
    if replays:
        details |= step_reserve(step, every, walk, units, state, inputs_bytes(step))
    if may_stop:
        _stop_where_over(run, least_needed(run, peak, details))
    low, high = (_allocated(peak),) * 2 if simulated else _bounds(run, models, found)
    if updated is not None and models.critic is not None:
        low, high = _with_value_update(run, models, found, updated, (low, high))
    if low < high:
        details |= {"allocated_low_bytes": low, "allocated_high_bytes": high}
    details |= host_details(run, models.placed.units)
    if run.stack.use_unsloth:
        import memlint.memory.unsloth as unsloth

        details["doubtful_logits_bytes"] = unsloth.possible_logits(step)
    beside_engine = rollout.beside_engine(run, units, state) if run.rollout.sleep_level else ()
    estimated = with_card_figures(run, every + beside_engine, peak, details)._replace(
        allocated_low_bytes=low if low < high else None,
        allocated_high_bytes=high if low < high else None,
        host_bytes=state.host_bytes + _offloaded_checkpoints(step, units),
    )
    if not beside_engine or run.hardware.gpu is None:
        return estimated
    return rollout.with_engine_beside(estimated, run, beside_engine, rollout.when_woken_at_once(run, units, state))


def _value_update(run: Run, models: _Models) -> Phase | None:
    """The phase of a value model's own update; None if it has none."""
    if models.critic is None or run.method.value_model.in_one_step:
        return None
    return rollout.value_update(models.critic, models.policy, run)


def _with_value_update(
    run: Run, models: _Models, found: tuple[Phase, ...], updated: Phase, bounds: tuple[int, int]
) -> tuple[int, int]:
    """The bounds of all other phases with the update of the value model."""
    unpadded = run.sequence.unpadded or run.method.value_model.unpadded
    shortest = rollout.shortest(run) if unpadded else None
    critic = models.critic if shortest is None else rollout.critic(shortest)
    least = updated if shortest is None or critic is None else rollout.value_update(critic, models.policy, shortest)
    before = max(found, key=_allocated)
    at_once = 0 if models.critic is None else rollout.at_once(updated, models.critic, before, run)
    return max(bounds[0], least.allocated_bytes), max(bounds[1], updated.allocated_bytes, at_once)


class StepParts(NamedTuple):
    """The parts of a run's estimate. `units`: as stored. An inference run has no `step`."""

    units: tuple[Unit, ...]
    state: ModelState
    step: TrainingStep | None = None
    segments: tuple[Segment, ...] = ()
    walk: Walk | None = None


def step_parts(run: Run) -> StepParts:
    """The parts of the estimate of a run that has one; for `memory.arithmetic`."""
    run = with_effective_attention(_patched_by_unsloth(canonical(run)))
    placed = placed_model(run)
    state = _with_other_models(run, placed, _frozen_models(run))
    if run.purpose == "inference":
        return _inference_parts(run, placed, state)
    step = training_step(run, placed.computed)
    found = tuple(segments(step, placed.computed, state))
    return StepParts(placed.units, state, step, found, phases(step, placed.computed, state)[1])


def _inference_parts(run: Run, placed: PlacedModel, state: ModelState) -> StepParts:
    """The parts of a prefill on one card; of a server, and of an evaluation, the state alone."""
    if run.parallelism.engine in SERVERS or run.batch.micro_batch_size is UNKNOWN:
        return StepParts(placed.units, state)
    import memlint.memory.evaluation as evaluation
    import memlint.memory.generation.inference as inference

    plain = run._replace(method=run.method._replace(stage="sft"))
    sequences = required_count(run.batch.micro_batch_size, "batch.micro_batch_size", "") * max(
        1, run.evaluation.num_beams
    )
    step = inference.for_last_token(training_step(plain, placed.computed, sequences=sequences))
    found = tuple(evaluation.segments_without_gradients(step, placed.computed, state))
    return StepParts(placed.units, state, step, found)


def _training_phases(
    step: TrainingStep, models: _Models, simulated: bool, may_stop: bool
) -> tuple[tuple[Phase, ...], Walk]:
    """All phases of a training run, with evaluation and generation where it has them, and the walk over its step."""
    run, units, state, critic = step.run, models.placed.computed, models.state, models.critic
    found, walk = phases(step, units, state)
    if run.model.architecture.towers:
        found = _with_images(run, simulated, units, state, found)
    if runs_reference_forward(run):
        from memlint.memory.evaluation import with_reference_forward

        load, forward, *rest = found
        reference, moved = _reference_forward(step, models)
        found = (load, with_reference_forward(step, forward, walk.saved_activations, reference, moved), *rest)
    if run.method.stage in _STAGES_WITH_TWO_GRAPHS:
        found = _with_two_graphs(found, walk, models, run)
    if may_stop:  # more phases, and what a value model adds to these, can only need more
        _stop_where_over(run, max(map(_allocated, found)) + device.outside_allocator(run))
    if run.evaluation.enabled is True:
        from memlint.memory.evaluation import evaluation

        found += (evaluation(run, units, state, simulated),)
    joined = critic if critic is not None and run.method.value_model.in_one_step else None
    if joined is not None:
        found = rollout.in_one_step(found, joined)
    if writes_completions(run):
        found += rollout.log_probabilities(run, units, state)
    generated = _generation(run, units, state, joined)
    return found if generated is None else (*found, generated), walk


def _with_two_graphs(found: tuple[Phase, ...], walk: Walk, models: _Models, run: Run) -> tuple[Phase, ...]:
    """The phases with a second, equal graph. The gradients that the backward of one leaves wait for those of the other,
    and are added to gradients of earlier micro-batches then (torch, InputBuffer::accumulate)."""
    steps = run.batch.gradient_accumulation_steps
    once, repeated = (_backward_of(run, models, count) for count in (1, 2))
    first = beside_another_graph(found, walk)
    backward = max(beside_another_graph((once,), walk)[0], repeated, key=_allocated)
    if not (isinstance(steps, int) and steps == 1):
        parts = dict(backward.components)
        parts["gradients"] += models.state.gradients_at_step
        backward = phase("backward", parts)
    return tuple(backward if one.name == "backward" else one for one in first)


def _backward_of(run: Run, models: _Models, steps: int) -> Phase:
    """The backward of one graph as if the run accumulated `steps` micro-batches."""
    own = run._replace(batch=run.batch._replace(gradient_accumulation_steps=steps))
    placed = placed_model(own)
    state = _with_other_models(own, placed, models.frozen)
    found, _ = phases(training_step(own, placed.computed), placed.computed, state)
    return next(one for one in found if one.name == "backward")


def _offloaded_checkpoints(step: TrainingStep, units: tuple[Unit, ...]) -> int:
    """Bytes of host memory that offloaded activation checkpoints take."""
    if not step.run.checkpointing.offload:
        return 0
    from memlint.memory.segments.checkpoint_offload import offloaded_checkpoint_bytes

    return offloaded_checkpoint_bytes(step, units)


def _bounds(run: Run, models: _Models, found: tuple[Phase, ...]) -> tuple[int, int]:
    """The lowest and the highest peak, bytes, among the runs that the file may describe."""
    placed, state = models.placed, models.state
    low, high = interval.peak_interval(run, placed.computed, state, found)
    shortest = rollout.shortest(run) if run.sequence.unpadded else None
    if shortest is not None:
        units = placed.computed
        least, _ = phases(training_step(shortest, units), units, state)
        least += rollout.log_probabilities(shortest, units, state)
        low = min(low, max(map(_allocated, least)))
    if not run.model.architecture.towers:
        return low, high
    import memlint.memory.vision.towers as towers

    high = max(high, interval.peak_with_images(run, placed.computed, state, found))
    without_images = interval.without_images(run)
    if without_images is None or not towers.trains(placed.units):
        return low, high
    text_only = placed_model(without_images)
    text_state = _with_other_models(without_images, text_only, models.frozen)
    lowest, _ = phases(training_step(without_images, text_only.computed), text_only.computed, text_state)
    return min(low, max(map(_allocated, lowest))), high


def _with_images(
    run: Run, simulated: bool, units: tuple[Unit, ...], state: ModelState, found: tuple[Phase, ...]
) -> tuple[Phase, ...]:
    """The phases with the number of images that the central figure assumes."""
    seen = interval.with_images_counted(run, units)
    if not seen.sequence.images:
        return found
    shown = phases_with_images(training_step(seen, units, simulated), units, state)
    return shown + found[len(shown) :]


def _generation(run: Run, units: tuple[Unit, ...], state: ModelState, critic: rollout.Critic | None) -> Phase | None:
    """`critic`: a value model that is unwrapped with the policy."""
    if not writes_completions(run) or (run.rollout.sleep_level and run.rollout.generator != "model"):
        return None
    from memlint.memory.generation.completions import generation

    return generation(run, units, state, () if critic is None else critic.units)


def _inference(run: Run, models: _Models) -> Estimate:
    units, state = models.placed.computed, models.state
    if run.parallelism.engine in SERVERS:
        import memlint.memory.generation.serving as serving

        return serving.estimate(run, units, state)
    import memlint.memory.generation.inference as inference

    found = inference.phases(run, units, state)
    peak = max(found, key=_allocated)
    details = {name + "_bytes": peak.components[name] for name in ("activations", "logits")}
    weights = peak.components["weights"]
    details |= {"weights_bytes": weights, "resident_bytes": weights, "whole_logits_bytes": 0}
    return with_card_figures(run, found, peak, details | inference.cache_details(run, found))


def _reference_forward(step: TrainingStep, models: _Models) -> tuple[int, int]:
    """Peak of the reference model's forward, and of its parameters what is moved to the card for it, bytes. Without a
    named reference it runs the policy's own layers."""
    if step.run.method.reference_model == "named" and models.frozen:
        from memlint.memory.state.frozen_models import forward_bytes, moved_bytes

        reference = models.frozen[0]
        refuse_unmodelled(reference.run, reference.units)
        return forward_bytes(reference._replace(run=with_effective_attention(reference.run))), moved_bytes(reference)
    from memlint.memory.evaluation import forward_without_gradients

    return forward_without_gradients(step, models.placed.computed, models.state, head=False)[0], 0


def _allocated(phase: Phase) -> int:
    return phase.allocated_bytes
