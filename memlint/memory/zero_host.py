"""Host memory that ZeRO offload takes, bytes of one rank."""

from __future__ import annotations

from memlint.memory.zero_layout import Layout
from memlint.run import Run


def partition_host_bytes(run: Run, made: Layout, share: int, states: int, owned: int) -> int:
    """Stages 1 and 2: fp32 master, its gradient, states, a half copy on its way back to the GPU, the largest
    gradient, and the accumulated half gradients (deepspeed 0.19.8 stage_1_and_2.py:563-576, :595-602, :1822)."""
    steps = run.batch.gradient_accumulation_steps
    accumulated = made.element * owned if isinstance(steps, int) and steps > 1 else 0
    return (4 + 4 + made.element) * share + states + made.element * made.largest + accumulated


def stage3_optimizer_host_bytes(made: Layout, share: int, states: int) -> int:
    """Stage 3: fp32 master, its gradient, states and the half gradient share (stage3.py:791, :1165, :1327)."""
    return (4 + 4) * share + states + made.accumulation * share
