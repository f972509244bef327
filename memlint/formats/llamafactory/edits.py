"""How a LLaMA-Factory file, or the DeepSpeed JSON behind it, says a change of neutral fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import memlint.formats.accelerate.edits as launch_file
import memlint.formats.deepspeed.edits as deepspeed_file
import memlint.formats.llamafactory.shipped_deepspeed as shipped
from memlint.findings import Edit
from memlint.formats.base import Parsed
from memlint.formats.llamafactory.families import LIGER_MODELS, LIGER_WITHOUT_FUSED_LOSS, LOADS_FLASH_3
from memlint.formats.llamafactory.recognise import is_v1
from memlint.formats.llamafactory.training import OWN_LOSSES
from memlint.formats.schema.validate import is_valid
from memlint.run import Quantization, Run, Unknown

Keys = dict[str, Any]  # key of the file -> its new value; None takes the key away
_ATTENTION = {"eager": "disabled", "sdpa": "sdpa", "flash_attention_2": "fa2", "flash_attention_3": "fa3"}

# Neutral fields that are one key with the same value.
_PLAIN: Mapping[str, str] = {
    "batch.micro_batch_size": "per_device_train_batch_size",
    "batch.gradient_accumulation_steps": "gradient_accumulation_steps",
    "batch.auto_find": "auto_find_batch_size",
    "sequence.length": "cutoff_len",
    "sequence.packing": "packing",
    "sequence.neat_packing": "neat_packing",
    "sequence.image_max_pixels": "image_max_pixels",
    "sequence.video_max_pixels": "video_max_pixels",
    "sequence.video_max_length": "video_maxlen",
    "checkpointing.reentrant": "use_reentrant_gc",
    "evaluation.batch_size": "per_device_eval_batch_size",
    "evaluation.accumulation_steps": "eval_accumulation_steps",
    "method.rank": "lora_rank",
    "method.alpha": "lora_alpha",
    "method.dropout": "lora_dropout",
    "method.use_dora": "use_dora",
    "method.use_rslora": "use_rslora",
    "method.freeze_trainable_layers": "freeze_trainable_layers",
    "method.freeze_vision_tower": "freeze_vision_tower",
    "method.freeze_multi_modal_projector": "freeze_multi_modal_projector",
    "method.freeze_language_model": "freeze_language_model",
    "optimizer.rank": "galore_rank",
    "precision.bf16": "bf16",
    "precision.fp16": "fp16",
    "precision.upcast_layernorm": "upcast_layernorm",
    "precision.upcast_lmhead_output": "upcast_lmhead_output",
    "saving.only_model": "save_only_model",
}
_PLAIN_V1: Mapping[str, str] = {
    "batch.micro_batch_size": "micro_batch_size",
    "sequence.length": "cutoff_len",
    "attention.implementation": "flash_attn",
    "parallelism.sequence_parallel_size": "cp_size",
}
_FULL_HALF = ("precision.autocast", "precision.outputs_to_fp32", "method.adapter_dtype")


def llamafactory_edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """Edits of the config and of its DeepSpeed file; None where LLaMA-Factory has no way to say one of `changes`."""
    value = parsed.raw.get("config")
    if not isinstance(value, dict) or any(isinstance(change, Unknown) for change in changes.values()):
        return None
    if changes.get("parallelism.engine") == "deepspeed":
        changes = {name: change for name, change in changes.items() if name not in deepspeed_file.FOLLOW_DEEPSPEED}
    changes = _as_mode(changes)
    sharding = {name: change for name, change in changes.items() if _is_sharding(name)}
    own = {name: change for name, change in changes.items() if name not in sharding}
    keys = _v1(value, run, own) if is_v1(value) else _v0(value, run, own)
    engine = _sharding_edits(parsed, value, run, sharding)
    if keys is None or engine is None:
        return None
    path = parsed.documents[0].path
    return (*_edits(path, value, keys), *engine)


def _as_mode(changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Mixed precision's parts as the one key that says them."""
    half = {"bfloat16": "bf16", "float16": "fp16"}.get(str(changes.get("precision.compute")))
    if half is None or changes.get("precision.autocast") is not True:
        return changes
    follows = ("precision.autocast", "precision.compute", "precision.outputs_to_fp32")
    return {**{name: change for name, change in changes.items() if name not in follows}, f"precision.{half}": True}


def _is_sharding(name: str) -> bool:
    placed = ("parallelism.zero.", "parallelism.fsdp.", "offload.optimizer", "offload.parameters")
    return name.startswith(placed) or name == "parallelism.engine"


def _edits(path: str, value: Mapping[str, Any], keys: Keys) -> tuple[Edit, ...]:
    made = []
    for key, new in keys.items():
        if new is None:
            if key in value:
                made.append(Edit(path, (key,), "remove"))
        else:
            made.append(Edit(path, (key,), "set", new))
    return tuple(made)


def _v0(value: Mapping[str, Any], run: Run, changes: Mapping[str, Any]) -> Keys | None:
    keys: Keys = {}
    for name, change in changes.items():
        if name in _PLAIN:
            said: Keys | None = {_PLAIN[name]: change} if _legal(_PLAIN[name], change) else None
        elif name in _SPECIAL:
            said = _SPECIAL[name](value, run, change, changes)
        else:
            said = None
        if said is None:
            return None
        keys.update(said)
    return keys


def _legal(key: str, change: Any) -> bool:
    """Whether the schema takes the value; one file's keys are checked one by one."""
    return is_valid("llamafactory.json#v0", {key: change})


def _attention(value: Mapping[str, Any], run: Run, change: Any, changes: Mapping[str, Any]) -> Keys | None:
    word = _ATTENTION.get(change) if isinstance(change, str) else None
    family = getattr(run.model.architecture, "family", "")
    if word is None or family in LOADS_FLASH_3 or (run.stack.use_unsloth and word != "sdpa"):
        return None
    return {"flash_attn": word}


def _checkpointing(value: Mapping[str, Any], run: Run, change: Any, changes: Mapping[str, Any]) -> Keys | None:
    if run.parallelism.engine == "megatron":
        return {"recompute_granularity": "full"} if change == "full" else None
    if change == "none":
        return {"disable_gradient_checkpointing": True, "gradient_checkpointing": None}
    on: Keys = {"disable_gradient_checkpointing": None}
    if change == "full":
        return on
    if change == "unsloth" and not run.stack.use_ktransformers:
        return {**on, "use_unsloth_gc": True}
    return None


def _offloaded(value: Mapping[str, Any], run: Run, change: Any, changes: Mapping[str, Any]) -> Keys | None:
    """Checkpoints in host memory are Unsloth's way; there is no other."""
    if change is True and changes.get("checkpointing.mode", run.checkpointing.mode) == "unsloth":
        return {}
    return {"use_unsloth_gc": None} if change is False else None


def _loss(value: Mapping[str, Any], run: Run, change: Any, changes: Mapping[str, Any]) -> Keys | None:
    if change == "plain":
        return {"enable_liger_kernel": False}
    family = getattr(run.model.architecture, "family", "")
    fused = family in LIGER_MODELS - LIGER_WITHOUT_FUSED_LOSS and run.method.stage in ("pt", "sft")
    if change != "liger" or not fused or any(value.get(key) for key in OWN_LOSSES):
        return None
    return {"enable_liger_kernel": True}


def _liger(value: Mapping[str, Any], run: Run, change: Any, changes: Mapping[str, Any]) -> Keys | None:
    return {"enable_liger_kernel": change} if isinstance(change, bool) else None


def _optimizer(value: Mapping[str, Any], run: Run, change: Any, changes: Mapping[str, Any]) -> Keys | None:
    custom = ("use_galore", "use_apollo", "use_adam_mini", "use_muon")
    if any(value.get(key) for key in custom) or not isinstance(change, str) or not _legal("optim", change):
        return None
    return {"optim": change}


def _evaluation(value: Mapping[str, Any], run: Run, change: Any, changes: Mapping[str, Any]) -> Keys | None:
    """Off, and nothing held back for it; not where something waits for what it says: stopping early, the best saved,
    predictions on the same data."""
    waits = value.get("early_stopping_steps") or value.get("do_predict") or value.get("save_strategy") == "best"
    if change is not False or waits:
        return None
    key = "evaluation_strategy" if "evaluation_strategy" in value else "eval_strategy"
    gone = ("do_eval", "load_best_model_at_end", "val_size", "eval_dataset")
    return {key: "no", **dict.fromkeys(gone)}


def _reference(value: Mapping[str, Any], run: Run, change: Any, changes: Mapping[str, Any]) -> Keys | None:
    """With adapters the base is the reference (train/trainer_utils.py:137): nothing to write."""
    return {} if change == "shared" and changes.get("method.kind") == "lora" and not value.get("ref_model") else None


def _quantization(value: Mapping[str, Any], run: Run, change: Any, changes: Mapping[str, Any]) -> Keys | None:
    if not isinstance(change, Quantization) or run.model.quantization.prequantized:
        return None
    if change.method == "none":
        return {"quantization_bit": None, "quantization_method": None}
    kind = changes.get("method.kind", run.method.kind)
    sharded = run.parallelism.zero.stage == 3 or run.parallelism.engine == "fsdp"
    if kind not in ("lora", "oft") or change.method != "bnb" or (change.bits != 4 and (sharded or change.bits != 8)):
        return None
    keys: Keys = {"quantization_bit": int(change.bits), "quantization_method": "bnb"}
    if change.bits == 4:
        keys.update({"quantization_type": change.kind or "nf4", "double_quantization": change.double_quant})
    return keys


def _bits(value: Mapping[str, Any], run: Run, change: Any, changes: Mapping[str, Any]) -> Keys | None:
    """`model.quantization.*` one by one: the same as the whole value with that part replaced."""
    parts = {name.rpartition(".")[2]: item for name, item in changes.items() if name.startswith("model.quantization.")}
    try:
        whole = run.model.quantization._replace(**parts)
    except ValueError:
        return None
    return _quantization(value, run, whole, changes)


def _kind(value: Mapping[str, Any], run: Run, change: Any, changes: Mapping[str, Any]) -> Keys | None:
    quantized = run.model.quantization.method != "none" and "model.quantization" not in changes
    if change not in ("lora", "freeze", "full", "oft") or (quantized and change not in ("lora", "oft")):
        return None
    blockwise = any(value.get(key) for key in ("use_galore", "use_apollo", "use_badam"))
    return None if change == "lora" and blockwise else {"finetuning_type": change}


def _targets(value: Mapping[str, Any], run: Run, change: Any, changes: Mapping[str, Any]) -> Keys | None:
    if not isinstance(change, (tuple, list)) or not change or not all(isinstance(item, str) for item in change):
        return None
    return {"lora_target": "all" if tuple(change) == ("all-linear",) else ",".join(change)}


def _trainable(value: Mapping[str, Any], run: Run, change: Any, changes: Mapping[str, Any]) -> Keys | None:
    """`pure_bf16` on one GPU or DDP; with `bf16: true` beside it autocast would stay."""
    if change != "bfloat16" or run.parallelism.engine not in ("single", "ddp") or run.model.weights_dtype != "bfloat16":
        return None
    return {"pure_bf16": True, "bf16": None, "fp16": None}


def _part_of_half(value: Mapping[str, Any], run: Run, change: Any, changes: Mapping[str, Any]) -> Keys | None:
    """These follow from `pure_bf16`; alone there is no key for them."""
    return {} if "precision.trainable_dtype" in changes else None


_Special = Callable[[Mapping[str, Any], Run, Any, Mapping[str, Any]], "Keys | None"]
_SPECIAL: Mapping[str, _Special] = {
    "attention.implementation": _attention,
    "checkpointing.mode": _checkpointing,
    "checkpointing.offload": _offloaded,
    "loss.kind": _loss,
    "loss.liger_kernels": _liger,
    "optimizer.name": _optimizer,
    "evaluation.enabled": _evaluation,
    "model.quantization": _quantization,
    "method.kind": _kind,
    "method.targets": _targets,
    "method.reference_model": _reference,
    "precision.trainable_dtype": _trainable,
    **{f"model.quantization.{part}": _bits for part in ("method", "bits", "kind", "double_quant", "storage_dtype")},
    **dict.fromkeys(_FULL_HALF, _part_of_half),
}


def _v1(value: Mapping[str, Any], run: Run, changes: Mapping[str, Any]) -> Keys | None:
    keys: Keys = {}
    for name, change in changes.items():
        if name in _PLAIN_V1:
            key = _PLAIN_V1[name]
            if not is_valid("llamafactory.json#v1", {key: change}):
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
