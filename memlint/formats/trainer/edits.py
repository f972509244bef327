"""Writes changes of a run into the Trainer's file, the DeepSpeed file that it names, or the launch file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.accelerate.edits import launch_file_edits, new_fsdp_edits, own_fsdp_edits
from memlint.formats.base import Parsed
from memlint.formats.deepspeed.edits import FOLLOW_DEEPSPEED, deepspeed_edits, new_section, repeats
from memlint.formats.keys import FieldChange
from memlint.formats.trainer.keys import KEYS
from memlint.formats.trainer.loss import write_fused_loss
from memlint.run import Run


def trainer_edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` as edits of the file that decides each field; None where no file can express one of them."""
    wanted = _without_consequences(run, changes)
    edits: list[Edit] = []
    engine_changes: dict[str, Any] = {}  # to be written into the engine's file
    for field, value in wanted.items():
        own = _own_edits(parsed, FieldChange(field, value, changes, parsed.raw.get("config") or {}, run))
        if own is not None:
            edits.extend(own)
        if own is None or repeats(parsed.raw.get("deepspeed"), field):
            engine_changes[field] = value
    if not engine_changes:
        return tuple(edits)
    engine = _engine_edits(parsed, run, engine_changes)
    return None if engine is None else (*edits, *engine)


def _own_edits(parsed: Parsed, change: FieldChange) -> tuple[Edit, ...] | None:
    """The change in the Trainer's own file; None where it has no key for it."""
    place = parsed.raw_places.get("config")
    if place is None or not isinstance(change.section, dict):
        return None
    written = write_fused_loss(change) if change.field == "loss.kind" else KEYS.write(change)
    if written is None:
        return None
    path, pointer = place
    return tuple(Edit(path, (*pointer, key), "set", value) for key, value in written.items())


def _engine_edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """Edits of what shards the run: the DeepSpeed file, the launch file, or the config's own section."""
    if changes.get("parallelism.engine") == "fsdp":
        return _new_fsdp(parsed, changes)
    if "parallelism.engine" in changes:
        return _new_deepspeed(parsed, run, changes)
    place = parsed.raw_places.get("deepspeed")
    if place is not None:
        return deepspeed_edits(parsed.raw.get("deepspeed"), place, changes)
    config = parsed.raw.get("config")
    if isinstance(config, dict) and config.get("fsdp"):
        own = parsed.raw_places.get("config")
        return None if own is None else own_fsdp_edits(config, own, changes)
    return launch_file_edits(parsed, changes)


def _new_deepspeed(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`deepspeed:` takes a mapping as well as a file's name (transformers 5.23 training_args.py)."""
    config, place = parsed.raw.get("config"), parsed.raw_places.get("config")
    if not isinstance(config, dict) or place is None or config.get("deepspeed") or config.get("fsdp"):
        return None
    if run.parallelism.engine not in ("single", "ddp") or changes["parallelism.engine"] != "deepspeed":
        return None
    wanted = {field: value for field, value in changes.items() if field != "parallelism.engine"}
    section = new_section(wanted)
    return None if section is None else (Edit(place[0], (*place[1], "deepspeed"), "set", section),)


def _new_fsdp(parsed: Parsed, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    config, place = parsed.raw.get("config"), parsed.raw_places.get("config")
    return new_fsdp_edits(config, place, changes) if isinstance(config, dict) and place is not None else None


def _without_consequences(run: Run, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes to be written: those that follow from another one are left out."""
    wanted = dict(changes)
    for part in (_method_consequences, _dtype_consequences, _length_consequences):
        for field in part(run, wanted):
            wanted.pop(field, None)
    return wanted


def _method_consequences(run: Run, wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """What follows from a change of the method: with adapters the base model is the reference; 4 bits are
    bitsandbytes', and Unsloth's are NF4 with its scales in 8 bits (unsloth 2026.10.9 models/llama.py:4017)."""
    follows = []
    if wanted.get("method.kind") == "lora" and wanted.get("method.reference_model") == "shared":
        follows.append("method.reference_model")
    if wanted.get("model.quantization.method") == "bnb" and wanted.get("model.quantization.bits") == 4:
        follows.append("model.quantization.method")
        if run.stack.use_unsloth:
            follows += ["model.quantization.kind", "model.quantization.double_quant"]
    return tuple(follows)


def _dtype_consequences(run: Run, wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """Dtype fields that follow from the engine, from mixed precision, or from the dtype of the loaded weights."""
    if wanted.get("parallelism.engine") == "deepspeed":
        return FOLLOW_DEEPSPEED
    follows = []
    mixed = wanted.get("precision.autocast") is True and wanted.get("precision.compute") in ("bfloat16", "float16")
    if mixed:
        follows += ["precision.autocast", "precision.outputs_to_fp32"]
    if "model.weights_dtype" in wanted and run.parallelism.engine in ("single", "ddp"):
        same = ("precision.trainable_dtype",) if mixed else ("precision.trainable_dtype", "precision.compute")
        follows += [field for field in same if wanted.get(field) == wanted["model.weights_dtype"]]
    return tuple(follows)


def _length_consequences(run: Run, wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """GRPO's sequence length is the sum of the prompt's and the completion's."""
    parts = "sequence.max_prompt_length" in wanted or "sequence.max_new_tokens" in wanted
    return ("sequence.length",) if run.method.stage == "grpo" and parts else ()
