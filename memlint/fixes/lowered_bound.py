"""What lowers the bound of a run of which a lower bound alone is known: Megatron's engine, one change on top of the
other.

A bound below the card is no promise that the run fits, so that nothing is written: these are changes in words, as the
framework calls them. Their order is that of Megatron's guide (Megatron-LM docs/user-guide/parallelism-guide.md and
core/optimizer/cpu_offloading/README.md): what costs least first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from memlint._record import NamedTuple
from memlint.fixes.plan import NOISE
from memlint.fixes.proposed_change import Move, ProposedChange
from memlint.memory.card.device import usable_bytes
from memlint.memory.values import Estimate
from memlint.run import Run, replace

_MOST_STAGES = 64
_MOST_RANKS_OF_A_NODE = 8


class Lowered(NamedTuple):
    """One change on top of those before it, and the bound after it, bytes. `enough`: it is below the card."""

    title: str
    least: int
    enough: bool


def lowered_bound(run: Run, before: Estimate, estimator: Callable[[Run], Estimate]) -> tuple[Lowered, ...]:
    """The changes that bring a bound below the card, or all that lower it. Empty where it is below, or none is
    known."""
    card, least = usable_bytes(run), before.allocated_low_bytes or 0
    found: list[Lowered] = []
    if run.parallelism.engine != "megatron" or run.purpose != "train" or not card or least <= card:
        return ()
    for move in _MOVES:
        chosen = _weakest_enough(run, least, move, estimator)
        if chosen is not None:
            step, least = chosen
            run = replace(run, step.changes)
            found.append(Lowered(step.title, least, least <= card))
        if least <= card:
            break
    return tuple(found)


def _weakest_enough(
    run: Run, least: int, move: Move, estimator: Callable[[Run], Estimate]
) -> tuple[ProposedChange, int] | None:
    """The weakest change of a move that brings the bound below the card, else the strongest that lowers it."""
    chosen = None
    for step in move(run):
        after = estimator(replace(run, step.changes)).allocated_low_bytes
        if after and after <= (1 - NOISE) * (chosen[1] if chosen else least):
            chosen = step, after
            if after <= usable_bytes(run):
                break
    return chosen


def _named(run: Run, field: str) -> str:
    """The framework's name of the option that says the field; "" where it has none, or nobody looked it up."""
    return dict(run.planning.option_names).get(field, "")


def _distributed_optimizer(run: Run) -> Iterator[ProposedChange]:
    name = _named(run, "parallelism.replicates_optimizer")
    if name and run.parallelism.replicates_optimizer is True:
        yield ProposedChange(name, {"parallelism.replicates_optimizer": False})


def _micro_batch(run: Run) -> Iterator[ProposedChange]:
    name, size = _named(run, "batch.micro_batch_size"), run.batch.micro_batch_size
    if name and isinstance(size, int) and size > 1:
        yield ProposedChange(f"{name} {size} -> 1", {"batch.micro_batch_size": 1})


def _tensor_ranks(run: Run) -> Iterator[ProposedChange]:
    """Ranks that share each matrix, within a node: heads, and heads of keys and values, are divided among them."""
    node = run.parallelism.gpus_per_node
    most = node if isinstance(node, int) else _MOST_RANKS_OF_A_NODE
    kinds = [layer.attention for layer in getattr(run.model.architecture, "layer_types", ())]
    return _degrees(run, "tensor", most, lambda ranks: all(one.heads % ranks == 0 for one in kinds))


def _expert_ranks(run: Run) -> Iterator[ProposedChange]:
    experts = max((layer.mlp.experts for layer in getattr(run.model.architecture, "layer_types", ())), default=0)
    return _degrees(run, "expert", experts, lambda ranks: experts % ranks == 0)


def _stages(run: Run) -> Iterator[ProposedChange]:
    layers = len(getattr(run.model.architecture, "layer_type_ids", ()))
    return _degrees(run, "pipeline", min(layers, _MOST_STAGES), lambda ranks: layers % ranks == 0)


def _degrees(run: Run, kind: str, most: int, divides: Callable[[int], bool]) -> Iterator[ProposedChange]:
    """Twice, four, ... times as many ranks of a kind, as long as the GPUs are enough for a copy of the model."""
    field = f"parallelism.{kind}_parallel_size"
    name, now = _named(run, field), getattr(run.parallelism, f"{kind}_parallel_size")
    ranks = 2 * now
    while name and ranks <= most and divides(ranks) and _has_gpus(run, kind, ranks):
        yield ProposedChange(f"{name} {now} -> {ranks}", {field: ranks, **_copies(run, kind, ranks)})
        ranks *= 2


def _has_gpus(run: Run, kind: str, ranks: int) -> bool:
    world, copies = run.parallelism.world_size, _copies(run, kind, ranks)
    if not isinstance(world, int):
        return True
    share = copies.get("parallelism.data_parallel_size", 0)
    wanted = ranks if kind == "expert" else run.parallelism.expert_parallel_size
    return share > 0 and share % min(wanted, share) == 0 and (kind != "expert" or share % ranks == 0)


def _copies(run: Run, kind: str, ranks: int) -> dict[str, int]:
    """The data-parallel ranks that are left; 0 where the GPUs do not come out even, nothing where none are known."""
    own = run.parallelism
    sizes = {
        "tensor": own.tensor_parallel_size,
        "pipeline": own.pipeline_parallel_size,
        "context": own.context_parallel_size,
    }
    if kind in sizes:
        sizes[kind] = ranks
    model = sizes["tensor"] * sizes["pipeline"] * sizes["context"]
    if not isinstance(own.world_size, int):
        return {}
    return {"parallelism.data_parallel_size": own.world_size // model if own.world_size % model == 0 else 0}


def _host(run: Run) -> Iterator[ProposedChange]:
    name = _named(run, "offload.optimizer")
    if name and run.offload.optimizer == "none":
        yield ProposedChange(name, {"offload.optimizer": "cpu", "offload.optimizer_ratio": 1.0})


def _gpus(run: Run) -> Iterator[ProposedChange]:
    """More GPUs of the same kind, for the optimizer's states alone: each copy of the model is as before."""
    world, copies = run.parallelism.world_size, run.parallelism.data_parallel_size
    if not (isinstance(world, int) and isinstance(copies, int)):
        return
    for times in (2, 4, 8):
        more = {"parallelism.world_size": times * world, "parallelism.data_parallel_size": times * copies}
        yield ProposedChange(f"{times * world} GPUs", more)


_MOVES = (_distributed_optimizer, _micro_batch, _tensor_ranks, _expert_ranks, _stages, _host, _gpus)
