"""DeepSpeed without ZeRO: every state whole on each GPU, gradients averaged through a flat copy."""

from __future__ import annotations

from memlint.memory.sharding.zero.layout import ZeroLayout
from memlint.memory.sharding.zero.stages12 import engine_weights, whole_gradients
from memlint.memory.state import optimizers as optimizer
from memlint.memory.values import ModelState, Unit, with_tensors
from memlint.run import Run

_ALLREDUCE_BUCKET = 500_000_000  # elements; MEMORY_OPT_ALLREDUCE_SIZE, deepspeed 0.19.8 runtime/engine.py


def place(run: Run, units: tuple[Unit, ...], layout: ZeroLayout) -> ModelState:
    """Half precision keeps an fp32 copy of each parameter and makes fp32 gradients at the step, beside the half ones:
    tensor by tensor (runtime/fp16/unfused_optimizer.py:218-222), or with DeepSpeed's FusedAdam first as tensors, then
    flat (fused_optimizer.py:285)."""
    mixed = layout.element == 2
    optimizer_memory = optimizer.memory(run, _in_fp32(units) if mixed else units)
    weights = engine_weights(units, layout.element)
    gradients = layout.element * layout.trainable
    flat_copy = layout.element * min(layout.trainable, _ALLREDUCE_BUCKET) if layout.ranks > 1 else 0
    steps = run.batch.gradient_accumulation_steps
    accumulates = isinstance(steps, int) and steps > 1
    states = [whole_gradients(unit, layout.element, accumulates) for unit in units]
    states[0] = states[0]._replace(gradient_end=states[0].gradient_end + flat_copy)
    fused = run.optimizer.engine == "deepspeed"
    return ModelState(
        weights=weights,
        optimizer_states=optimizer_memory.states + (4 * layout.trainable if mixed else 0),
        gradients_resident=gradients if accumulates else 0,
        communication=0,
        units=tuple(states),
        gradients_at_step=gradients + (4 * layout.trainable if mixed else 0),
        step_temporaries=4 * layout.trainable if mixed and fused else optimizer_memory.step_temporaries,
        load_peak=weights,
    )


def _in_fp32(units: tuple[Unit, ...]) -> tuple[Unit, ...]:
    return with_tensors(units, lambda tensor: tensor._replace(dtype="float32"))
