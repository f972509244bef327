"""What hardware would hold a run that no change makes fit: nothing to write into the file, only to know."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import memlint.fixes.moves.releases as releases
from memlint.findings import Edit, Fix
from memlint.fixes.consequences import consistent
from memlint.fixes.moves.catalog import steps
from memlint.fixes.moves.host import deepspeed_changes, stages
from memlint.fixes.moves.quantization import stored_to_share
from memlint.memory import estimate as closed_form
from memlint.memory.card.device import usable_bytes
from memlint.memory.estimate import least_bytes
from memlint.memory.generation.rollout import sleeps
from memlint.memory.unknown.gpu_numbers import with_gpus
from memlint.memory.values import Estimate
from memlint.run import SERVERS, Run, replace

Estimator = Callable[[Run], Estimate]
Express = Callable[[Run, Mapping[str, Any]], "tuple[Edit, ...] | None"]
MOST_GPUS = 64


def advice(
    run: Run, before: Estimate, estimator: Estimator, express: Express = lambda *_: (), more_cards: bool = True
) -> tuple[Fix, ...]:
    """Nothing to write into the file: the allocator's setting that makes a tight run fit, an older release of
    transformers, the order of two calls in a script, how many cards of its own with ZeRO-3 or FSDP (`more_cards`), and
    the smallest common card that holds the run as it is."""
    told = (
        *_segments(run, before, estimator),
        *releases.advice(run, before, estimator),
        *_order(run, before, estimator),
    )
    if run.purpose != "train":
        return (*told, *_spread(run, before, estimator), *_card(before))
    spread = _gpus(run, before, estimator, express) if more_cards else ()
    return (*told, *spread, *_card(before, _whole_on_each_card(run, before)))


def _with_changes(titles: tuple[str, ...]) -> str:
    return f"with these changes: {' + '.join(titles)}" if titles else ""


def _order(run: Run, before: Estimate, estimator: Estimator) -> Iterator[Fix]:
    """A script that loads its model too early for ZeRO-3 to divide it (formats/trainer/python/load_order.py). Where a
    file says that it is not divided, PAR020 names the key."""
    zero, field = run.parallelism.zero, "parallelism.zero.shards_on_load"
    origin = run.origins.get(field)
    if zero.stage != 3 or zero.shards_on_load or (origin is not None and origin.kind != "inferred"):
        return
    changes = {field: True}
    after = releases.fitting(replace(run, changes), estimator)
    if after is not None:
        title = "make the training arguments before the model is loaded"
        note = "the order of two calls in the script: ZeRO-3 then divides the weights while they load"
        yield Fix(title, changes=changes, before=before.on_card, after=after.on_card, verdict_after="fits", note=note)


def _segments(run: Run, before: Estimate, estimator: Estimator) -> Iterator[Fix]:
    """Segments that grow in place leave less unused (PyTorch docs, CUDA semantics, PYTORCH_CUDA_ALLOC_CONF)."""
    if before.verdict != "tight" or not can_grow_segments(run):
        return
    after = estimator(replace(run, _GROWING))
    if after.verdict == "fits":
        yield segments(before, after)


def can_grow_segments(run: Run) -> bool:
    """Older engines that sleep on the same card refuse them (vllm 0.8 device_allocator/cumem.py, "Expandable segments
    are not compatible with memory pool"); verl switches them on and off by itself (0.9.1 engine_workers.py:768)."""
    return not run.stack.expandable_segments and not sleeps(run)


_GROWING = {"stack.expandable_segments": True}


def segments(before: Estimate, after: Estimate, titles: tuple[str, ...] = ()) -> Fix:
    """Advice to let segments grow, with these changes."""
    title = "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True where the run is started"
    more = _with_changes(titles)
    note = "; ".join(filter(None, (more, "a variable of the environment: no key of the files says it")))
    return Fix(title, changes=_GROWING, before=before.on_card, after=after.on_card, verdict_after="fits", note=note)


def _card(before: Estimate, why: str = "") -> Iterator[Fix]:
    """The smallest common card that is enough. `why`: why more of the run's own cards are not."""
    if before.fits_on:
        note = "; ".join(filter(None, ("the smallest common card that holds the run as it is", why)))
        yield Fix(f"use {before.fits_on[0]}", before=before.on_card, verdict_after="fits", note=note)


def _whole_on_each_card(run: Run, before: Estimate) -> str:
    """Why nothing that divides weights in few bits helps, in words; "" where something may. They are packed on the
    card, and divided when all of them are there (transformers 5.23 core_model_loading.py; axolotl 0.19.0
    loaders/model.py:706), unless a start with FSDP packs them elsewhere (releases.py)."""
    packed, world = run.model.quantization.method != "none", run.parallelism.world_size
    if (
        not packed
        or not isinstance(world, int)
        or world == 1
        or run.planning.starts_fsdp
        or run.planning.fsdp_by_launch_file
    ):
        return ""
    loaded = next((phase.allocated_bytes for phase in before.phases if phase.name == "load"), 0)
    if loaded <= before.budget_bytes:
        return ""
    whole = f"{loaded / 2**30:.1f} GiB"
    return f"more cards do not help: each holds all weights ({whole}) while they load, whatever divides them"


def _gpus(run: Run, before: Estimate, estimator: Estimator, express: Express) -> Iterator[Fix]:
    """The smallest number of cards, more than there are, that holds the run with everything sharded."""
    sharded = _sharded(run, express)
    world = run.parallelism.world_size
    if sharded is None or not isinstance(world, int):
        return
    least = max(1, world)
    leaner, titles = _with_free_changes(run, sharded[0], express)
    plain = _on_cards(sharded[0], estimator)
    fewest = smallest_number(_on_cards(leaner, estimator), least, too_few=_too_few(leaner, estimator))
    if fewest is None:
        return
    if fewest[0] == least:  # there is a plan; one more card that does without its changes is worth a word
        if least + 1 not in _COUNTS or plain(least).verdict == "fits":
            return
        fewest, titles = (least + 1, plain(least + 1)), ()
    elif (as_it_is := plain(fewest[0])).verdict == "fits":
        fewest, titles = (fewest[0], as_it_is), ()
    if fewest[1].verdict == "fits" and fewest[0] > world:
        yield _more_cards(before, fewest, sharded[1], titles)


def _on_cards(run: Run, estimator: Estimator) -> Callable[[int], Estimate]:
    """The estimate by number of cards: in all readings of the files where it fits in one, else in that one alone."""

    def estimate(count: int) -> Estimate:
        on_cards = with_cards(run, count)
        found = estimator(on_cards._replace(readings=()))
        return estimator(on_cards) if run.readings and found.verdict == "fits" else found

    return estimate


def _too_few(run: Run, estimator: Estimator) -> Callable[[int], bool]:
    """Whether a lower bound of what the run needs is more than so many cards have each."""
    if estimator is not closed_form:
        return lambda _: False
    return lambda count: least_bytes(with_cards(run, count)) > usable_bytes(run)


def _more_cards(before: Estimate, found: tuple[int, Estimate], name: str, titles: tuple[str, ...]) -> Fix:
    count, after = found
    fix = many_cards(before, after, count, titles)
    return fix._replace(title=f"{fix.title} with {name}")


def many_cards(before: Estimate, after: Estimate, count: int, titles: tuple[str, ...]) -> Fix:
    """Advice to take so many cards, with these changes."""
    own = "each card has its own micro batch: the global batch grows unless accumulation shrinks"
    note = "; ".join(filter(None, (_with_changes(titles), own)))
    title = f"use {count} of these cards"
    return Fix(title, before=before.on_card, after=after.on_card, verdict_after="fits", note=note, cards=count)


def one_card(before: Estimate, after: Estimate, world: int, titles: tuple[str, ...]) -> Fix:
    """Advice to train on one of `world` cards, with these changes."""
    more = _with_changes(titles)
    start = "start one process with CUDA_VISIBLE_DEVICES=0"
    note = f"{world} times the accumulation keeps the global batch, and a step takes about {world} times as long"
    title, note = "run it on one of these cards", "; ".join(filter(None, (more, start, note)))
    return Fix(title, before=before.on_card, after=after.on_card, verdict_after="fits", note=note)


# Groups of changes that leave the result as it is, and the weights where they are.
_FREE = ("attention", "loss", "batch", "tokens", "evaluation", "checkpointing", "buckets", "reduction") + (
    "log probabilities",
    "critic batch",
    "gathered parts",
)


def _with_free_changes(run: Run, sharded: Run, express: Express) -> tuple[Run, tuple[str, ...]]:
    """The sharded run with the strongest change of each of those groups, and their titles."""
    chosen = {step.group: step for step in steps(sharded) if step.group in _FREE and step.safe}
    written = [step for step in chosen.values() if express(run, step.changes) is not None]
    values = {name: value for step in written for name, value in step.changes.items()}
    return replace(sharded, values), tuple(step.title for step in written)


# Cards of one node, then whole nodes of eight.
_COUNTS = (*range(1, 9), *range(16, MOST_GPUS + 1, 8))


def smallest_number(
    estimate: Callable[[int], Estimate],
    least: int,
    most: int = MOST_GPUS,
    too_few: Callable[[int], bool] = lambda _: False,
) -> tuple[int, Estimate] | None:
    """The smallest number of cards from `least` to `most` on which the run fits, with its estimate; None where it does
    not fit on the most. More cards never need more memory each, so that bisection finds it, from a guess on. Powers of
    two are tried first: they divide most tensors evenly, and then ZeRO-3's gathers are the same for all of them.

    `too_few`: whether a lower bound, which costs less than an estimate, says that the run does not fit.
    """
    counts = [least, *(count for count in _COUNTS if least < count <= most)]
    low, high, best = 0, len(counts), None
    if too_few(least):
        low = bisect_left(counts, True, key=lambda count: not too_few(count))
    near = low
    while low < high:
        middle = min(range(low, high), key=lambda at: (counts[at] & (counts[at] - 1) > 0, abs(at - near)))
        after = estimate(counts[middle])
        if after.verdict == "fits":
            high, best = middle, (counts[middle], after)
        else:
            low = middle + 1
        near = _guess(counts, counts[middle], after)
    return best


def _guess(counts: list[int], known: int, estimate: Estimate) -> int:
    """The place of the number of cards on which a run may fit that needs `estimate` on `known` cards: each holds its
    share of weights, gradients and states, and the rest whole."""
    shared = estimate.details.get("resident_bytes", 0) + estimate.details.get("gradients_bytes", 0)
    whole = (estimate.device_unclamped_high_bytes or 0) - shared
    shares = (whole + shared * known // count for count in counts)
    return next((at for at, size in enumerate(shares) if size <= estimate.budget_bytes), len(counts) - 1)


def with_cards(run: Run, count: int) -> Run:
    """The run on so many cards, all of them for data parallelism."""
    return with_gpus(run, count, count)


def _spread(run: Run, before: Estimate, estimator: Estimator) -> Iterator[Fix]:
    """More cards for a run that spreads its layers over all of them, or shares each between them."""
    world, engine = run.parallelism.world_size, run.parallelism.engine
    if engine not in ("device_map", *SERVERS) or not isinstance(world, int):
        return
    counts = (2**power * world for power in range(1, MOST_GPUS.bit_length()) if 2**power * world <= MOST_GPUS)
    for count in counts:
        shared = {"parallelism.tensor_parallel_size": count} if engine in SERVERS else {}
        after = estimator(replace(run, {"parallelism.world_size": count, **shared}))
        if after.verdict == "fits":
            title = f"use {count} of these cards"
            yield Fix(title, before=before.on_card, after=after.on_card, verdict_after="fits")
            return


def is_data_parallel(run: Run) -> bool:
    """Whether each of the run's cards has sequences of its own, and no model is cut over several."""
    own = run.parallelism
    return own.tensor_parallel_size * own.pipeline_parallel_size * own.sequence_parallel_size == 1


def _sharded(run: Run, express: Express) -> tuple[Run, str] | None:
    """The run with everything sharded, and by what; None where memlint cannot say how it would be, or the framework
    takes no ZeRO-3 with what the file says (LLaMA-Factory: `pure_bf16`)."""
    engine = run.parallelism.engine
    if not is_data_parallel(run):
        return None
    if engine == "fsdp" and run.parallelism.fsdp.strategy == "FULL_SHARD":
        return run, "FSDP"
    if engine == "deepspeed" and run.parallelism.zero.stage == 3:
        return run, "ZeRO-3"
    if engine not in ("single", "ddp", "deepspeed") or 3 not in stages(run):
        return None
    changes = {**deepspeed_changes(str(run.precision.compute), 3), **stored_to_share(run)}
    said = changes if engine != "deepspeed" else {"parallelism.zero.stage": 3, **stored_to_share(run)}
    return None if express(run, said) is None else (consistent(replace(run, changes), run), "ZeRO-3")
