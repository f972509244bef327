"""Placement of model state under PyTorch FSDP, first and second version, as accelerate sets them up."""

from __future__ import annotations

from memlint.memory.sharding.fsdp import version1 as fsdp_version1
from memlint.memory.sharding.fsdp import version2 as fsdp_version2
from memlint.memory.sharding.fsdp.plan import wrap_plan
from memlint.memory.values import ModelState, Unit
from memlint.run import Run


def place(run: Run, units: tuple[Unit, ...]) -> ModelState:
    """One `UnitState` per unit. Raises `MissingValue` when the number of GPUs or the compute dtype is unknown.

    Figures follow the order in which the program allocates: `max_memory_allocated` counts a block as freed when
    PyTorch lets go of it, also while another stream still uses it, which shows in reserved memory only.
    """
    plan = wrap_plan(run, units)
    if run.parallelism.fsdp.version == 2:
        return fsdp_version2.place(run, units, plan)
    return fsdp_version1.place(run, units, plan)
