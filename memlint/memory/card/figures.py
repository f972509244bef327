"""The figures of a card: from the tensors of a run's phases to what its GPU shows, with interval and verdict. Bytes."""

from __future__ import annotations

import memlint.hardware as hardware
import memlint.memory.card.allocator_overhead as overhead
import memlint.memory.card.device as device
import memlint.memory.state.optimizers as optimizers
from memlint.memory.autograd.walk import Walk
from memlint.memory.phases import phases_of
from memlint.memory.segments.step import TrainingStep
from memlint.memory.values import Estimate, ModelState, Phase, Unit
from memlint.run import Run

# Loading and saving only allocate weights, one by one: nothing of a step's activations and gathers is cached then, and
# cached blocks go back to the driver if the card is full.
PHASES_APART = ("load", "forward", "optimizer_step", "save")
_WALKED = ("forward", "backward")
NOTHING_BESIDE_TENSORS = {"step_reserve_bytes": 0}  # until the allocator is replayed, which takes time
# DeepSpeed and FSDP make flat buffers or shards of their own.
_STATES_IN_FIRST_STEP = ("single", "ddp")


def overhead_inputs(found: tuple[Phase, ...], units: tuple[Unit, ...], state: ModelState) -> dict[str, int]:
    """The values that the allocator's overhead depends on besides the peak, bytes; see `device.card`."""
    layers = [sum(t.numel * t.copies for t in unit.tensors if t.kind != "adapter") for unit in units]
    others = [phase.allocated_bytes for phase in found if phase.name not in PHASES_APART]
    forward = next(phase for phase in found if phase.name == "forward")
    return {
        "forward_bytes": forward.allocated_bytes,
        "freed_gradients_bytes": max(0, state.gradients_at_step - forward.components["gradients"]),
        "backward_bytes": max(others),
        "layer_bytes": max(
            (2 * size for size, unit in zip(layers, units, strict=True) if unit.name == "layer"), default=0
        ),
    }


def step_reserve(
    step: TrainingStep, found: tuple[Phase, ...], walk: Walk, units: tuple[Unit, ...], state: ModelState, inputs: int
) -> dict[str, int]:
    """What a step of full fine-tuning on one GPU reserves, bytes, where the allocator is replayed for it. What other
    phases than those of the walk need beyond them counts as if none of it fitted a cached block. `inputs`: bytes of the
    batch and its masks.

    Where the optimizer's states lie depends on the first batch. Where all batches are alike, the first step leaves
    blocks for them. Where lengths vary, the first batch is shorter than the longest one, and they may lie apart: the
    larger figure counts. `other_step_reserve_bytes` is that of the other case.

    A run whose tensors alone are more than its card ends in the first step, so that the first case is not replayed: of
    large models that takes longer than all else.
    """
    run = step.run
    if overhead.overhead_class(run) != "full":
        return {}
    from memlint.memory.card.cached_blocks import beyond_step

    at_step = next(phase.allocated_bytes for phase in found if phase.name == "optimizer_step")
    others = max(phase.allocated_bytes for phase in found if phase.name not in PHASES_APART or phase.name == "forward")
    walked = max(phase.allocated_bytes for phase in phases_of(state, walk, inputs) if phase.name in _WALKED)
    more = max(0, others - walked)
    apart = at_step + beyond_step(walk.segments, units, state, inputs) + more
    ends_in_first_step = 0 < device.usable_bytes(run) < max(phase.allocated_bytes for phase in found)
    if run.parallelism.engine not in _STATES_IN_FIRST_STEP or ends_in_first_step:
        return {"step_reserve_bytes": apart}
    from memlint.memory.card.first_steps import micro_batches, reserved_by_first_steps

    batches = micro_batches(step, walk.segments, units, state)
    states = optimizers.created_states(run, units, state.optimizer_states)
    fresh = reserved_by_first_steps(batches, units, state, states, inputs) + more
    central = max(fresh, apart) if run.sequence.length_is_bound else fresh
    return {"step_reserve_bytes": central, "other_step_reserve_bytes": apart if central == fresh else fresh}


def least_needed(run: Run, peak: Phase, details: dict[str, int]) -> int:
    """Bytes of the smallest card on which the run fits if all its figures are exact. Uncertainty only adds to them."""
    steady_state = device.steady_state(peak.allocated_bytes, run, details)
    return steady_state.needed(steady_state.reserved + device.outside_allocator(run))


def with_card_figures(run: Run, found: tuple[Phase, ...], peak: Phase, details: dict[str, int]) -> Estimate:
    """The estimate for the card that the run names: interval, verdict, and the common cards that it fits on."""
    allocated = peak.allocated_bytes
    steady_state = device.steady_state(allocated, run, details)
    card = steady_state.on_card(run, device.constants())
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
        fits_on=device.cards_that_fit(steady_state, run, hardware.common()),
        details=details,
        device_unclamped_high_bytes=card.unclamped_high,
    )
