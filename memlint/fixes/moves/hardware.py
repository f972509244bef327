"""What hardware would hold a run that no change makes fit: nothing to write into the file, only to know."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import memlint.memory.families.lookup as families
from memlint.findings import Edit, Fix
from memlint.fixes.moves.host import deepspeed_changes, stages, stored_to_share
from memlint.memory.values import Estimate
from memlint.run import SERVERS, Run, replace

Estimator = Callable[[Run], Estimate]
Express = Callable[[Run, Mapping[str, Any]], "tuple[Edit, ...] | None"]
MOST_GPUS = 64


def advice(run: Run, before: Estimate, estimator: Estimator, express: Express = lambda *_: ()) -> tuple[Fix, ...]:
    """Nothing to write into the file: the allocator's setting that makes a tight run fit, a release of transformers
    that quantises experts, how many cards of its own with ZeRO-3 or FSDP, and the smallest common card that holds the
    run as it is."""
    told = (*_segments(run, before, estimator), *_release(run, before, estimator))
    if run.purpose != "train":
        return (*told, *_spread(run, before, estimator), *_card(before))
    return (*told, *_gpus(run, before, estimator, express), *_card(before))


def _release(run: Run, before: Estimate, estimator: Estimator) -> Iterator[Fix]:
    """bitsandbytes quantises linear layers; transformers 5 holds a layer's experts in one parameter that is none."""
    linears = families.of(run.model.architecture).experts.linears_in_4
    stacked = not run.stack.transformers or run.stack.transformers >= (5,)
    quantization = run.model.quantization
    packed = quantization.stacked_experts or quantization.experts_on_load
    quantized = quantization.method == "bnb" and not packed
    if not linears or run.planning.pins_transformers or not (stacked and quantized):
        return
    changes = {"stack.transformers": (4, 57, 6)}
    after = estimator(replace(run, changes))
    if after.verdict == "fits":
        note = "from 5 on experts are no linear layers, and bitsandbytes leaves them as they are"
        title = "use transformers 4.57, which has the experts quantised"
        yield Fix(title, changes=changes, before=before.on_card, after=after.on_card, verdict_after="fits", note=note)


def _segments(run: Run, before: Estimate, estimator: Estimator) -> Iterator[Fix]:
    """Segments that grow in place leave less unused (PyTorch docs, CUDA semantics, PYTORCH_CUDA_ALLOC_CONF)."""
    if run.stack.expandable_segments or before.verdict != "tight":
        return
    changes = {"stack.expandable_segments": True}
    after = estimator(replace(run, changes))
    if after.verdict == "fits":
        title = "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True where the run is started"
        yield Fix(title, changes=changes, before=before.on_card, after=after.on_card, verdict_after="fits")


def _card(before: Estimate) -> Iterator[Fix]:
    if before.fits_on:
        note = "the smallest common card that holds the run as it is"
        yield Fix(f"use {before.fits_on[0]}", before=before.on_card, verdict_after="fits", note=note)


def _gpus(run: Run, before: Estimate, estimator: Estimator, express: Express) -> Iterator[Fix]:
    sharded = _sharded(run, express)
    world = run.parallelism.world_size
    if sharded is None or not isinstance(world, int):
        return
    name, count = sharded[1], 2 * max(1, world)
    while count <= MOST_GPUS:
        sizes = ("world_size", "data_parallel_size", "gpus_per_node")
        values = (count, count, min(count, 8))
        after = estimator(replace(sharded[0], {f"parallelism.{key}": value for key, value in zip(sizes, values)}))
        if after.verdict == "fits":
            title = f"use {count} of these cards with {name}"
            note = "each card has its own micro batch: the global batch grows unless accumulation shrinks"
            yield Fix(title, before=before.on_card, after=after.on_card, verdict_after="fits", note=note)
            return
        count *= 2


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


def _sharded(run: Run, express: Express) -> tuple[Run, str] | None:
    """The run with everything sharded, and by what; None where memlint cannot say how it would be, or the framework
    takes no ZeRO-3 with what the file says (LLaMA-Factory: `pure_bf16`)."""
    engine, others = run.parallelism.engine, run.parallelism
    if others.tensor_parallel_size * others.pipeline_parallel_size * others.sequence_parallel_size != 1:
        return None
    if engine == "fsdp" and run.parallelism.fsdp.strategy == "FULL_SHARD":
        return run, "FSDP"
    if engine == "deepspeed" and run.parallelism.zero.stage == 3:
        return run, "ZeRO-3"
    if engine not in ("single", "ddp", "deepspeed") or 3 not in stages(run):
        return None
    changes = {**deepspeed_changes(str(run.precision.compute), 3), **stored_to_share(run)}
    said = changes if engine != "deepspeed" else {"parallelism.zero.stage": 3, **stored_to_share(run)}
    return None if express(run, said) is None else (replace(run, changes), "ZeRO-3")
