"""How a LLaMA-Factory file, or the DeepSpeed JSON behind it, says a change of neutral fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import memlint.formats.accelerate.edits as launch_file
import memlint.formats.deepspeed.edits as deepspeed_file
import memlint.formats.llamafactory.shipped_deepspeed as shipped
from memlint.findings import Edit
from memlint.formats.base import Parsed
from memlint.formats.keys import Change, Written
from memlint.formats.llamafactory.keys import KEYS
from memlint.formats.llamafactory.recognise import is_v1
from memlint.formats.schema.validate import compiled_schema
from memlint.run import Run, Unknown

_PLAIN_V1: Mapping[str, str] = {
    "batch.micro_batch_size": "micro_batch_size",
    "batch.global_batch_size": "global_batch_size",
    "sequence.length": "cutoff_len",
    "attention.implementation": "flash_attn",
    "parallelism.sequence_parallel_size": "cp_size",
}


def llamafactory_edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """Edits of the config and of its DeepSpeed file; None where LLaMA-Factory has no way to say one of `changes`."""
    value = parsed.raw.get("config")
    if not isinstance(value, dict) or any(isinstance(change, Unknown) for change in changes.values()):
        return None
    if changes.get("parallelism.engine") == "deepspeed":
        changes = {name: change for name, change in changes.items() if name not in deepspeed_file.FOLLOW_DEEPSPEED}
    sharding = {name: change for name, change in changes.items() if _is_sharding(name)}
    own = {name: change for name, change in changes.items() if name not in sharding}
    keys = _v1(value, run, own) if is_v1(value) else _written(value, run, own)
    engine = _sharding_edits(parsed, value, run, sharding)
    if keys is None or engine is None:
        return None
    path = parsed.documents[0].path
    return (*_edits(path, value, keys), *engine)


def _is_sharding(name: str) -> bool:
    placed = ("parallelism.zero.", "parallelism.fsdp.", "offload.optimizer", "offload.parameters")
    return name.startswith(placed) or name == "parallelism.engine"


def _edits(path: str, value: Mapping[str, Any], keys: Written) -> tuple[Edit, ...]:
    made = []
    for key, new in keys.items():
        if new is None:
            if key in value:
                made.append(Edit(path, (key,), "remove"))
        else:
            made.append(Edit(path, (key,), "set", new))
    return tuple(made)


def _written(value: Mapping[str, Any], run: Run, changes: Mapping[str, Any]) -> Written | None:
    """The keys that say all of `changes`, each with its new value."""
    found: dict[str, Any] = {}
    for field, wanted in changes.items():
        said = KEYS.write(Change(field, wanted, changes, value, run))
        if said is None or not all(_legal(key, new) for key, new in said.items()):
            return None
        found.update(said)
    return found


def _legal(key: str, new: Any) -> bool:
    """Whether the schema takes the value; None takes the key away."""
    return new is None or compiled_schema("llamafactory.json#v0").accepts({key: new})


def _v1(value: Mapping[str, Any], run: Run, changes: Mapping[str, Any]) -> Written | None:
    keys: dict[str, Any] = {}
    for name, change in changes.items():
        if name in _PLAIN_V1:
            key = _PLAIN_V1[name]
            if not compiled_schema("llamafactory.json#v1").accepts({key: change}):
                return None
            keys[key] = change
        elif name == "checkpointing.mode" and change in ("full", "none"):
            keys["enable_activation_checkpointing"] = change == "full"
        else:
            return None
    return keys


# v1/plugins/trainer_plugins/distributed/fsdp2.py:159.
_SHARDS_V1 = {
    "parallelism.fsdp.cpu_offload": "offload_params",
    "parallelism.fsdp.reshard_after_forward": "reshard_after_forward",
}


def _shards_v1(parsed: Parsed, value: Mapping[str, Any], changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """Keys of `dist_config`."""
    section = value.get("dist_config")
    if not isinstance(section, dict) or section.get("name") not in ("fsdp2", "fsdpturbo"):
        return None
    if not all(name in _SHARDS_V1 and isinstance(change, bool) for name, change in changes.items()):
        return None
    path = parsed.documents[0].path
    return tuple(
        Edit(path, ("dist_config", _SHARDS_V1[name]), "set", change, near="name") for name, change in changes.items()
    )


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
    if wanted.get("parallelism.zero.stage") == 3 and _not_under_zero3(value, run):
        return None
    place = parsed.raw_places.get("deepspeed")
    if place is not None:
        return deepspeed_file.deepspeed_edits(parsed.raw.get("deepspeed"), place, wanted)
    if isinstance(value.get("deepspeed"), str):
        name = shipped.shipped_beside(value["deepspeed"], deepspeed_file.placed(run, wanted))
        return None if name is None else (Edit(parsed.documents[0].path, ("deepspeed",), "set", name),)
    return _new_section(parsed, value, run, wanted)


def _fsdp_edits(parsed: Parsed, value: Mapping[str, Any], changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """In the v1 layout's section, in the config's own `fsdp`, or in accelerate's launch file."""
    if is_v1(value):
        return _shards_v1(parsed, value, changes)
    if value.get("fsdp"):
        return launch_file.own_fsdp_edits(value, (parsed.documents[0].path, ()), changes)
    place = parsed.raw_places.get("accelerate")
    return None if place is None else launch_file.accelerate_edits(parsed.raw.get("accelerate"), place, changes)


def _not_under_zero3(value: Mapping[str, Any], run: Run) -> bool:
    """hparams/parser.py:495-538 and model_utils/quantization.py:105."""
    refused = ("pure_bf16", "use_unsloth", "use_kt", "pissa_init", "predict_with_generate", "use_badam")
    quantization = run.model.quantization
    eight = quantization.method != "none" and (quantization.prequantized or quantization.bits != 4)
    return any(value.get(key) for key in refused) or eight


def _new_section(
    parsed: Parsed, value: Mapping[str, Any], run: Run, changes: Mapping[str, Any]
) -> tuple[Edit, ...] | None:
    """`deepspeed:` takes a mapping as well as a file's name (transformers TrainingArguments.deepspeed)."""
    blocked = ("deepspeed", "fsdp", "use_galore", "use_apollo", "use_mca", "use_megatron_bridge", "use_hyper_parallel")
    if is_v1(value) or any(value.get(key) for key in blocked) or run.parallelism.engine not in ("single", "ddp"):
        return None
    section = deepspeed_file.new_section(changes)
    return None if section is None else (Edit(parsed.documents[0].path, ("deepspeed",), "set", section),)
