"""The closed-form estimate of a run's GPU memory: what `memlint.estimate` returns. Bytes on one GPU."""

from __future__ import annotations

from typing import Any

import memlint.hardware as hardware
import memlint.memory.card.device as device
import memlint.memory.card.interval as interval
import memlint.memory.families.lookup as families
import memlint.memory.parameters as parameters
import memlint.memory.sharding.model_parallel as parallel
import memlint.memory.sharding.unsharded as single
from memlint._lazy import Lazy
from memlint._record import NamedTuple
from memlint.architectures.model import Architecture
from memlint.memory.autograd.walk import Walk
from memlint.memory.estimate_cache import EstimateCache
from memlint.memory.loss import FUSED_LOSSES, loss_kind
from memlint.memory.parameters import MissingValue
from memlint.memory.phases import phases, phases_with_images
from memlint.memory.releases import canonical_stack
from memlint.memory.step import TrainingStep, runs_reference_forward, training_step
from memlint.memory.storage import BYTES
from memlint.memory.values import Estimate, ModelState, Phase, Unit, UnknownField
from memlint.run import SERVERS, UNKNOWN, Run, Unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    import memlint.memory.sharding.fsdp.placement as fsdp
    import memlint.memory.sharding.zero.placement as zero
    from memlint.memory.frozen_models import FrozenModel
else:
    fsdp = Lazy("memlint.memory.sharding.fsdp.placement")
    zero = Lazy("memlint.memory.sharding.zero.placement")

_WRITES_COMPLETIONS = ("ppo", "grpo")  # stages
_ENGINES_OF_INFERENCE = ("device_map", *SERVERS)  # none of them shares optimizer states


_ESTIMATES = EstimateCache(512)  # of a few KB each
# The fields of a run that an estimate depends on beside the model: all but the format, the paths and the origins.
_FIRST, _LAST = Run._fields.index("method"), Run._fields.index("purpose") + 1


def estimate(run: Run) -> Estimate:
    """Per-GPU peak of `run`; never raises on a Run: what is missing is listed in `unknown`."""
    run = run._replace(stack=canonical_stack(run))
    found: Estimate = _ESTIMATES.get(run.model, run[_FIRST:_LAST], lambda: estimate_uncached(run), _is_known)
    return found


def _is_known(found: Estimate) -> bool:
    """Unknown estimates are not cached: their reasons quote the file."""
    return not found.unknown


def estimate_uncached(run: Run, simulated: bool = False) -> Estimate:
    """The estimate, computed anew. `simulated`: as a step on fake tensors shows it, without kernels' own memory."""
    try:
        return _estimate(with_effective_attention(_as_patched(run)), simulated)
    except MissingValue as missing:
        return unknown(UnknownField(missing.field, _reason(run, missing)))


def _as_patched(run: Run) -> Run:
    if not run.stack.use_unsloth:
        return run
    import memlint.memory.unsloth as unsloth

    return unsloth.as_patched(run)


def with_effective_attention(run: Run) -> Run:
    """The run with eager attention where its transformers had no sdpa for its model."""
    has_sdpa = families.of(run.model.architecture).attention.sdpa
    if run.attention.implementation != "sdpa" or has_sdpa.include(run.stack.transformers):
        return run
    return run._replace(attention=run.attention._replace(implementation="eager"))


def _reason(run: Run, missing: MissingValue) -> str:
    """Why the value is missing: as the format says it, else as the estimator does."""
    origin = run.origins.get(missing.field)
    return origin.detail if origin is not None and origin.kind == "unknown" and origin.detail else missing.reason


def unknown(*fields: UnknownField, **facts: Any) -> Estimate:
    """An estimate without figures. `fields`: what is missing."""
    return Estimate((), "", None, None, None, None, None, None, "unknown", unknown=fields, **facts)


def _estimate(run: Run, simulated: bool) -> Estimate:
    if run.parallelism.pipeline_parallel_size > 1:
        raise MissingValue(
            "parallelism.pipeline_parallel_size", "what a pipeline stage keeps in flight is not modelled"
        )
    if run.optimizer.badam_mode == "ratio":
        raise MissingValue("optimizer.badam_mode", "BAdam's sparse gradients (`badam_mode: ratio`) are not modelled")
    if run.stack.use_ktransformers:
        raise MissingValue("stack.use_ktransformers", "KTransformers keeps experts in host memory: not modelled")
    placed = _placed(run)
    units, computed, state = placed.units, placed.computed, placed.state
    try:
        refuse_unmodelled(run, computed)
    except MissingValue as missing:
        certain = state.weights + state.optimizer_states + max(state.gradients_at_step, state.gradients_resident)
        field = UnknownField(missing.field, missing.reason)
        floor = None if run.stack.unmodelled else certain  # experts quantised as they load, layers that come and go
        return _counted(unknown(field, allocated_low_bytes=floor), placed)._replace(trainable_parameters=None)
    alone = state.weights
    others = _frozen_models(run)
    state = _with_frozen_models(_with_reference_copy(run, units, state), others)
    if run.purpose == "inference":
        return _counted(_inference(run, computed, state), placed)
    step = training_step(run, computed, simulated)
    found, walked = phases(step, computed, state)
    if run.model.architecture.towers:
        found = _with_images(run, simulated, computed, state, found)
    if runs_reference_forward(run):
        load, forward, *rest = found
        forward = _with_reference_forward(forward, walked.saved_activations, step, computed, state, others)
        found = (load, forward, *rest)
    if run.evaluation.enabled is True:
        from memlint.memory.evaluation import evaluation

        found += (evaluation(run, computed, state, simulated),)
    generated = _generation(run, computed, state)
    if generated is not None:
        found += (generated,)
    peak = max(found, key=_allocated)
    details = {**_details(run, state, walked, peak), "other_models_bytes": state.weights - alone}
    details |= _overhead_inputs(found, computed, state) | _image_details(run, computed)
    low, high = (peak.allocated_bytes,) * 2 if simulated else _bounds(run, placed, state, others, found)
    if low < high:
        details |= {"allocated_low_bytes": low, "allocated_high_bytes": high}
    if run.stack.use_unsloth:
        import memlint.memory.unsloth as unsloth

        details["doubtful_logits_bytes"] = unsloth.doubtful_logits(step)
    waiting = _waiting_checkpoints(step, computed) if run.checkpointing.offload else 0
    estimated = with_card_figures(run, found, peak, details)._replace(
        allocated_low_bytes=low if low < high else None,
        allocated_high_bytes=high if low < high else None,
        host_bytes=state.host_bytes + waiting,
    )
    return _counted(estimated, placed)


def _counted(found: Estimate, placed: PlacedModel) -> Estimate:
    """The estimate with the model's parameters, and those on one GPU where they are fewer."""
    divided = placed.on_one_gpu != placed.parameters
    details = {**found.details, "parameters_per_gpu": placed.on_one_gpu} if divided else found.details
    return found._replace(parameters=placed.parameters, trainable_parameters=placed.trainable, details=details)


def _waiting_checkpoints(shared: TrainingStep, units: tuple[Unit, ...]) -> int:
    """Bytes of host memory under checkpoints that are offloaded."""
    from memlint.memory.checkpoint_offload import checkpoints_there

    return checkpoints_there(shared, units)


def _bounds(
    run: Run, placed: PlacedModel, state: ModelState, others: tuple[FrozenModel, ...], found: tuple[Phase, ...]
) -> tuple[int, int]:
    """The lowest and the highest peak, bytes, of the runs that the file may stand for."""
    low, high = interval.of_features(run, placed.computed, state, found)
    if not run.model.architecture.towers:
        return low, high
    import memlint.memory.vision.towers as towers

    high = max(high, interval.with_images(run, placed.computed, state, found))
    certain = interval.without_images(run)
    if certain is None or not towers.trains(placed.units):
        return low, high
    bare = _placed(certain)
    held = _with_frozen_models(_with_reference_copy(certain, bare.units, bare.state), others)
    least, _ = phases(training_step(certain, bare.computed), bare.computed, held)
    return min(low, max(map(_allocated, least))), high


def _with_images(
    run: Run, simulated: bool, units: tuple[Unit, ...], state: ModelState, found: tuple[Phase, ...]
) -> tuple[Phase, ...]:
    """The phases with the images that the central figure stands for."""
    count = interval.images_counted(run, units)
    if not count:
        return found
    seen = run._replace(sequence=run.sequence._replace(images=count))
    shown = phases_with_images(training_step(seen, units, simulated), units, state)
    return shown + found[len(shown) :]


def _image_details(run: Run, units: tuple[Unit, ...]) -> dict[str, int]:
    """How many images, and tokens of them, the central figure and the upper end stand for in each sample."""
    architecture: Architecture = run.model.architecture
    tower = next((tower for tower in architecture.towers if tower.kind == "vision"), None)
    if tower is None or not isinstance(run.sequence.length, int):
        return {}
    import memlint.memory.vision.images as images

    most = images.encoded_tokens(run, tower, run.sequence.length)
    each = images.tokens_of_image(run, tower, run.sequence.length)
    counted = interval.images_counted(run, units)
    return {"images": counted, "image_tokens": counted * each, "most_image_tokens": most, "tokens_per_image": each}


def _generation(run: Run, units: tuple[Unit, ...], state: ModelState) -> Phase | None:
    if run.method.stage not in _WRITES_COMPLETIONS:
        return None
    from memlint.memory.generation import generation

    return generation(run, units, state)


class PlacedModel(NamedTuple):
    """A run's model state, which does not depend on lengths and batches."""

    units: tuple[Unit, ...]
    computed: tuple[Unit, ...]  # as operations see them
    state: ModelState
    parameters: int  # of the whole model
    trainable: int
    on_one_gpu: int  # parameters that tensor or expert parallelism leaves on a GPU, before ZeRO or FSDP divide them


_PLACED = EstimateCache(64)


def _placed(run: Run) -> PlacedModel:
    """The model state of `run`, cached: runs that differ in lengths and batches alone share it."""
    key = (
        run.method,
        run.precision,
        run.checkpointing.mode in ("none", UNKNOWN),
        run.optimizer,
        run.parallelism,
        run.offload,
        run.saving,
        run.stack,
        run.purpose,
        _backward_passes(run),
    )
    found: PlacedModel = _PLACED.get(run.model, key, lambda: _place(run))
    return found


def _place(run: Run) -> PlacedModel:
    whole = parameters.units(run)
    units = parallel.shard_units(run, whole)
    counted = parameters.total(whole), parameters.total(whole, trainable=True), parameters.total(units)
    return PlacedModel(units, parallel.in_compute_dtype(run, units), _state(run, units), *counted)


def _backward_passes(run: Run) -> int | Unknown:
    """Backward passes of a step, as far as they matter here: 0, 1, 2 (two or more), or UNKNOWN."""
    steps = run.batch.gradient_accumulation_steps
    return min(steps, 2) if isinstance(steps, int) else UNKNOWN


def _state(run: Run, units: tuple[Unit, ...]) -> ModelState:
    """Weights, gradients and optimizer states on one GPU. The engine's module is imported when a run needs it."""
    engine = run.parallelism.engine
    if engine in ("single", "ddp") or (run.purpose == "inference" and engine in _ENGINES_OF_INFERENCE):
        return single.place(run, units)
    if engine == "deepspeed":
        return zero.place(run, units)
    if engine == "fsdp":
        return fsdp.place(run, units)
    raise MissingValue("parallelism.engine", f"memory under {engine} is not modelled")


def _inference(run: Run, units: tuple[Unit, ...], state: ModelState) -> Estimate:
    if run.parallelism.engine in SERVERS:
        import memlint.memory.serving as serving

        return serving.estimate(run, units, state)
    import memlint.memory.inference as inference

    found = inference.phases(run, units, state)
    peak = max(found, key=_allocated)
    details = {name + "_bytes": peak.components[name] for name in ("activations", "logits")}
    weights = peak.components["weights"]
    details |= {"weights_bytes": weights, "resident_bytes": weights, "whole_logits_bytes": 0}
    return with_card_figures(run, found, peak, details)


def _frozen_models(run: Run) -> tuple[FrozenModel, ...]:
    """The models beside the trained one that have an architecture of their own, placed by the run's engine."""
    if not run.method.extra_models:
        return ()
    from memlint.memory.frozen_models import frozen_models

    return frozen_models(run, _state)


def _with_frozen_models(state: ModelState, models: tuple[FrozenModel, ...]) -> ModelState:
    """The state with the weights of other models beside it."""
    if not models:
        return state
    held = sum(one.state.weights + one.state.communication for one in models)
    there = sum(one.state.host_bytes for one in models)
    return state._replace(weights=state.weights + held, host_bytes=state.host_bytes + there)


def _with_reference_forward(
    forward: Phase,
    held: int,
    step: TrainingStep,
    units: tuple[Unit, ...],
    state: ModelState,
    others: tuple[FrozenModel, ...],
) -> Phase:
    """The forward phase with that of the reference: of the named reference model, else of the policy's own layers.

    `held`: activations alive when the policy's forward ends, bytes.
    """
    import memlint.memory.evaluation as evaluation

    if step.run.method.reference_model == "named" and others:
        from memlint.memory.frozen_models import forward_bytes

        refuse_unmodelled(others[0].run, others[0].units)
        reference = forward_bytes(others[0]._replace(run=with_effective_attention(others[0].run)))
    else:
        reference, _ = evaluation.forward_without_gradients(step, units, state, head=False)
    return evaluation.with_reference_forward(step, forward, held, reference)


def _with_reference_copy(run: Run, units: tuple[Unit, ...], state: ModelState) -> ModelState:
    """The state with the weights of a reference model that is a copy of the trained one, in the frozen dtype.

    ZeRO-3 and FSDP shard the copy as well.
    """
    if run.method.reference_model != "copy":
        return state
    width = BYTES[str(run.model.weights_dtype)]
    base = sum(
        tensor.numel * tensor.copies * unit.repeat
        for unit in units
        for tensor in unit.tensors
        if tensor.kind != "adapter"
    )
    ranks = run.parallelism.world_size
    sharded = run.parallelism.engine == "fsdp" or run.parallelism.zero.stage == 3
    share = ranks if sharded and run.parallelism.engine != "single" and isinstance(ranks, int) else 1
    return state._replace(weights=state.weights + width * base // max(1, share))


def _overhead_inputs(found: tuple[Phase, ...], units: tuple[Unit, ...], state: ModelState) -> dict[str, int]:
    """Inputs of the allocator's overhead beside the peak, bytes; see `device.card`."""
    layers = [sum(t.numel * t.copies for t in unit.tensors if t.kind != "adapter") for unit in units]
    others = [phase.allocated_bytes for phase in found if phase.name not in ("forward", "optimizer_step")]
    forward = next(phase for phase in found if phase.name == "forward")
    return {
        "forward_bytes": forward.allocated_bytes,
        "freed_gradients_bytes": max(0, state.gradients_at_step - forward.components["gradients"]),
        "backward_bytes": max(others),
        "layer_bytes": max(
            (2 * size for size, unit in zip(layers, units, strict=True) if unit.name == "layer"), default=0
        ),
    }


def with_card_figures(run: Run, found: tuple[Phase, ...], peak: Phase, details: dict[str, int]) -> Estimate:
    """The estimate for the card that the run names: interval, verdict, and the common cards that it fits on."""
    allocated = peak.allocated_bytes
    steady = device.steady_state(allocated, run, details)
    card = steady.on_card(run, device.constants())
    usable = device.usable_bytes(run)
    return Estimate(
        found,
        peak.name,
        allocated,
        card.reserved,
        card.device,
        card.low,
        card.high,
        None,
        device.verdict(card.low, card.high, usable),
        budget_bytes=usable,
        fits_on=device.cards_that_fit(steady, run, hardware.common()),
        details=details,
        device_unclamped_high_bytes=card.unclamped_high,
    )


_MIXERS = ("attention", "mla", "gated_delta", "conv", "mamba2", "none")
# Adapters that no framework's keys reach here but a PEFT configuration can name; parameters and states are counted.
_UNMODELLED_METHODS = ("boft", "ia3", "prefix", "adalora", "loha", "lokr", "vera")


def refuse_unmodelled(run: Run, units: tuple[Unit, ...]) -> None:
    """Raises `MissingValue` where the run's activations are not modelled."""
    if run.stack.use_unsloth:
        import memlint.memory.unsloth as unsloth

        unsloth.refuse(run)
    if run.stack.unmodelled:
        raise MissingValue("stack.unmodelled", f"{run.stack.unmodelled}, which is not modelled")
    if run.precision.fp8 not in ("none", "", "torchao"):  # torchao's linears keep what bf16 ones keep
        raise MissingValue("precision.fp8", f"the copies that {run.precision.fp8} keeps in fp8 are not modelled")
    if run.method.kind in _UNMODELLED_METHODS:
        raise MissingValue("method.kind", f"activations under {run.method.kind} are not modelled")
    architecture: Architecture = run.model.architecture
    if architecture.towers:
        import memlint.memory.vision.towers as towers

        towers.refuse_unmodelled(architecture, units)
    if architecture.encoder_decoder:
        raise MissingValue("model.architecture", f"encoder-decoder models ({architecture.family}) are not modelled")
    if architecture.unmodelled:
        raise MissingValue("model.architecture", architecture.unmodelled)
    for layer in architecture.layer_types:
        if layer.attention.kind not in _MIXERS:
            reason = f"activations of `{layer.attention.kind}` layers ({architecture.family}) are not modelled"
            raise MissingValue("model.architecture", reason)


def _allocated(phase: Phase) -> int:
    return phase.allocated_bytes


def _details(run: Run, state: ModelState, walked: Walk, peak: Phase) -> dict[str, int]:
    """Named terms for rules and for `explain`, bytes. `activations_bytes` and `logits_bytes` are the peak's, as in the
    table. `kept_activations_bytes`: saved between forward and backward. `whole_logits_bytes`: one fp32 tensor of all
    logits."""
    return {
        "weights_bytes": state.weights,
        "optimizer_state_bytes": state.optimizer_states,
        "resident_bytes": state.weights + state.optimizer_states,
        "gradients_bytes": state.gradients_at_step,
        "activations_bytes": peak.components["activations"],
        "logits_bytes": peak.components["logits"],
        "kept_activations_bytes": walked.saved_activations,
        "whole_logits_bytes": 0 if loss_kind(run) in FUSED_LOSSES else walked.logits,
        "attention_scores_bytes": walked.scores if run.attention.implementation == "eager" else 0,
        "optimizer_step_temporary_bytes": state.step_temporaries,
    }
