"""Writes changes of a run into a LLaMA-Factory file, or into the DeepSpeed JSON that it names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import memlint.formats.accelerate.edits as launch_file
import memlint.formats.deepspeed.edits as deepspeed_file
import memlint.formats.llamafactory.shipped_deepspeed as shipped
from memlint.findings import Edit
from memlint.formats.base import Parsed
from memlint.formats.keys import Written
from memlint.formats.llamafactory.keys import KEYS
from memlint.formats.llamafactory.keys_v1 import KEYS as KEYS_V1
from memlint.formats.llamafactory.recognise import is_v1
from memlint.formats.schema.validate import is_valid
from memlint.formats.section_edits import changed_keys
from memlint.run import Run, Unknown


def llamafactory_edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """Edits of the config and of its DeepSpeed file; None where no key expresses one of `changes`."""
    value = parsed.raw.get("config")
    if not isinstance(value, dict) or any(isinstance(change, Unknown) for change in changes.values()):
        return None
    if changes.get("parallelism.engine") == "deepspeed":
        changes = {name: change for name, change in changes.items() if name not in deepspeed_file.FOLLOW_DEEPSPEED}
    table, schema = (KEYS_V1, "llamafactory.json#v1") if is_v1(value) else (KEYS, "llamafactory.json#v0")
    sharding = {name: change for name, change in changes.items() if _is_sharding(name) and not table.can_set(name)}
    own = {name: change for name, change in changes.items() if name not in sharding}
    keys = changed_keys(table, value, run, own)
    repeated = _repeated(parsed, own)
    engine = _sharding_edits(parsed, value, run, {**sharding, **repeated})
    if keys is None or engine is None or not all(_is_valid(schema, key, new, value) for key, new in keys.items()):
        return None
    path = parsed.documents[0].path
    return (*_edits(path, value, keys), *engine)


def _repeated(parsed: Parsed, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes of sizes that the DeepSpeed file repeats as numbers: transformers wants both to be equal."""
    section = parsed.raw.get("deepspeed") if "deepspeed" in parsed.raw_places else None
    return {name: change for name, change in changes.items() if deepspeed_file.repeats(section, name)}


def _is_sharding(name: str) -> bool:
    placed = ("parallelism.zero.", "parallelism.fsdp.", "offload.optimizer", "offload.parameters")
    return name.startswith(placed) or name == "parallelism.engine"


def _edits(path: str, value: Mapping[str, Any], keys: Written) -> tuple[Edit, ...]:
    made = []
    for key, new in keys.items():
        pointer = tuple(key.split("."))
        if new is not None:
            made.append(Edit(path, pointer, "set", new, near="name" if len(pointer) > 1 else ""))
        elif key in value:
            made.append(Edit(path, pointer, "remove"))
    return tuple(made)


def _is_valid(schema: str, key: str, new: Any, value: Mapping[str, Any]) -> bool:
    """Whether the schema takes the key, with its section where it has one; None takes the key away."""
    section, _, inner = key.rpartition(".")
    alone = {section: {**value.get(section, {}), inner: new}} if section else {key: new}
    return new is None or is_valid(schema, alone)


def _sharding_edits(
    parsed: Parsed, value: Mapping[str, Any], run: Run, changes: Mapping[str, Any]
) -> tuple[Edit, ...] | None:
    if not changes:
        return ()
    if any(name.startswith("parallelism.fsdp.") for name in changes):
        return _fsdp_edits(parsed, value, changes)
    if changes.get("parallelism.engine", "deepspeed") != "deepspeed":
        return None
    wanted = {name: change for name, change in changes.items() if name != "parallelism.engine"}
    third = wanted.get("parallelism.zero.stage") == 3
    if _refuses_deepspeed(value, run, wanted) or (third and _not_under_zero3(value, run)):
        return None
    asks_for_none = "parallelism.engine" in changes and _asks_for_no_half(value, run)
    mode = _mixed_precision_edits(parsed, value) if asks_for_none or (third and value.get("pure_bf16")) else ()
    engine = _deepspeed_edits(parsed, value, run, wanted)
    return None if engine is None else (*mode, *engine)


def _deepspeed_edits(
    parsed: Parsed, value: Mapping[str, Any], run: Run, wanted: Mapping[str, Any]
) -> tuple[Edit, ...] | None:
    """The changes in the DeepSpeed file, by another of the files that LLaMA-Factory ships, in accelerate's launch file,
    or in a section of the config itself."""
    place = parsed.raw_places.get("deepspeed")
    if place is not None:
        return deepspeed_file.deepspeed_edits(parsed.raw.get("deepspeed"), place, wanted)
    if isinstance(value.get("deepspeed"), str):
        name = shipped.shipped_variant(value["deepspeed"], deepspeed_file.placed(run, wanted))
        return None if name is None else (Edit(parsed.documents[0].path, ("deepspeed",), "set", name),)
    if run.parallelism.engine == "deepspeed":
        return launch_file.launch_file_edits(parsed, wanted)
    return _new_section(parsed, value, run, wanted)


def _asks_for_no_half(value: Mapping[str, Any], run: Run) -> bool:
    """Whether the run computes in bfloat16 because its weights are, or by `pure_bf16`: an `auto` of DeepSpeed follows
    neither (transformers 5.23 integrations/deepspeed.py:172), and without its half precision weights become fp32."""
    return run.precision.compute == "bfloat16" and value.get("bf16") in (None, False)


def _mixed_precision_edits(parsed: Parsed, value: Mapping[str, Any]) -> tuple[Edit, ...]:
    """`bf16: true`, in place of `pure_bf16`, which ZeRO-3 refuses (0.9.5 hparams/parser.py:385): DeepSpeed keeps fp32
    masters of bfloat16 weights, so that no update is rounded away."""
    path = parsed.documents[0].path
    if not value.get("pure_bf16"):
        return (Edit(path, ("bf16",), "set", True),)
    if "bf16" not in value:
        return (Edit(path, ("pure_bf16",), "rename", "bf16"),)
    return Edit(path, ("pure_bf16",), "remove"), Edit(path, ("bf16",), "set", True)


def _fsdp_edits(parsed: Parsed, value: Mapping[str, Any], changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """The changes in the config's own `fsdp`, or in accelerate's launch file. The v1 layout has keys for it, and no
    others."""
    if is_v1(value):
        return None
    if "parallelism.engine" in changes:
        return launch_file.new_fsdp_edits(value, (parsed.documents[0].path, ()), changes)
    if value.get("fsdp"):
        return launch_file.own_fsdp_edits(value, (parsed.documents[0].path, ()), changes)
    return launch_file.launch_file_edits(parsed, changes)


def _not_under_zero3(value: Mapping[str, Any], run: Run) -> bool:
    """hparams/parser.py:495-538 and model_utils/quantization.py:105."""
    refused = ("use_unsloth", "use_kt", "pissa_init", "predict_with_generate")
    quantization = run.model.quantization
    eight = quantization.method != "none" and (quantization.prequantized or quantization.bits != 4)
    pure = bool(value.get("pure_bf16")) and run.parallelism.engine == "deepspeed"  # gains masters: not modelled
    return any(value.get(key) for key in refused) or eight or pure


def _refuses_deepspeed(value: Mapping[str, Any], run: Run, wanted: Mapping[str, Any]) -> bool:
    """DeepSpeed is started as for several GPUs even on one, and there BAdam wants `layer` and ZeRO-3
    (hparams/parser.py:394-398). accelerate would replace an offloaded optimizer by DeepSpeed's Adam (1.15
    utils/deepspeed.py:29)."""
    shards = wanted.get("parallelism.zero.stage", run.parallelism.zero.stage) == 3
    leaves_states = wanted.get("offload.optimizer", run.offload.optimizer) == "none"
    return bool(value.get("use_badam")) and not (run.optimizer.badam_mode == "layer" and shards and leaves_states)


def _new_section(
    parsed: Parsed, value: Mapping[str, Any], run: Run, changes: Mapping[str, Any]
) -> tuple[Edit, ...] | None:
    """`deepspeed:` takes a mapping as well as a file's name (transformers TrainingArguments.deepspeed)."""
    blocked = ("deepspeed", "fsdp", "use_galore", "use_apollo", "use_mca", "use_megatron_bridge", "use_hyper_parallel")
    if is_v1(value) or any(value.get(key) for key in blocked) or run.parallelism.engine not in ("single", "ddp"):
        return None
    section = deepspeed_file.new_section(changes)
    return None if section is None else (Edit(parsed.documents[0].path, ("deepspeed",), "set", section),)
