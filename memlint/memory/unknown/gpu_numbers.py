"""What a run takes on each GPU by how many there are, where nobody says the number.

On a card that holds it with one GPU as with many, the run fits (or is tight). Where no usual number of them is enough,
nor a thousand, it is out of memory. Else the verdict is unknown, and the reason says from which number on it fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

import memlint.memory.card.device as device
from memlint.memory.unknown.readings import figures
from memlint.memory.values import Estimate, ReadingEstimate, UnknownField
from memlint.run import Run, replace

NUMBERS = (1, 2, 4, 8, 16, 32)  # of one machine, and of two and four with eight GPUs each
_PER_NODE = 8
_MANY = 1024  # beyond any usual number
_FIELD = "parallelism.world_size"
_GIB = 2**30

Estimator = Callable[[Run], Estimate]


def with_gpus(run: Run, count: int, replicas: int) -> Run:
    """The run on so many GPUs in machines of eight. `replicas`: how many of them have samples of their own."""
    sizes = {"world_size": count, "data_parallel_size": replicas, "gpus_per_node": min(count, _PER_NODE)}
    return replace(run, {f"parallelism.{name}": size for name, size in sizes.items()})


def by_number_of_gpus(run: Run, found: Estimate, estimator: Estimator) -> tuple[ReadingEstimate, ...]:
    """The figures of a run whose number of GPUs is all that is missing, for usual numbers of them; () for others."""
    tried = _estimates(run, estimator) if _lacks_number_alone(found) else ()
    return tuple(figures(_label(count), one) for count, one in tried)


def over_numbers_of_gpus(run: Run, found: Estimate, estimator: Estimator) -> Estimate:
    """The estimate of a run on a known card, whose number of GPUs is all that is missing. It has a verdict where all
    numbers of GPUs agree; `found` for other runs."""
    if not _lacks_number_alone(found) or not device.usable_bytes(run):
        return found
    tried = _estimates(run, estimator)
    if not tried:
        return found
    read = tuple(figures(_label(count), one) for count, one in tried)
    verdicts = {one.verdict for _, one in tried}
    if verdicts in ({"fits"}, {"tight"}):
        most = max((one for _, one in tried), key=_bytes)
        return most._replace(device_low_bytes=min(one.device_low_bytes or 0 for one in read), readings=read)
    if verdicts == {"out_of_memory"} and _is_over_on_many(run, estimator):
        return min((one for _, one in tried), key=_bytes)._replace(readings=read)
    (missing,) = found.unknown
    said = UnknownField(_FIELD, f"{missing.reason.partition(': at least')[0]}: {in_words(tried)}")
    return found._replace(readings=read, unknown=(said,), budget_bytes=device.usable_bytes(run))


def in_words(tried: Sequence[tuple[int, Estimate]]) -> str:
    """ "out of memory on 1 to 2 GPUs (31.8 GiB), fits on 4 GPUs or more (28.7 GiB)"."""
    last = tried[-1][0]
    groups = [list(group) for _, group in groupby(tried, key=lambda pair: pair[1].verdict)]
    return ", ".join(_group_in_words(group, last) for group in groups)


def _group_in_words(group: Sequence[tuple[int, Estimate]], last: int) -> str:
    """Numbers that follow each other and have one verdict, with the figure of the first."""
    (count, found), (up_to, _) = group[0], group[-1]
    if up_to == last:
        where = f"{count} GPUs or more"
    else:
        where = f"{count} to {up_to} GPUs" if up_to > count else f"{count} GPU{'s' if count > 1 else ''}"
    return f"{found.verdict.replace('_', ' ')} on {where} ({_bytes(found) / _GIB:.1f} GiB)"


def _bytes(one: Estimate) -> int:
    return one.device_bytes or 0


def _lacks_number_alone(found: Estimate) -> bool:
    return not found.readings and [one.field for one in found.unknown] == [_FIELD]


def _estimates(run: Run, estimator: Estimator) -> tuple[tuple[int, Estimate], ...]:
    """The estimates for the usual numbers of GPUs that the run can have; () where one of them has no figures."""
    share = _sharing(run)
    tried = tuple((count, estimator(with_gpus(run, count, count // share))) for count in NUMBERS if count % share == 0)
    return tried if all(one.device_bytes is not None for _, one in tried) else ()


def _is_over_on_many(run: Run, estimator: Estimator) -> bool:
    share = _sharing(run)
    return estimator(with_gpus(run, _MANY * share, _MANY)).verdict == "out_of_memory"


def _sharing(run: Run) -> int:
    """How many GPUs share one sample."""
    parallel = run.parallelism
    return parallel.tensor_parallel_size * parallel.context_parallel_size * parallel.sequence_parallel_size


def _label(count: int) -> str:
    return f"on each of {count} GPUs" if count > 1 else "on one GPU"
