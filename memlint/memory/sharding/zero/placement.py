"""Placement of model state under DeepSpeed ZeRO, on the GPU and on the host. Read from deepspeed 0.19.8."""

from __future__ import annotations

import memlint.memory.sharding.packed_experts as packed_experts
from memlint.memory.sharding.zero import stage0 as zero_stage0
from memlint.memory.sharding.zero import stage3 as zero_stage3
from memlint.memory.sharding.zero import stages12 as zero_stages12
from memlint.memory.sharding.zero.layout import zero_layout
from memlint.memory.state.parameters import MissingValue
from memlint.memory.values import ModelState, Unit
from memlint.run import Run


def place(run: Run, units: tuple[Unit, ...]) -> ModelState:
    """One `UnitState` per unit. Raises `MissingValue` when the stage, the ranks or a knob is unknown.

    `gradient_live` of a unit holds every buffer that exists only during the backward (the reduction
    buckets of stages 1 and 2, made at its first gradient and freed at its end); what exists all the time
    (stage 3's bucket) is `communication`.
    """
    return with_units(run, units, at_rest(run, units))


def at_rest(run: Run, units: tuple[Unit, ...]) -> ModelState:
    """The state without the units of stages 1 to 3: what is gathered and reduced for them takes most of the time."""
    stage = run.parallelism.zero.stage
    if not isinstance(stage, int):
        raise MissingValue("parallelism.zero.stage", "the ZeRO stage is not known")
    layout = zero_layout(run, units)
    if stage not in (0, 1, 2):
        return zero_stage3.at_rest(run, units, layout)
    found = zero_stages12.at_rest(run, units, layout) if stage else zero_stage0.place(run, units, layout)
    return found._replace(load_peak=max(found.load_peak, packed_experts.loading_peak(run, found.weights, units)))


def with_units(run: Run, units: tuple[Unit, ...], state: ModelState) -> ModelState:
    """The state `at_rest` with its units."""
    if state.units:
        return state
    layout = zero_layout(run, units)
    place_units = zero_stages12.with_units if run.parallelism.zero.stage in (1, 2) else zero_stage3.with_units
    return place_units(run, units, layout, state)
