"""A simulated step as an `Estimate`, and its tensors as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.memory.card.allocator import AllocatorSettings, replay
from memlint.memory.card.figures import PHASES_APART, with_card_figures
from memlint.memory.estimate import estimate
from memlint.memory.values import Estimate, Phase
from memlint.run import Run
from memlint.simulation.replay import first_two_steps
from memlint.simulation.result import SimulatedStep

COMPONENTS = ("weights", "gradients", "optimizer_states", "activations", "logits", "temporaries", "communication")
MIB = 1 << 20


def estimate_of(step: SimulatedStep, run: Run) -> Estimate:
    """The phases of `step` with their components; the card's figures come from the same constants.

    `details["replayed_reserved_bytes"]` is what the modelled caching allocator reserves for the first two steps.
    """
    phases = tuple(_phase(step, name) for name, _ in step.live_by_phase)
    peak = max(phases, key=lambda phase: phase.allocated_bytes)
    details = _overhead_inputs(run, phases) | {"resident_bytes": step.base + step.optimizer_states}
    reserved = replay(*first_two_steps(step), allocator_settings(run)).reserved
    if "step_reserve_bytes" in details:
        details |= _reserves(run, details, reserved, replay(step.events, step.sizes, allocator_settings(run)).reserved)
    answer = with_card_figures(run, phases, peak, details)
    return answer._replace(
        parameters=step.parameters,
        trainable_parameters=step.trainable_parameters,
        details={**answer.details, "replayed_reserved_bytes": reserved},
    )


def _overhead_inputs(run: Run, phases: tuple[Phase, ...]) -> dict[str, int]:
    """The values that the allocator's overhead depends on besides the peak, as in the closed form, from simulated
    moments: the same tensors give the same figure on the card."""
    closed = {name: size for name, size in estimate(run).details.items() if name not in _UNCERTAINTIES}
    by_name = {phase.name: phase.allocated_bytes for phase in phases}
    others = [size for name, size in by_name.items() if name not in PHASES_APART]
    return closed | {"forward_bytes": by_name["forward"], "backward_bytes": max(others)}


def _reserves(run: Run, closed: dict[str, int], fresh: int, apart: int) -> dict[str, int]:
    """What a step reserves, as in the closed form: where lengths vary, the larger of both cases is the central figure.
    `fresh`: with states in blocks of the first step's activations. `apart`: with states that lie apart."""
    if "other_step_reserve_bytes" not in closed:
        return {"step_reserve_bytes": apart}
    central = max(fresh, apart) if run.sequence.length_is_bound else fresh
    return {"step_reserve_bytes": central, "other_step_reserve_bytes": apart if central == fresh else fresh}


# How far the closed form's tensors may be from the run's; a simulated step has its own.
_UNCERTAINTIES = ("allocated_low_bytes", "allocated_high_bytes", "doubtful_logits_bytes")


def allocator_settings(run: Run) -> AllocatorSettings:
    """The run's PYTORCH_CUDA_ALLOC_CONF."""
    return AllocatorSettings(expandable_segments=run.stack.expandable_segments)


def _phase(step: SimulatedStep, name: str) -> Phase:
    found = step.by_kind(name)
    components = dict.fromkeys(COMPONENTS, 0)
    for kind, size in found.items():
        components[kind if kind in components else "activations"] += size
    return Phase(name, sum(components.values()), components)


def tensor_lines(step: SimulatedStep, limit: int = 20) -> Iterator[str]:
    """What is alive at the peak, largest groups first: bytes, kind, tensors, module."""
    for line in step.live_at_peak[:limit]:
        shape = "x".join(map(str, line.shape)) or "scalar"
        yield (
            f"{line.bytes / MIB:10.1f} MiB  {line.kind:16} {line.tensors:5} x {shape} {line.dtype}  "
            f"{line.module or '-'} ({line.operator}, {line.phase})"
        )
    rest = sum(line.bytes for line in step.live_at_peak[limit:])
    if rest:
        yield f"{rest / MIB:10.1f} MiB  in {len(step.live_at_peak) - limit} smaller groups"
