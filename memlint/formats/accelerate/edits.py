"""How an accelerate launch file would say a change of neutral fields (accelerate 1.15 utils/dataclasses.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.accelerate.fsdp import STRATEGIES
from memlint.source.document import Path

_DEVICES = ("none", "cpu", "nvme")

# neutral field -> section, key, values that it takes
_KEYS: Mapping[str, tuple[str, str, tuple[Any, ...]]] = {
    "parallelism.zero.stage": ("deepspeed_config", "zero_stage", (0, 1, 2, 3)),
    "offload.optimizer": ("deepspeed_config", "offload_optimizer_device", _DEVICES),
    "offload.parameters": ("deepspeed_config", "offload_param_device", _DEVICES),
    "parallelism.fsdp.cpu_offload": ("fsdp_config", "fsdp_offload_params", (True, False)),
    "parallelism.fsdp.strategy": ("fsdp_config", "fsdp_sharding_strategy", STRATEGIES),
    "parallelism.fsdp.reshard_after_forward": ("fsdp_config", "fsdp_reshard_after_forward", (True, False)),
}
_ENGINES = {"deepspeed_config": "DEEPSPEED", "fsdp_config": "FSDP"}


def accelerate_edits(value: Any, place: tuple[str, Path], changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """Edits of the launch file `value` that stands at `place`; None where it cannot say one of `changes`."""
    if not isinstance(value, dict):
        return None
    path, pointer = place
    made = []
    for field, change in changes.items():
        section, key, legal = _KEYS.get(field, ("", "", ()))
        if not section or change not in legal or str(value.get("distributed_type")).upper() != _ENGINES[section]:
            return None
        inner = value.get(section)
        if not isinstance(inner, dict):
            made.append(Edit(path, (*pointer, section), "set", {key: change}))
        elif "deepspeed_config_file" in inner:
            return None
        else:
            made.append(Edit(path, (*pointer, section, key), "set", change))
    return tuple(made)


def own_fsdp_edits(
    config: Mapping[str, Any], place: tuple[str, Path], changes: Mapping[str, Any]
) -> tuple[Edit, ...] | None:
    """FSDP's shards in host memory, as TrainingArguments say it: `fsdp: full_shard auto_wrap offload`, and since
    transformers 5 `fsdp_config.cpu_offload` for `fsdp: true`."""
    if dict(changes) != {"parallelism.fsdp.cpu_offload": True}:
        return None
    path, pointer = place
    said, options = config["fsdp"], config.get("fsdp_config")
    if isinstance(said, str) and "offload" not in said.split():
        return (Edit(path, (*pointer, "fsdp"), "set", f"{said} offload"),)
    if said is True and (options is None or isinstance(options, dict)):
        key = ("cpu_offload",) if options else ()
        return (Edit(path, (*pointer, "fsdp_config", *key), "set", True if key else {"cpu_offload": True}),)
    return None
