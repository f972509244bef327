"""How FSDP divides parameters: over all GPUs, or over groups of GPUs that hold copies of each other."""

from __future__ import annotations

from memlint.formats.fields import Fields
from memlint.run import Origin

_STRATEGIES = {
    (False, True): "FULL_SHARD",
    (False, False): "SHARD_GRAD_OP",
    (True, True): "HYBRID_SHARD",
    (True, False): "HYBRID_SHARD_ZERO2",
}


def put_groups(fields: Fields, reshards: bool, said: Origin, group: int | None, group_said: Origin) -> None:
    """`reshards`: a layer is divided again after its forward. `group`: GPUs of a group; None: all are one."""
    fields.put("parallelism.fsdp.strategy", _STRATEGIES[group is not None, reshards], said)
    fields.put("parallelism.fsdp.reshard_after_forward", reshards, said)
    if group is not None:
        fields.put("parallelism.fsdp.shard_group_size", group, group_said)
