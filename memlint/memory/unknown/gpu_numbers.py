"""What a run takes on each GPU by how many there are, where nobody says the number."""

from __future__ import annotations

from memlint.memory.estimate import estimate
from memlint.memory.unknown.readings import figures
from memlint.memory.values import Estimate, ReadingEstimate
from memlint.run import Run, replace

NUMBERS = (1, 2, 4, 8, 16, 32)  # of one machine, and of two and four with eight GPUs each
_PER_NODE = 8


def with_gpus(run: Run, count: int, replicas: int) -> Run:
    """The run on so many GPUs in machines of eight. `replicas`: how many of them have samples of their own."""
    sizes = {"world_size": count, "data_parallel_size": replicas, "gpus_per_node": min(count, _PER_NODE)}
    return replace(run, {f"parallelism.{name}": size for name, size in sizes.items()})


def by_number_of_gpus(run: Run, found: Estimate) -> tuple[ReadingEstimate, ...]:
    """The figures of a run whose number of GPUs is all that is missing, for usual numbers of them; () for others."""
    if found.readings or [one.field for one in found.unknown] != ["parallelism.world_size"]:
        return ()
    parallel = run.parallelism
    share = parallel.tensor_parallel_size * parallel.context_parallel_size * parallel.sequence_parallel_size
    counts = (count for count in NUMBERS if count % share == 0)
    tried = tuple(figures(_label(count), estimate(with_gpus(run, count, count // share))) for count in counts)
    return tried if all(one.device_bytes is not None for one in tried) else ()


def _label(count: int) -> str:
    return f"on each of {count} GPUs" if count > 1 else "on one GPU"
