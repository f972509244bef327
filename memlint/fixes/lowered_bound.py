"""What lowers the bound of a run of which a lower bound alone is known, and that is over the card: one change on top of
the other.

A bound below the card is no promise that the run fits, so that nothing is written: these are changes in words. Of
Megatron's engine they are called as the framework calls them, in the order of Megatron's guide (Megatron-LM
docs/user-guide/parallelism-guide.md and core/optimizer/cpu_offloading/README.md): what costs least first. Of other
engines they are the planner's changes, in the order of the checklist, as far as the format can write them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from memlint._record import NamedTuple
from memlint.findings import Fix
from memlint.fixes.checklist import ORDER
from memlint.fixes.costs import QUALITIES
from memlint.fixes.plan import NOISE, Steps
from memlint.fixes.plan_search import PlanSearch, SearchHooks
from memlint.fixes.proposed_change import Move, ProposedChange
from memlint.memory.card.device import usable_bytes
from memlint.memory.values import Estimate
from memlint.run import Run

_MOST_STAGES = 64
_MOST_RANKS_OF_A_NODE = 8


class Lowered(NamedTuple):
    """One change on top of those before it, and the bound after it, bytes. `enough`: it is below the card. `quality`:
    its risk for the result, one of QUALITIES."""

    title: str
    least: int
    enough: bool
    quality: str = QUALITIES[0]


def lowered_bound(run: Run, before: Estimate, hooks: SearchHooks) -> tuple[Lowered, ...]:
    """The changes that bring a bound below the card, or all that lower it. Empty where it is below, or none is
    known."""
    card, least = usable_bytes(run), before.allocated_low_bytes or 0
    if before.allocated_bytes is not None or run.purpose != "train" or not card or least <= card:
        return ()
    search = PlanSearch(run, before, hooks)
    found = _picked(search, least, _OPTIONS) if run.parallelism.engine == "megatron" else _needed(search, least)
    sizes = [_least(search, found[: number + 1]) or 0 for number in range(len(found))]
    return tuple(Lowered(step.title, size, size <= card, step.price.quality) for step, size in zip(found, sizes))


def as_advice(lowered: tuple[Lowered, ...], run: Run) -> Fix | None:
    """The changes as the advice of a finding; None where there are none."""
    if not lowered:
        return None
    last, keeps = lowered[-1], "; ".join(run.planning.spares_activations)
    size = f"{last.least / 2**30:.1f} GiB" if last.least > _NOTHING else "next to nothing"
    note = (
        f"the least is {size} then, {'below' if last.enough else 'still above'} the card",
        "what is not known comes on top, so that no plan is promised",
        f"these lower what layers keep: {keeps}" if keeps else "",
    )
    quality = max((one.quality for one in lowered), key=QUALITIES.index)
    return Fix("; ".join(one.title for one in lowered), quality=quality, note="; ".join(filter(None, note)))


_NOTHING = 50 << 20  # less reads "0.0 GiB"
# What can be tried beside changes that were chosen, from the weakest to the strongest.
Options = Callable[[PlanSearch, Steps], Iterable[ProposedChange]]


def _picked(search: PlanSearch, least: int, options: Iterable[Options]) -> Steps:
    """Of each of `options` the change that lowers the bound, until it is below the card. `least`: the bound before."""
    picked: Steps = ()
    for one in options:
        found = _weakest_enough(search, picked, least, one)
        if found is not None:
            picked, least = found
        if least <= usable_bytes(search.run):
            break
    return picked


def _needed(search: PlanSearch, least: int) -> Steps:
    """The same of the planner's groups, without those that are not needed beside the later ones."""
    found = _picked(search, least, map(_of_group, ORDER))
    for group in [step.group for step in found[:-1]]:
        others = [step.group for step in found if step.group != group]
        fewer = _picked(search, least, map(_of_group, others))
        if fewer and (_least(search, fewer) or 0) <= usable_bytes(search.run):
            found = fewer
    return found


def _of_group(group: str) -> Options:
    """The weakest and the strongest change of a group of the planner's."""

    def options(search: PlanSearch, chosen: Steps) -> Steps:
        found = search.steps_of(group, chosen)
        return found[:1] + found[1:][-1:]

    return options


def _of_megatron(move: Move) -> Options:
    return lambda search, chosen: move(search.changed(chosen))


def _least(search: PlanSearch, chosen: Steps) -> int | None:
    """The bound after these changes, or all bytes where they are known then; None where neither is."""
    found = search.estimate(chosen)
    return found.allocated_bytes if found.allocated_low_bytes is None else found.allocated_low_bytes


def _weakest_enough(search: PlanSearch, chosen: Steps, least: int, options: Options) -> tuple[Steps, int] | None:
    """The changes with the weakest of these that brings the bound below the card, else with the strongest that lowers
    it."""
    found = None
    for step in options(search, chosen):
        after = _least(search, (*chosen, step))
        if after is not None and after <= (1 - NOISE) * (found[1] if found else least):
            found = (*chosen, step), after
            if after <= usable_bytes(search.run):
                break
    return found


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
    """Ranks that share each matrix, within a node: heads, and heads of keys and values, are divided among them. Experts
    are if it is said of them as well (Megatron-LM core/model_parallel_config.py, expert_tensor_parallel_size; 1 in
    ms-swift 4.6.0 megatron/arguments/megatron_args.py:645, unless said)."""
    node = run.parallelism.gpus_per_node
    most = node if isinstance(node, int) else _MOST_RANKS_OF_A_NODE
    kinds = [layer.attention for layer in getattr(run.model.architecture, "layer_types", ())]
    return _degrees(run, "tensor", most, lambda ranks: all(one.heads % ranks == 0 for one in kinds))


def _expert_ranks(run: Run) -> Iterator[ProposedChange]:
    experts = _experts(run)
    return _degrees(run, "expert", experts, lambda ranks: experts % ranks == 0)


def _experts(run: Run) -> int:
    """The most experts that a layer has."""
    return max((layer.mlp.experts for layer in getattr(run.model.architecture, "layer_types", ())), default=0)


def _stages(run: Run) -> Iterator[ProposedChange]:
    layers = len(getattr(run.model.architecture, "layer_type_ids", ()))
    if run.parallelism.first_stage_layers or run.parallelism.last_stage_layers:
        return iter(())  # numbers of layers that belong to this number of stages
    return _degrees(run, "pipeline", min(layers, _MOST_STAGES), lambda ranks: layers % ranks == 0)


def _degrees(run: Run, kind: str, most: int, divides: Callable[[int], bool]) -> Iterator[ProposedChange]:
    """Twice, four, ... times as many ranks of a kind, as long as the GPUs are enough for a copy of the model."""
    field = f"parallelism.{kind}_parallel_size"
    name, now = _named(run, field), getattr(run.parallelism, f"{kind}_parallel_size")
    ranks = 2 * now
    also = " (and expert_tensor_parallel_size)" if kind == "tensor" and _experts(run) else ""
    while name and ranks <= most and divides(ranks) and _has_gpus(run, kind, ranks):
        yield ProposedChange(f"{name} {now} -> {ranks}{also}", {field: ranks, **_copies(run, kind, ranks)})
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


# Experts are most of the parameters of a model that has them, and their ranks send each other tokens alone.
_MOVES: tuple[Move, ...] = (
    *(_distributed_optimizer, _micro_batch, _expert_ranks, _tensor_ranks, _stages, _host, _gpus),
)
_OPTIONS = tuple(map(_of_megatron, _MOVES))
