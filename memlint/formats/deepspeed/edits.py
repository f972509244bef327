"""Writes changes of a run into a DeepSpeed file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.deepspeed.batch import MATCHED
from memlint.formats.deepspeed.keys import KEYS
from memlint.formats.section_edits import changed_keys, edits_of
from memlint.run import Run, get
from memlint.source.document import Path

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


# The keys that have to equal a training argument, by the field of the run that both set.
_REPEATED = {row.field: row.name for row in reversed(KEYS.rows) if row.field and row.name in MATCHED}


def repeats(section: Any, field: str) -> bool:
    """Whether a DeepSpeed configuration has `field` as a number, which must equal the training argument."""
    found = section.get(_REPEATED.get(field, "")) if isinstance(section, dict) else None
    return isinstance(found, (int, float)) and not isinstance(found, bool)


def deepspeed_edits(value: Any, place: tuple[str, Path], changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` as edits of the DeepSpeed mapping `value` at `place` (file, pointer); None where one has no key."""
    if not isinstance(value, dict):
        return None
    new_values = changed_keys(
        KEYS, value, Run("deepspeed", place[0]), changes
    )  # no row here asks about the rest of the run
    return None if new_values is None else edits_of(value, place, new_values)


PLACED = ("parallelism.zero.stage", "offload.optimizer", "offload.parameters")


def placed(run: Run, changes: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """The stage, and the devices of optimizer states and parameters, after the changes: frameworks' own files differ in
    these. None where other fields change too."""
    return tuple(changes.get(field, get(run, field)) for field in PLACED) if set(changes) <= set(PLACED) else None


def new_section(changes: Mapping[str, Any]) -> dict[str, Any] | None:
    """A new DeepSpeed configuration with `changes`; None where one has no key, or no stage is among them."""
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
