"""`zero_optimization` as neutral fields: stage, buckets, live parameters, offload (deepspeed 0.19.8 zero/config.py)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from memlint.formats.deepspeed.config import SOURCE, Config
from memlint.formats.fields import Fields, as_number
from memlint.run import Origin

ZERO = "zero_optimization"

# neutral field, DeepSpeed key, its other spelling (populate_by_name), default
_COUNTS = (
    ("reduce_bucket_size", "reduce_bucket_size", "reduce_bucket_size", 500_000_000),
    ("allgather_bucket_size", "allgather_bucket_size", "allgather_bucket_size", 500_000_000),
    ("prefetch_bucket_size", "stage3_prefetch_bucket_size", "prefetch_bucket_size", 50_000_000),
    ("param_persistence_threshold", "stage3_param_persistence_threshold", "param_persistence_threshold", 100_000),
    ("model_persistence_threshold", "stage3_model_persistence_threshold", "model_persistence_threshold", sys.maxsize),
    ("max_live_parameters", "stage3_max_live_parameters", "max_live_parameters", 1_000_000_000),
    ("max_reuse_distance", "stage3_max_reuse_distance", "max_reuse_distance", 1_000_000_000),
    ("sub_group_size", "sub_group_size", "sub_group_size", 1_000_000_000),
    ("hpz_partition_size", "zero_hpz_partition_size", "zero_hpz_partition_size", 1),
)
_FLAGS = (
    ("contiguous_gradients", "contiguous_gradients", True),
    ("reduce_scatter", "reduce_scatter", True),
    ("quantized_weights", "zero_quantized_weights", False),
    ("quantized_gradients", "zero_quantized_gradients", False),
)
# transformers 5.23 integrations/deepspeed.py:186 (trainer_config_finalize) and accelerate 1.15 _prepare_deepspeed.
_FILLED: Mapping[str, tuple[str, Callable[[int], int]]] = {
    "reduce_bucket_size": ("hidden_size * hidden_size", lambda hidden: hidden * hidden),
    "stage3_prefetch_bucket_size": ("int(0.9 * hidden_size * hidden_size)", lambda hidden: int(0.9 * hidden * hidden)),
    "stage3_param_persistence_threshold": ("10 * hidden_size", lambda hidden: 10 * hidden),
}


def stage_of(view: Config) -> int | None:
    """The ZeRO stage, None where it cannot be known. `zero_optimization: true` is the old way to say 1."""
    zero = view.get(ZERO)
    if isinstance(zero, bool):
        return int(zero)
    if view.is_auto(ZERO, "stage"):
        # accelerate's DeepSpeedPlugin fills 2 (dataclasses.py, ACCELERATE_DEEPSPEED_ZERO_STAGE); pydantic drops "auto"
        return 2 if view.arguments is not None else 0
    if view.get(ZERO, "stage") is None:
        return 0
    stage = view.integer(ZERO, "stage")
    return stage if stage in (0, 1, 2, 3) else None


def apply_zero(fields: Fields, view: Config, architecture: Any) -> None:
    stage = stage_of(view)
    if stage is None:
        fields.unknown("parallelism.zero.stage", f"`stage: {view.get(ZERO, 'stage')!r}` is no ZeRO stage")
    else:
        origin = view.origin(ZERO) if isinstance(view.get(ZERO), bool) else view.origin(ZERO, "stage")
        fields.put("parallelism.zero.stage", stage, origin)
    for name, key, other, default in _COUNTS:
        _count(fields, view, name, view.spelled(ZERO, key, also=other), default, architecture)
    for name, key, standard in _FLAGS:
        fields.put(f"parallelism.zero.{name}", view.flag(ZERO, key, default=standard), view.origin(ZERO, key))
    if view.integer(ZERO, "mics_shard_size") is not None:
        fields.put(
            "parallelism.zero.mics_shard_size",
            view.integer(ZERO, "mics_shard_size"),
            view.section.origin(ZERO, "mics_shard_size"),
        )
    _overlap(fields, view, stage)
    _gather_on_save(fields, view)
    _leaf_modules(fields, view)
    _offload_optimizer(fields, view)
    _offload_parameters(fields, view)


def _count(fields: Fields, view: Config, name: str, keys: tuple[str, ...], default: int, architecture: Any) -> None:
    """One element count; `5e8` is legal. `auto` follows the hidden size, elsewhere it means the default."""
    field = f"parallelism.zero.{name}"
    if view.is_auto(*keys) and keys[-1] in _FILLED:
        _filled(fields, field, keys[-1], architecture)
        return
    value = view.integer(*keys)
    if value is None or value < 0:
        fields.put(field, default, Origin("default", detail=SOURCE))
    else:
        fields.put(field, value, view.section.origin(*keys))


def _filled(fields: Fields, field: str, key: str, architecture: Any) -> None:
    formula, compute = _FILLED[key]
    hidden = getattr(architecture, "hidden_size", None)
    if isinstance(hidden, int) and hidden > 0:
        fields.infer(field, compute(hidden), f"`auto`: {formula} (transformers 5.23 integrations/deepspeed.py)")
    else:
        fields.unknown(field, f"`auto` becomes {formula} of a model that is not known")


def _overlap(fields: Fields, view: Config, stage: int | None) -> None:
    """`overlap_comm` unset means on at stage 3 only (zero/config.py, overlap_comm_valid)."""
    value = view.flag(ZERO, "overlap_comm", default=stage == 3)
    fields.put("parallelism.zero.overlap_comm", value, view.origin(ZERO, "overlap_comm"))


def _gather_on_save(fields: Fields, view: Config) -> None:
    keys = view.spelled(ZERO, "stage3_gather_16bit_weights_on_model_save", also="gather_16bit_weights_on_model_save")
    keys = view.spelled(*keys, also="stage3_gather_fp16_weights_on_model_save")
    gathers = view.flag(*keys, default=False)
    fields.put("parallelism.zero.gather_16bit_weights_on_model_save", gathers, view.origin(*keys))
    fields.put("saving.gathers_full_weights", gathers, view.origin(*keys))


def _leaf_modules(fields: Fields, view: Config) -> None:
    classes = view.get(ZERO, "leaf_module", "classes")
    names = [classes] if isinstance(classes, str) else classes if isinstance(classes, list) else []
    if names:
        words = tuple(name for name in names if isinstance(name, str))
        fields.put("parallelism.zero.leaf_modules", words, view.origin(ZERO, "leaf_module", "classes"))


def _device(view: Config, key: str, legacy: str) -> tuple[str, tuple[str, ...]]:
    """Where a part lives and which key says so; `cpu_offload: true` is the deprecated spelling."""
    device = view.get(ZERO, key, "device")
    if isinstance(device, str) and device in ("cpu", "nvme", "none"):
        return device, (ZERO, key, "device")
    if view.flag(ZERO, legacy, default=False) and not view.mapping(ZERO, key):
        return "cpu", (ZERO, legacy)
    return "none", (ZERO, key, "device")


def _offload_optimizer(fields: Fields, view: Config) -> None:
    device, keys = _device(view, "offload_optimizer", "cpu_offload")
    fields.put("offload.optimizer", device, view.origin(*keys))
    _pinned(fields, view, "offload.optimizer_pinned", "offload_optimizer", device)
    ratio = as_number(view.get(ZERO, "offload_optimizer", "ratio"))
    if ratio is not None and 0 <= ratio <= 1:
        fields.put("offload.optimizer_ratio", float(ratio), view.origin(ZERO, "offload_optimizer", "ratio"))


def _offload_parameters(fields: Fields, view: Config) -> None:
    device, keys = _device(view, "offload_param", "cpu_offload_params")
    if device == "none" and view.flag(ZERO, "cpu_offload_param", default=False):
        device, keys = "cpu", (ZERO, "cpu_offload_param")
    stage = fields.get("parallelism.zero.stage")
    if device != "none" and stage in (0, 1, 2):
        message = f"`offload_param` needs ZeRO stage 3; at stage {stage} parameters stay on the GPU"
        fields.issues.append(view.section.issue("ignored-key", message, *keys, severity="warning"))
        device = "none"
    fields.put("offload.parameters", device, view.origin(*keys))
    _pinned(fields, view, "offload.parameters_pinned", "offload_param", device)


def _pinned(fields: Fields, view: Config, field: str, key: str, device: str) -> None:
    """Pinned by default since 0.19.5 (pull request 8207); only a part that is offloaded pins anything."""
    pinned = device != "none" and view.flag(ZERO, key, "pin_memory", default=True)
    fields.put(field, pinned, view.origin(ZERO, key, "pin_memory"))
