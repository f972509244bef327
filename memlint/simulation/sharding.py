"""One simulated rank of several: the real `fully_shard` or DistributedDataParallel over a process group that does
nothing.

Collectives return at once, so the sharded, gathered and reduced tensors are allocated as on a real rank
(torch.testing._internal.distributed.fake_pg, torch 2.13). What a GPU's streams keep alive longer
(an all-gather that is prefetched while another layer computes) is not simulated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

import memlint.simulation.build as build
from memlint._record import NamedTuple
from memlint.simulation.freezing import decoder_layers
from memlint.simulation.tracker import Tracker


class Sharding(NamedTuple):
    """`ranks` in one group; dtypes of the mixed-precision policy, "" = the parameters' own.

    `replicates`: every rank has the whole model (DDP). `reduces_last`: of accumulated micro-batches only the last one
    reduces gradients, which are whole on each rank until then (accelerate 1.15 accelerator.py, `no_sync`).
    `root_holds_ends`: only decoder layers and the model are sharded, in place of accelerate's groups; with
    `embedding_apart` an untied embedding as well.
    """

    ranks: int = 1
    param_dtype: str = ""
    reduce_dtype: str = ""
    reshard_after_forward: bool = True
    replicates: bool = False
    reduces_last: bool = False
    root_holds_ends: bool = False
    embedding_apart: bool = False


@contextmanager
def group(sharding: Sharding, tracker: Tracker) -> Iterator[Any]:
    """A device mesh over a fake process group of `ranks`, for the `with` block; None for a single rank."""
    if sharding.ranks == 1:
        yield None
        return
    import torch.distributed
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", rank=0, world_size=sharding.ranks, store=FakeStore())
    try:
        with without_shape_propagation(tracker):
            yield init_device_mesh("cpu", (sharding.ranks,))  # before any fake mode: it reads its own values
    finally:
        torch.distributed.destroy_process_group()


@contextmanager
def without_shape_propagation(tracker: Tracker) -> Iterator[None]:
    """Hides from the tracker the fake tensors of global shape on which DTensor runs operators to learn shapes: no GPU
    allocates those."""
    from torch.distributed.tensor._sharding_prop import ShardingPropagator

    name = "_propagate_tensor_meta_non_cached"
    original = getattr(ShardingPropagator, name, None)
    if original is None:
        yield
        return

    def propagate(*given: Any, **named: Any) -> Any:
        before, tracker.ignored = tracker.ignored, lambda tensor: True
        try:
            return original(*given, **named)
        finally:
            tracker.ignored = before

    setattr(ShardingPropagator, name, propagate)
    try:
        yield
    finally:
        setattr(ShardingPropagator, name, original)


def shard(model: Any, sharding: Sharding, mesh: Any) -> None:
    """Shards as accelerate's transformer wrapping does: each decoder layer, the embedding, and the final norm with the
    head, which stays gathered; a tied embedding belongs to the latter (1.15.0 utils/fsdp_utils.py:857-885)."""
    if sharding.ranks == 1 or sharding.replicates:
        return
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(
        param_dtype=build.DTYPES.get(sharding.param_dtype), reduce_dtype=build.DTYPES.get(sharding.reduce_dtype)
    )
    options: dict[str, Any] = {"mesh": mesh, "mp_policy": policy}
    layers_alone = sharding.root_holds_ends and not sharding.embedding_apart
    for group in decoder_layers(model) if layers_alone else _resharded(model):
        fully_shard(group, **options, reshard_after_forward=sharding.reshard_after_forward)
    if not sharding.root_holds_ends:
        fully_shard(_tail(model), **options, reshard_after_forward=False)
    fully_shard(model, **options)


def replicated(model: Any, sharding: Sharding) -> Any:
    """The object to call instead of the model: under DDP the wrapper with its gradient buckets, else the model."""
    if sharding.ranks == 1 or not sharding.replicates:
        return model
    replica = torch.nn.parallel.DistributedDataParallel(model, init_sync=False)
    replica.register_comm_hook(None, lambda _, bucket: _already_reduced(bucket))
    return replica


def _already_reduced(bucket: Any) -> Any:
    """A communication hook for DDP: an all-reduce in place that is complete at once."""
    done: Any = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


@contextmanager
def without_reducing(model: Any) -> Iterator[None]:
    """Runs an earlier micro-batch of a step under FSDP2, whose gradients are not reduced and scattered."""
    model.set_requires_gradient_sync(False)
    try:
        yield
    finally:
        model.set_requires_gradient_sync(True)


def _resharded(model: Any) -> list[Any]:
    """The modules that are gathered only for their own forward and backward."""
    embedding = model.get_input_embeddings()
    return [*decoder_layers(model), *([] if _is_tied(model) else [embedding])]


def _tail(model: Any) -> list[Any]:
    """The final norm, a tied embedding and the head."""
    layers = decoder_layers(model)
    base = next(one for one in model.modules() if any(_is_list_of(child, layers) for child in one.children()))
    norms = [module for module in base.children() if "Norm" in type(module).__name__]
    embedding = [model.get_input_embeddings()] if _is_tied(model) else []
    return [*norms[-1:], *embedding, model.get_output_embeddings()]


def _is_list_of(module: Any, layers: Sequence[Any]) -> bool:
    return isinstance(module, torch.nn.ModuleList) and list(module) == list(layers)


def _is_tied(model: Any) -> bool:
    return bool(model.get_output_embeddings().weight is model.get_input_embeddings().weight)


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part of a distributed tensor; any other tensor unchanged."""
    part: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return part
