"""FSDP options whose meaning depends on others: the functions that rows of `keys.py` name (accelerate 1.15)."""

from __future__ import annotations

from typing import Any

from memlint.formats.fields import Fields, as_int
from memlint.formats.section_keys import SectionKeys

STRATEGIES = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2")  # FSDP_SHARDING_STRATEGY
PREFETCHES = ("BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH")  # FSDP_BACKWARD_PREFETCH


def version_of(options: SectionKeys) -> int:
    """1 or 2."""
    return as_int(options.get("fsdp_version")) or 1


def read_strategy(fields: Fields, options: SectionKeys) -> None:
    """Version 1 names a strategy (a name or its number); version 2 only says whether to reshard after forward."""
    name, value = "fsdp_sharding_strategy", _written_value(options, "fsdp_sharding_strategy")
    other = _written_value(options, "fsdp_reshard_after_forward")
    second = version_of(options) == 2
    if not second and isinstance(other, str) and options.written("fsdp_sharding_strategy") != "fsdp_sharding_strategy":
        name, value = "fsdp_reshard_after_forward", other
    strategy = named(value, STRATEGIES) or "FULL_SHARD"
    reshards = strategy in ("FULL_SHARD", "HYBRID_SHARD")
    if second:
        name, reshards = "fsdp_reshard_after_forward", options.flag("fsdp_reshard_after_forward")
        strategy = "FULL_SHARD" if reshards else "SHARD_GRAD_OP"
    fields.put("parallelism.fsdp.strategy", strategy, options.origin(name))
    fields.put("parallelism.fsdp.reshard_after_forward", reshards, options.origin(name))


def _written_value(options: SectionKeys, name: str) -> Any:
    """The value as written, of any type, else the default."""
    value = options.raw(name)
    return options.default(name) if value is None else value


def named(value: Any, names: tuple[str, ...]) -> str:
    """One of `names` by name (any case) or by its number, which starts at 1; "" for anything else."""
    number = as_int(value)
    if number is not None:
        return names[number - 1] if 1 <= number <= len(names) else ""
    return value.upper() if isinstance(value, str) and value.upper() in names else ""


def read_wrap(fields: Fields, options: SectionKeys) -> None:
    """A size-based policy with no size wraps nothing (accelerate 1.15 utils/dataclasses.py:2095)."""
    policy = str(_written_value(options, "fsdp_auto_wrap_policy")).upper()
    by_size = "size" if as_int(options.get("fsdp_min_num_params")) else "none"
    wrap = {"TRANSFORMER_BASED_WRAP": "transformer", "SIZE_BASED_WRAP": by_size}.get(policy, "none")
    fields.put("parallelism.fsdp.wrap", wrap, options.origin("fsdp_auto_wrap_policy"))


def read_prefetch(fields: Fields, options: SectionKeys) -> None:
    if version_of(options) == 2:
        # FSDP2 has no such option: it prefetches the next unit's all-gather in backward by itself.
        fields.infer("parallelism.fsdp.backward_prefetch", "BACKWARD_PRE", "FSDP2 prefetches by itself")
        return
    prefetch = named(_written_value(options, "fsdp_backward_prefetch"), PREFETCHES) or "NO_PREFETCH"
    word = "NONE" if prefetch == "NO_PREFETCH" else prefetch
    fields.put("parallelism.fsdp.backward_prefetch", word, options.origin("fsdp_backward_prefetch"))


def read_offload(fields: Fields, options: SectionKeys) -> None:
    """transformers calls it `cpu_offload` (5.23 training_args.py:2830); the word of `fsdp: full_shard offload` wins."""
    key = "fsdp_offload_params"
    if options.written(key) is None and not options.default(key):
        key = "fsdp_cpu_offload"
    fields.put("parallelism.fsdp.cpu_offload", options.flag(key), options.origin(key))


def read_state_dict(fields: Fields, options: SectionKeys) -> None:
    """accelerate: FULL_STATE_DICT for version 1 and SHARDED_STATE_DICT for 2 by default."""
    state_dict_type = _written_value(options, "fsdp_state_dict_type")
    default = "SHARDED_STATE_DICT" if version_of(options) == 2 else "FULL_STATE_DICT"
    kind = state_dict_type.upper() if isinstance(state_dict_type, str) and state_dict_type else default
    fields.put("parallelism.fsdp.state_dict_type", kind, options.origin("fsdp_state_dict_type"))
    fields.put("saving.gathers_full_weights", kind == "FULL_STATE_DICT", options.origin("fsdp_state_dict_type"))


def read_checkpointing(fields: Fields, options: SectionKeys) -> None:
    """FSDP's own checkpointing wraps each unit and is not reentrant (accelerate 1.15 accelerator.py)."""
    key = "fsdp_activation_checkpointing"
    on = options.flag(key)
    fields.put("parallelism.fsdp.activation_checkpointing", on, options.origin(key))
    if on:
        fields.put("checkpointing.mode", "full", options.origin(key))
        fields.put("checkpointing.reentrant", False, options.origin(key))


def read_checkpointing_offload(fields: Fields, options: SectionKeys) -> None:
    if options.flag("fsdp_activation_checkpointing_offload"):
        fields.put("checkpointing.offload", True, options.origin("fsdp_activation_checkpointing_offload"))
