"""What to try when a run is out of memory, one change on top of the other, in the order that the field gives.

The order is that of the guides that people are sent to: transformers docs, "Methods and tools for efficient training on
a single GPU" (perf_train_gpu_one) and "Parallelism methods" (perf_train_gpu_many): a smaller batch, checkpointing,
attention and loss kernels, the optimizer, sharding, the host, fewer bits, an adapter, shorter sequences.
"""

from __future__ import annotations

from memlint._record import NamedTuple
from memlint.card_bytes import CardBytes
from memlint.fixes.plan import Plan, saves
from memlint.fixes.plan_search import PlanSearch
from memlint.fixes.proposed_change import ProposedChange

ORDER = (
    *("batch", "evaluation", "evaluation logits", "checkpointing", "attention", "loss", "reference"),
    *(
        "tokens",
        "log probabilities",
        "critic batch",
        "sleep",
        "gathered parts",
        "waiting",
        "reference offload",
        "critic",
    ),
    *("generator", "engine ranks"),
    *(
        "buckets",
        "overlap",
        "optimizer",
        "update",
        "zero",
        "fsdp",
        "loading",
        "reduction",
        "shared sequences",
        "checkpoint offload",
        "precision",
        "quantization",
        "experts",
    ),
    *("images", "tower", "method", "rank", "generations", "completion", "sequence", "gather", "accumulation"),
)


class Tried(NamedTuple):
    """One change on top of those before it."""

    title: str
    after: CardBytes | None
    fits: bool


def checklist(search: PlanSearch) -> tuple[Tried, ...]:
    """The strongest change of each group in turn, until the run fits. A change that saves no more than noise is left
    out, unless the run fits with it."""
    done: tuple[ProposedChange, ...] = ()
    found: list[Tried] = []
    current = search.start
    # A loss that compares the samples of a batch is another one for fewer of them, so that this comes last.
    order = sorted(ORDER, key=lambda group: group == "batch") if search.run.method.compares_samples else ORDER
    for group in (*order, *order):  # what saves nothing at first may once another peak is gone
        after = _with_strongest(search, done, group)
        if after is None:
            continue
        if not saves(current.estimate, after.estimate) and not search.fits(after):
            continue
        done, current = after.steps, after
        found.append(Tried(after.steps[-1].title, after.estimate.on_card, search.fits(after)))
        if found[-1].fits:
            break
    return tuple(found)


def _with_strongest(search: PlanSearch, done: tuple[ProposedChange, ...], group: str) -> Plan | None:
    """The plan with the weakest change of the group where it makes the run fit, else with the strongest. None where
    there is none, or nothing is known of the run after it."""
    options = search.steps_of(group, done)
    plans = [search.plan((*done, step)) for step in (options[:1] + options[-1:] if options else ())]
    known = [plan for plan in plans if plan.estimate.device_high_bytes is not None]
    return next((plan for plan in known if search.fits(plan)), known[-1] if known else None)
