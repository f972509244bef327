"""How a DeepSpeed file would say a change of neutral fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.run import Run, get
from memlint.source.document import Path

_ZERO = "zero_optimization"

# neutral field -> keys in the file
_KEYS: Mapping[str, tuple[str, ...]] = {
    "parallelism.zero.stage": (_ZERO, "stage"),
    "parallelism.zero.reduce_bucket_size": (_ZERO, "reduce_bucket_size"),
    "parallelism.zero.allgather_bucket_size": (_ZERO, "allgather_bucket_size"),
    "parallelism.zero.overlap_comm": (_ZERO, "overlap_comm"),
    "parallelism.zero.contiguous_gradients": (_ZERO, "contiguous_gradients"),
    "parallelism.zero.prefetch_bucket_size": (_ZERO, "stage3_prefetch_bucket_size"),
    "parallelism.zero.param_persistence_threshold": (_ZERO, "stage3_param_persistence_threshold"),
    "parallelism.zero.max_live_parameters": (_ZERO, "stage3_max_live_parameters"),
    "parallelism.zero.max_reuse_distance": (_ZERO, "stage3_max_reuse_distance"),
    "parallelism.zero.sub_group_size": (_ZERO, "sub_group_size"),
    "parallelism.zero.hpz_partition_size": (_ZERO, "zero_hpz_partition_size"),
    "parallelism.zero.gather_16bit_weights_on_model_save": (_ZERO, "stage3_gather_16bit_weights_on_model_save"),
    "offload.optimizer": (_ZERO, "offload_optimizer", "device"),
    "offload.optimizer_pinned": (_ZERO, "offload_optimizer", "pin_memory"),
    "offload.optimizer_ratio": (_ZERO, "offload_optimizer", "ratio"),
    "offload.parameters": (_ZERO, "offload_param", "device"),
    "offload.parameters_pinned": (_ZERO, "offload_param", "pin_memory"),
    "optimizer.max_grad_norm": ("gradient_clipping",),
    "batch.micro_batch_size": ("train_micro_batch_size_per_gpu",),
    "batch.gradient_accumulation_steps": ("gradient_accumulation_steps",),
    "batch.global_batch_size": ("train_batch_size",),
}
_OTHER_SPELLINGS = {
    "stage3_prefetch_bucket_size": "prefetch_bucket_size",
    "stage3_param_persistence_threshold": "param_persistence_threshold",
    "stage3_max_live_parameters": "max_live_parameters",
    "stage3_max_reuse_distance": "max_reuse_distance",
}
# What DeepSpeed makes of a run's dtypes, whatever they were: nothing to write.
FOLLOW_DEEPSPEED = (
    *("precision.autocast", "precision.master_weights", "precision.trainable_dtype", "precision.outputs_to_fp32"),
    *("model.weights_dtype", "method.adapter_dtype"),
)
# A section for a file that has none, as LLaMA-Factory's examples/deepspeed/ds_z3_config.json with `auto` throughout:
# buckets of `auto` follow the model's width (transformers 5.23 integrations/deepspeed.py, trainer_config_finalize).
_AUTO: Mapping[str, Any] = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "zero_allow_untested_optimizer": True,
    "bf16": {"enabled": "auto"},
    "fp16": {"enabled": "auto"},
}
_AUTO_ZERO: Mapping[int, Mapping[str, Any]] = {
    2: {"reduce_bucket_size": "auto"},
    3: {
        **dict.fromkeys(
            ("reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold"), "auto"
        ),
        "stage3_gather_16bit_weights_on_model_save": True,
    },
}
_WORDS = {"offload.optimizer": ("none", "cpu", "nvme"), "offload.parameters": ("none", "cpu", "nvme")}


def says(field: str) -> bool:
    """Whether a DeepSpeed file has a key for this neutral field."""
    return field in _KEYS


# Fields that a trainer's arguments and the DeepSpeed file both say: transformers wants equal numbers in both, or `auto`
# in the file (5.23 integrations/deepspeed.py, HfTrainerDeepSpeedConfig.fill_match).
_SAID_TWICE = ("batch.micro_batch_size", "batch.gradient_accumulation_steps", "optimizer.max_grad_norm")


def repeats(section: Any, field: str) -> bool:
    """Whether the DeepSpeed mapping `section` repeats the value of a trainer's `field` as a number."""
    present = _at(section, _KEYS[field]) if field in _SAID_TWICE else None
    return isinstance(present, (int, float)) and not isinstance(present, bool)


def deepspeed_edits(value: Any, place: tuple[str, Path], changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """Edits of the DeepSpeed mapping `value` that stands at `place` (file, pointer); None where it cannot say one."""
    if not isinstance(value, dict) or not all(_legal(field, change) for field, change in changes.items()):
        return None
    merged: dict[tuple[str, ...], Any] = {}
    for field, change in changes.items():
        if change != "none" or _moves(value, field):
            _set(merged, value, _spelled(value, _KEYS[field]), change)
    path, pointer = place
    return tuple(Edit(path, pointer + keys, "set", change) for keys, change in merged.items())


PLACED = ("parallelism.zero.stage", "offload.optimizer", "offload.parameters")


def placed(run: Run, changes: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Stage and where optimizer states and parameters are, after the changes: what the files that frameworks ship
    differ in. None where the changes say more than that."""
    return tuple(changes.get(field, get(run, field)) for field in PLACED) if set(changes) <= set(PLACED) else None


def new_section(changes: Mapping[str, Any]) -> dict[str, Any] | None:
    """A whole DeepSpeed configuration that says `changes`; None where it cannot say one, or no stage is among them."""
    stage = changes.get("parallelism.zero.stage")
    if stage is None:
        return None
    section: dict[str, Any] = {**_AUTO, "zero_optimization": {"stage": stage, **_AUTO_ZERO.get(stage, {})}}
    made = deepspeed_edits(section, ("", ()), changes)
    if made is None:
        return None
    for edit in made:
        _place(section, edit.pointer, edit.value)
    return section


def _place(section: dict[str, Any], pointer: Path, new: Any) -> None:
    for step in pointer[:-1]:
        section = section.setdefault(str(step), {})
    section[str(pointer[-1])] = new


def _legal(field: str, change: Any) -> bool:
    if field not in _KEYS:
        return False
    if field == "parallelism.zero.stage":
        return change in (0, 1, 2, 3)
    return change in _WORDS[field] if field in _WORDS else isinstance(change, (int, float))


def _set(merged: dict[tuple[str, ...], Any], value: Any, keys: tuple[str, ...], change: Any) -> None:
    """Note `keys: change`; where a parent is missing, the parent is added with the change inside."""
    depth = len(keys)
    while depth > 1 and not isinstance(_at(value, keys[: depth - 1]), dict):
        depth -= 1
    inner = merged.get(keys[:depth]) if depth < len(keys) else None
    merged[keys[:depth]] = _nested(inner, keys[depth:], change)


def _nested(inner: Any, keys: tuple[str, ...], change: Any) -> Any:
    if not keys:
        return change
    base = dict(inner) if isinstance(inner, dict) else {}
    base[keys[0]] = _nested(base.get(keys[0]), keys[1:], change)
    return base


def _moves(value: Any, field: str) -> bool:
    """Whether the file speaks of moving this part of the model, under today's key or the ones before 0.5."""
    zero = _at(value, (_ZERO,))
    keys = (*_KEYS[field][1:2], "cpu_offload", "cpu_offload_params")
    return isinstance(zero, dict) and any(key in zero for key in keys)


def _spelled(value: Any, keys: tuple[str, ...]) -> tuple[str, ...]:
    """The file's own spelling of a key that has two."""
    other = (*keys[:-1], _OTHER_SPELLINGS.get(keys[-1], keys[-1]))
    return other if not _has(value, keys) and _has(value, other) else keys


def _has(value: Any, keys: tuple[str, ...]) -> bool:
    parent = _at(value, keys[:-1])
    return isinstance(parent, dict) and keys[-1] in parent


def _at(value: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
