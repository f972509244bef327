"""What a run takes on each GPU by how many there are, where nobody says the number."""

from __future__ import annotations

from memlint.memory.estimate import estimate
from memlint.memory.values import Estimate, ReadingEstimate
from memlint.run import Run, replace

NUMBERS = (1, 2, 4, 8, 16, 32)  # of one machine, and of two and four with eight GPUs each
_PER_NODE = 8


def by_number_of_gpus(run: Run, found: Estimate) -> tuple[ReadingEstimate, ...]:
    """The figures of a run whose number of GPUs is all that is missing, for usual numbers of them; () for others."""
    if found.readings or [one.field for one in found.unknown] != ["parallelism.world_size"]:
        return ()
    parallel = run.parallelism
    share = parallel.tensor_parallel_size * parallel.context_parallel_size * parallel.sequence_parallel_size
    tried = tuple(_with(run, number, number // share) for number in NUMBERS if number % share == 0)
    return tried if all(one.device_bytes is not None for one in tried) else ()


def _with(run: Run, number: int, replicas: int) -> ReadingEstimate:
    sizes = {"world_size": number, "data_parallel_size": replicas, "gpus_per_node": min(number, _PER_NODE)}
    there = estimate(replace(run, {f"parallelism.{name}": size for name, size in sizes.items()}))
    label = f"on each of {number} GPUs" if number > 1 else "on one GPU"
    return ReadingEstimate(label, there.device_bytes, there.device_low_bytes, there.device_high_bytes, there.verdict)
