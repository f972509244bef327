"""Changes of a run as edits under ms-swift's names, and of the DeepSpeed file behind it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Parsed
from memlint.formats.deepspeed.edits import FOLLOW_DEEPSPEED, deepspeed_edits
from memlint.formats.keys import FieldChange, Written
from memlint.formats.swift.behaviour import fsdp_of_4_bits, shipped_deepspeed
from memlint.formats.swift.keys import KEYS
from memlint.formats.trainer.keys import KEYS as TRAINER_KEYS
from memlint.run import Run

# With an adapter the reference is the base; GRPO's length is prompt and completion; mixed precision follows the dtype.
_FOLLOW = ("method.reference_model", "rollout.log_prob_micro_batch_size", "rollout.reference_micro_batch_size") + (
    "model.quantization.method",
)
_SHIPPED = {(0, "none", "none"): "zero0", (1, "none", "none"): "zero1", (2, "none", "none"): "zero2"} | {
    (3, "none", "none"): "zero3",
    (2, "cpu", "none"): "zero2_offload",
    (3, "cpu", "cpu"): "zero3_offload",
}


def swift_edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    config, place = parsed.raw.get("config"), parsed.raw_places.get("config")
    if not isinstance(config, dict) or place is None:
        return None
    path, pointer = place
    found: dict[str, Any] = {}
    engine: dict[str, Any] = {}
    for field, value in changes.items():
        if _follows(run, field, changes):
            continue
        if field.startswith(("parallelism.", "offload.", "saving.")) and not KEYS.can_set(field):
            engine[field] = value
            continue
        written = _written(FieldChange(field, value, changes, config, run))
        if written is None:
            return None
        found.update(written)
    own = tuple(Edit(path, (*pointer, key), "set", value) for key, value in found.items())
    more = _engine_edits(parsed, run, engine, changes) if engine else ()
    return None if more is None else (*own, *more)


def _written(change: FieldChange) -> Written | None:
    """ms-swift's own key, else the Trainer's argument that it inherits (arguments/sft_args.py:125)."""
    if KEYS.can_set(change.field):
        return KEYS.write(change)
    if change.field == "loss.kind":
        return _fused_loss(change)
    return TRAINER_KEYS.write(change) if change.field in _INHERITED else None


_INHERITED = ("optimizer.name", "optimizer.learning_rate", "loss.liger_kernels") + (
    "evaluation.batch_size",
    "evaluation.accumulation_steps",
)


def _fused_loss(change: FieldChange) -> Written | None:
    """Liger's switch is for the kernels and the loss of supervised training (trainers/arguments.py:56)."""
    fused = change.value == "liger" and change.run.method.stage in ("sft", "pt") and change.run.loss.kind == "plain"
    return {"use_liger_kernel": True} if fused else None


def _follows(run: Run, field: str, changes: Mapping[str, Any]) -> bool:
    if field in _FOLLOW:
        return True
    if field in FOLLOW_DEEPSPEED and "parallelism.engine" in changes:
        return True
    if field == "parallelism.data_parallel_size":
        return "parallelism.sequence_parallel_size" in changes
    parts = "sequence.max_prompt_length" in changes or "sequence.max_new_tokens" in changes
    return field == "sequence.length" and run.method.stage in ("grpo", "ppo") and parts


def _engine_edits(
    parsed: Parsed, run: Run, changes: Mapping[str, Any], every: Mapping[str, Any]
) -> tuple[Edit, ...] | None:
    """The word for one of ms-swift's own files where one says it, else the DeepSpeed file's own keys."""
    config, (path, pointer) = parsed.raw["config"], parsed.raw_places["config"]
    if "fsdp" in (run.parallelism.engine, changes.get("parallelism.engine")):
        said = _fsdp_options(config.get("fsdp"), parsed.raw.get("fsdp"), changes)
        written = said if parsed.documents[0].syntax == "shell" else json.dumps(said)
        return None if said is None else (Edit(path, (*pointer, "fsdp"), "set", written),)
    now = config.get("deepspeed")
    is_word = isinstance(now, str) and shipped_deepspeed(now) is not None
    if now is None or is_word:
        word = _shipped_config(run, changes)
        return (Edit(path, (*pointer, "deepspeed"), "set", word),) if word not in ("", now) else None
    place = parsed.raw_places.get("deepspeed")
    return deepspeed_edits(parsed.raw.get("deepspeed"), place, changes) if place is not None else None


def _fsdp_options(now: Any, preset: Mapping[str, Any] | None, changes: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The options that share 4-bit weights where `fsdp` says nothing yet, or that have its shards in host memory, in
    place of the word for ms-swift's own file, which has no such twin (4.6.0 config/fsdp2.json, "Add 'offload' to enable
    CPU offloading"), or of the name of another file; None where they cannot be said. `preset`: what `now` stands
    for."""
    if "parallelism.engine" in changes:
        return None if now else fsdp_of_4_bits(changes["parallelism.fsdp.cpu_offload"])
    if preset is None or dict(changes) != {"parallelism.fsdp.cpu_offload": True}:
        return None
    return {**preset, "fsdp": f"{preset['fsdp']} offload"}


def _shipped_config(run: Run, changes: Mapping[str, Any]) -> str:
    """The name of the file that has these settings; "" where none has."""
    stage = changes.get("parallelism.zero.stage", run.parallelism.zero.stage)
    optimizer = changes.get("offload.optimizer", run.offload.optimizer)
    parameters = changes.get("offload.parameters", run.offload.parameters)
    known = {"parallelism.engine", "parallelism.zero.stage", "offload.optimizer", "offload.parameters"}
    pinned = {"offload.optimizer_pinned", "offload.parameters_pinned"}
    if set(changes) - known - pinned - {"parallelism.zero.gather_16bit_weights_on_model_save"}:
        return ""
    return _SHIPPED.get((stage, optimizer, parameters), "")
