"""How a Trainer file (with the DeepSpeed file behind it) would say a change of neutral fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.accelerate.edits import accelerate_edits, own_fsdp_edits
from memlint.formats.base import Parsed
from memlint.formats.deepspeed.edits import FOLLOW_DEEPSPEED, deepspeed_edits, new_section, says
from memlint.formats.trainer.config import is_trl
from memlint.formats.written_values import flag, whole, word
from memlint.run import Run
from memlint.source.document import Path


def _checkpointing(value: Any) -> Any:
    return {"full": True, "none": False}.get(value)


def _adapter(value: Any) -> Any:
    return {"lora": True, "full": False}.get(value) if isinstance(value, str) else None


def _targets(value: Any) -> Any:
    """TRL takes a list of names; a single one is written as it is (model_config.py, __post_init__)."""
    names = list(value) if isinstance(value, (tuple, list)) else []
    return names[0] if len(names) == 1 else names or None


def _four_bit(value: Any) -> Any:
    return True if value == 4 else False if value == 16 else None


def _attention(value: Any) -> Any:
    return value if value in ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention") else None


def _true(value: Any) -> Any:
    return True if value is True else None


def _share(value: Any) -> Any:
    return value if isinstance(value, float) and 0 < value <= 1 else None


# neutral field -> (spellings, newest first), how the value is written (None: it cannot be said)
_KEYS: Mapping[str, tuple[tuple[str, ...], Callable[[Any], Any]]] = {
    "batch.micro_batch_size": (("per_device_train_batch_size", "per_gpu_train_batch_size"), whole),
    "batch.gradient_accumulation_steps": (("gradient_accumulation_steps",), whole),
    "evaluation.batch_size": (("per_device_eval_batch_size", "per_gpu_eval_batch_size"), whole),
    "evaluation.accumulation_steps": (("eval_accumulation_steps",), whole),
    "checkpointing.mode": (("gradient_checkpointing", "activation_checkpointing"), _checkpointing),
    "attention.implementation": (("attn_implementation",), _attention),
    "optimizer.name": (("optim",), word),
    "optimizer.max_grad_norm": (("max_grad_norm",), lambda value: value),
    "loss.liger_kernels": (("use_liger_kernel", "use_liger"), flag),
    "sequence.length": (("max_length", "max_seq_length", "model_max_length", "block_size"), whole),
    "sequence.packing": (("packing",), flag),
    "method.kind": (("use_peft",), _adapter),
    "method.rank": (("lora_r", "lora_rank"), whole),
    "method.alpha": (("lora_alpha",), whole),
    "method.dropout": (("lora_dropout",), float),
    "method.targets": (("lora_target_modules", "target_modules"), _targets),
    "model.quantization.bits": (("load_in_4bit",), _four_bit),
    "model.quantization.kind": (("bnb_4bit_quant_type",), word),
    "model.quantization.double_quant": (("use_bnb_nested_quant",), flag),
    "model.quantization.storage_dtype": (("bnb_4bit_quant_storage",), word),
    "model.weights_dtype": (("dtype", "torch_dtype"), word),
    "saving.only_model": (("save_only_model",), flag),
    "sequence.max_prompt_length": (("max_prompt_length",), whole),
    "sequence.max_new_tokens": (("max_completion_length",), whole),
    "method.num_generations": (("num_generations",), whole),
    "method.generator_share": (("vllm_gpu_memory_utilization",), _share),
    "parallelism.zero.gathers_for_generation": (("ds3_gather_for_generation",), flag),
    "method.reference_model": (("precompute_ref_log_probs",), lambda value: True if value == "precomputed" else None),
    "precision.bf16": (("bf16",), _true),
    "precision.fp16": (("fp16",), _true),
    "offload.activations": (("activation_offloading",), lambda value: {"cpu": True, "none": False}.get(value)),
}
# Since which release of TRL a key has its newest name, and the one before (trl v0.15.2 and v0.16.0 sft_config.py,
# v0.22.2 and v0.23.0 model_config.py).
_RENAMED: Mapping[str, tuple[tuple[int, ...], str]] = {
    "sequence.length": ((0, 16), "max_seq_length"),
    "model.weights_dtype": ((0, 23), "torch_dtype"),
}
# What only TRL's ModelConfig and SFTConfig have; a script of its own may have the key, which then stands in its file.
_TRLS = (
    *("sequence.length", "sequence.packing", "model.weights_dtype", "offload.activations"),
    *("method.rank", "method.alpha", "method.dropout", "method.targets"),
)
# Changes that need TRL's own reading of its keys (get_peft_config, get_quantization_config).
_TRL_ALONE = (
    "method.kind",
    *(f"model.quantization.{part}" for part in ("bits", "kind", "double_quant", "storage_dtype")),
)


def trainer_edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` as edits of the file that says each; None where one of them cannot be said."""
    spoken = _spoken(run, changes)
    if not _offloads_activations(run, spoken) or not _trains_quantized(parsed, spoken):
        return None
    whether = spoken.pop("evaluation.enabled", True)
    edits: list[Edit] = []
    if not whether:
        off = _evaluation_off(parsed)
        if off is None:
            return None
        edits.extend(off)
    own = {field: value for field, value in spoken.items() if field in _KEYS}
    rest = {field: value for field, value in spoken.items() if field not in _KEYS}
    for field, value in own.items():
        made = _own(parsed, run, field, value)
        if made is None:
            return None
        edits.extend(made)
    behind = {**rest, **{field: value for field, value in own.items() if _twice(parsed, field)}}
    if not behind:
        return tuple(edits)
    more = _engine(parsed, run, behind)
    return None if more is None else (*edits, *more)


# The trainers that know `activation_offloading`, and since which trl (trainer/{sft,dpo,reward,kto}_config.py).
_OFFLOADING = {"sft": (0, 19), "pt": (0, 19), "dpo": (0, 29), "rm": (0, 29), "kto": (1, 16)}


def _offloads_activations(run: Run, changes: Mapping[str, Any]) -> bool:
    since = _OFFLOADING.get(run.method.stage)
    return "offload.activations" not in changes or (since is not None and run.stack.trl >= since)


def _trains_quantized(parsed: Parsed, changes: Mapping[str, Any]) -> bool:
    """TRL's scripts make adapters where `use_peft` asks for them, and 4 bits alone cannot train."""
    config = parsed.raw.get("config")
    peft = isinstance(config, dict) and config.get("use_peft")
    return changes.get("model.quantization.bits") != 4 or changes.get("method.kind") == "lora" or bool(peft)


def _evaluation_off(parsed: Parsed) -> tuple[Edit, ...] | None:
    """`eval_strategy: no`, and with it what would evaluate all the same (scripts ask `do_eval` when training is done)
    or wants its results. None where something waits for them (transformers 5.23 trainer_callback.py,
    EarlyStoppingCallback; training_args.py, SaveStrategy.BEST)."""
    config, place = parsed.raw.get("config"), parsed.raw_places.get("config")
    if not isinstance(config, dict) or place is None:
        return None
    if config.get("save_strategy") == "best" or any("early_stopping" in str(key) and config[key] for key in config):
        return None
    path, pointer = place
    key = next((name for name in ("eval_strategy", "evaluation_strategy") if name in config), "")
    edits = [Edit(path, (*pointer, key), "set", "no")] if key else []
    off = [name for name in ("do_eval", "load_best_model_at_end", "eval_on_start") if config.get(name)]
    return (*edits, *(Edit(path, (*pointer, name), "set", False) for name in off))


def _engine(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """Edits of what shards the run: the DeepSpeed file, the launch file, or the config's own section."""
    if "parallelism.engine" in changes:
        return _new_deepspeed(parsed, run, changes)
    place = parsed.raw_places.get("deepspeed")
    if place is not None:
        return deepspeed_edits(parsed.raw.get("deepspeed"), place, changes)
    config = parsed.raw.get("config")
    if isinstance(config, dict) and config.get("fsdp"):
        own = parsed.raw_places.get("config")
        return None if own is None else own_fsdp_edits(config, own, changes)
    launcher = parsed.raw_places.get("accelerate") or _launcher(parsed)
    if launcher is None:
        return None
    document = next((one for one in parsed.documents if one.path == launcher[0]), None)
    return accelerate_edits(document.value, launcher, changes) if document is not None else None


def _launcher(parsed: Parsed) -> tuple[str, Path] | None:
    """The launch file beside the config, where it took part."""
    for document in parsed.documents[1:]:
        if isinstance(document.value, dict) and "distributed_type" in document.value:
            return document.path, ()
    return None


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


def _spoken(run: Run, changes: Mapping[str, Any]) -> dict[str, Any]:
    """`loss.kind: liger` is the Liger switch where the loss is the model's own; trl's newest has no such switch.

    Trainable parameters have the dtype that the model is loaded in; 4 bits say bitsandbytes.
    """
    spoken = _as_mode(run, changes)
    if "model.weights_dtype" in spoken and run.parallelism.engine in ("single", "ddp"):
        for follows in ("precision.trainable_dtype", "precision.compute"):
            if spoken.get(follows) == spoken["model.weights_dtype"]:
                del spoken[follows]
    if spoken.get("model.quantization.method") == "bnb" and spoken.get("model.quantization.bits") == 4:
        del spoken["model.quantization.method"]
    if spoken.get("loss.kind") == "liger" and run.loss.kind == "plain" and run.method.stage in ("sft", "pt"):
        del spoken["loss.kind"]
        spoken["loss.liger_kernels"] = True
    return spoken


def _as_mode(run: Run, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes without what follows from others: DeepSpeed's dtypes, mixed precision's parts, GRPO's length, and the
    adapters' reference, which is the base."""
    spoken = dict(changes)
    if spoken.get("method.kind") == "lora" and spoken.get("method.reference_model") == "shared":
        del spoken["method.reference_model"]
    if spoken.get("parallelism.engine") == "deepspeed":
        for follows in FOLLOW_DEEPSPEED:
            spoken.pop(follows, None)
    if spoken.get("precision.autocast") is True and spoken.get("precision.compute") in ("bfloat16", "float16"):
        word = "precision.bf16" if spoken["precision.compute"] == "bfloat16" else "precision.fp16"
        for follows in ("precision.autocast", "precision.compute", "precision.outputs_to_fp32"):
            spoken.pop(follows, None)
        spoken[word] = True
    if run.method.stage == "grpo" and ("sequence.max_prompt_length" in spoken or "sequence.max_new_tokens" in spoken):
        spoken.pop("sequence.length", None)
    return spoken


def _own(parsed: Parsed, run: Run, field: str, value: Any) -> tuple[Edit, ...] | None:
    names, written = _KEYS[field]
    config = parsed.raw.get("config")
    place: tuple[str, Path] | None = parsed.raw_places.get("config")
    said = written(value)
    if said is None or place is None or not isinstance(config, dict):
        return None
    given = next((name for name in names if name in config), None)
    if not is_trl(config) and (field in _TRL_ALONE or (given is None and field in _TRLS)):
        return None
    path, pointer = place
    name = given or _written_today(run, field, names[0])
    return (Edit(path, (*pointer, name), "set", said),)


def _written_today(run: Run, field: str, newest: str) -> str:
    """What the release in use calls a key that the file does not have."""
    since, older = _RENAMED.get(field, ((), ""))
    if field == "sequence.length" and run.method.stage != "sft":
        return newest  # the other trainers' `max_length` has no other name
    return older if () < run.stack.trl < since else newest


def _twice(parsed: Parsed, field: str) -> bool:
    """Whether the DeepSpeed file repeats this value as a number, which transformers wants to be equal."""
    if not says(field):
        return False
    config = parsed.raw.get("deepspeed")
    keys = {
        "batch.micro_batch_size": "train_micro_batch_size_per_gpu",
        "batch.gradient_accumulation_steps": "gradient_accumulation_steps",
        "optimizer.max_grad_norm": "gradient_clipping",
    }
    present = config.get(keys.get(field, "")) if isinstance(config, dict) else None
    return isinstance(present, (int, float)) and not isinstance(present, bool)
