"""Releases of transformers with which a run fits that does not fit with a newer one, and FSDP that a launch file
starts: nothing to write into the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import memlint.memory.families.lookup as families
from memlint.findings import Fix
from memlint.fixes.consequences import consistent
from memlint.fixes.moves.host import shared_4_bits
from memlint.fixes.proposed_change import ProposedChange
from memlint.memory import estimate as closed_form
from memlint.memory.estimate import estimate_unless_over
from memlint.memory.values import Estimate
from memlint.run import Run, replace

Estimator = Callable[[Run], Estimate]
_FOUR: Mapping[str, Any] = {"stack.transformers": (4, 57, 6)}  # the last of them


def advice(run: Run, before: Estimate, estimator: Estimator) -> Iterator[Fix]:
    """transformers 4.57, where the files leave the release open and the run was read with 5; FSDP1 by a launch file
    with it, or with an older one that the files name."""
    if run.planning.pins_transformers:
        return
    if not _is_older(run):
        yield from _experts_in_layers(run, before, estimator)
        yield from _packed_by_way_of_the_host(run, before, estimator)
        yield from _shared_as_now(run, before, estimator)
    yield from _by_launch_file(run, before, estimator)


def fitting(run: Run, estimator: Estimator) -> Estimate | None:
    """The estimate of a run that fits; None of one that does not, as soon as that is sure."""
    found = estimate_unless_over(run) if estimator is closed_form else estimator(run)
    return found if found is not None and found.verdict == "fits" else None


def _is_older(run: Run) -> bool:
    return bool(run.stack.transformers) and run.stack.transformers < (5,)


def _experts_in_layers(run: Run, before: Estimate, estimator: Estimator) -> Iterator[Fix]:
    """bitsandbytes quantises linear layers; transformers 5 holds a layer's experts in one parameter that is none."""
    quantization = run.model.quantization
    packed = quantization.stacked_experts or quantization.experts_on_load
    linears = families.of(run.model.architecture).experts.linears_in_4
    if not linears or quantization.method != "bnb" or packed:
        return
    after = estimator(replace(run, _FOUR))
    title = "use transformers 4.57, which has the experts quantised"
    fix = Fix(title, changes=_FOUR, before=before.on_card, verdict_after="fits", note=_UNQUANTISED)
    if after.verdict == "fits":
        yield fix._replace(after=after.on_card)
    elif after.fits_on and after.fits_on[0] not in before.fits_on:
        yield fix._replace(title=f"{title}, on {after.fits_on[0]}")


_UNQUANTISED = "from 5 on experts are no linear layers, and bitsandbytes leaves them as they are"


def _packed_by_way_of_the_host(run: Run, before: Estimate, estimator: Estimator) -> Iterator[Fix]:
    """Under FSDP1 transformers 4 packs each weight on the card and moves it to the host before the next one (4.57.6
    modeling_utils.py:779); with 5 the whole model is on each card when loading ends (card/interval.py)."""
    way = run.planning.fsdp_keys
    for step in shared_4_bits(run):
        if fitting(consistent(replace(run, step.changes), run), estimator) is not None:
            return  # there is a plan
        after = fitting(_under_fsdp1(run, step), estimator)
        if after is not None:
            offloads = bool(step.changes["parallelism.fsdp.cpu_offload"])
            named = {"offload": " offload" if offloads else "", "offloads": str(offloads).lower()}
            keys = way.format(**named)
            asked = run.planning.stores_4_bits_in_half == "asked"
            stored = ", `bnb_4bit_quant_storage: bfloat16`" if asked and _STORAGE in step.changes else ""
            yield _told(run, before, step, after, f"{keys}{stored}")
            return


def _by_launch_file(run: Run, before: Estimate, estimator: Estimator) -> Iterator[Fix]:
    """The same where no key of the files starts FSDP, and a launch file of accelerate does."""
    way = run.planning.fsdp_by_launch_file
    if not way or run.planning.starts_fsdp:
        return
    started = replace(run, {"planning.starts_fsdp": 1, "planning.stores_4_bits_in_half": "asked"})
    for step in shared_4_bits(started):
        after = fitting(_under_fsdp1(started, step), estimator)
        if after is not None:
            offload = ", fsdp_offload_params: true" if step.changes["parallelism.fsdp.cpu_offload"] else ""
            yield _told(run, before, step, after, way.format(offload=offload))
            return


def _under_fsdp1(run: Run, step: ProposedChange) -> Run:
    """The run with its 4-bit weights in shards of FSDP1, with a release that packs them by way of the host."""
    changes = {**step.changes, "parallelism.fsdp.version": 1, **({} if _is_older(run) else _FOUR)}
    first = {**_FSDP1, "precision.outputs_to_fp32": run.precision.outputs_to_fp32}
    return replace(consistent(replace(run, changes), run), {**changes, **first})


def _told(run: Run, before: Estimate, step: ProposedChange, after: Estimate, keys: str) -> Fix:
    """Advice to share 4-bit weights with FSDP1. `keys`: what says it."""
    older = _is_older(run)
    return Fix(
        step.title if older else f"{step.title}, with transformers 4.57",
        changes={**step.changes, "parallelism.fsdp.version": 1, **({} if older else _FOUR)},
        quality="none" if run.model.quantization.method != "none" else _RISK_OF_4_BITS,
        before=before.on_card,
        after=after.on_card,
        verdict_after="fits",
        note=keys if older else f"{keys}; {_PACKED_ON_THE_CARD}",
    )


_STORAGE = "model.quantization.storage_dtype"
_RISK_OF_4_BITS = "low"  # as in costs.json, model.quantization.bits


def _shared_as_now(run: Run, before: Estimate, estimator: Estimator) -> Iterator[Fix]:
    """The same for a run that FSDP1 shares already."""
    fsdp, quantization = run.parallelism.fsdp, run.model.quantization
    by_way_of_the_host = fsdp.version == 1 and fsdp.cpu_ram_efficient_loading and not fsdp.loads_packed_on_host
    if run.parallelism.engine != "fsdp" or not by_way_of_the_host or quantization[:2] != ("bnb", 4):
        return
    after = fitting(replace(run, _FOUR), estimator)
    if after is not None:
        title, note = "use transformers 4.57", _PACKED_ON_THE_CARD
        yield Fix(title, changes=_FOUR, before=before.on_card, after=after.on_card, verdict_after="fits", note=note)


# As transformers 4 starts it (4.57.6 training_args.py:2004), whatever a newer one does.
_FSDP1: Mapping[str, Any] = {
    "parallelism.fsdp.cpu_ram_efficient_loading": True,
    "parallelism.fsdp.upcasts_trainable": True,
    "parallelism.fsdp.backward_prefetch": "NONE",
}
_PACKED_ON_THE_CARD = "from 5 on each card holds the whole packed model before FSDP divides it"
