"""How a Trainer file (with the DeepSpeed file behind it) would say a change of neutral fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Parsed
from memlint.formats.deepspeed_edits import deepspeed_edits, says
from memlint.run import Run
from memlint.source.document import Path


def _whole(value: Any) -> Any:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _flag(value: Any) -> Any:
    return value if isinstance(value, bool) else None


def _word(value: Any) -> Any:
    return value if isinstance(value, str) and value else None


def _checkpointing(value: Any) -> Any:
    return {"full": True, "none": False}.get(value)


def _attention(value: Any) -> Any:
    return value if value in ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention") else None


# neutral field -> (spellings, newest first), how the value is written (None: it cannot be said)
_KEYS: Mapping[str, tuple[tuple[str, ...], Callable[[Any], Any]]] = {
    "batch.micro_batch_size": (("per_device_train_batch_size", "per_gpu_train_batch_size"), _whole),
    "batch.gradient_accumulation_steps": (("gradient_accumulation_steps",), _whole),
    "evaluation.batch_size": (("per_device_eval_batch_size", "per_gpu_eval_batch_size"), _whole),
    "evaluation.accumulation_steps": (("eval_accumulation_steps",), _whole),
    "evaluation.full_half_precision": (("bf16_full_eval", "fp16_full_eval"), _flag),
    "checkpointing.mode": (("gradient_checkpointing", "activation_checkpointing"), _checkpointing),
    "attention.implementation": (("attn_implementation",), _attention),
    "optimizer.name": (("optim",), _word),
    "optimizer.max_grad_norm": (("max_grad_norm",), lambda value: value),
    "loss.liger_kernels": (("use_liger_kernel", "use_liger"), _flag),
    "sequence.length": (("max_length", "max_seq_length", "model_max_length", "block_size"), _whole),
    "sequence.packing": (("packing",), _flag),
    "method.rank": (("lora_r", "lora_rank"), _whole),
    "model.weights_dtype": (("dtype", "torch_dtype"), _word),
    "saving.only_model": (("save_only_model",), _flag),
    "stack.empty_cache_steps": (("torch_empty_cache_steps",), _whole),
    "parallelism.ddp_bucket_mb": (("ddp_bucket_cap_mb",), lambda value: int(value)),
    "offload.activations": (("activation_offloading",), lambda value: {"cpu": True, "none": False}.get(value)),
}
_ONLY_WHERE_GIVEN = ("sequence.length", "method.rank", "model.weights_dtype", "sequence.packing", "offload.activations")


def trainer_edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` as edits of the file that says each; None where one of them cannot be said."""
    own = {field: value for field, value in _spoken(run, changes).items() if field in _KEYS}
    rest = {field: value for field, value in _spoken(run, changes).items() if field not in _KEYS}
    edits: list[Edit] = []
    for field, value in own.items():
        made = _own(parsed, field, value)
        if made is None:
            return None
        edits.extend(made)
    behind = {**rest, **{field: value for field, value in own.items() if _twice(parsed, field)}}
    if not behind:
        return tuple(edits)
    place = parsed.raw_places.get("deepspeed")
    more = deepspeed_edits(parsed.raw.get("deepspeed"), place, behind) if place else None
    return None if more is None else (*edits, *more)


def _spoken(run: Run, changes: Mapping[str, Any]) -> dict[str, Any]:
    """`loss.kind: liger` is the Liger switch where the loss is the model's own; trl's newest has no such switch."""
    spoken = dict(changes)
    if spoken.get("loss.kind") == "liger" and run.loss.kind == "plain" and run.method.stage in ("sft", "pt"):
        del spoken["loss.kind"]
        spoken["loss.liger_kernels"] = True
    return spoken


def _own(parsed: Parsed, field: str, value: Any) -> tuple[Edit, ...] | None:
    names, written = _KEYS[field]
    config = parsed.raw.get("config")
    place: tuple[str, Path] | None = parsed.raw_places.get("config")
    said = written(value)
    if said is None or place is None or not isinstance(config, dict):
        return None
    given = next((name for name in names if name in config), None)
    if given is None and field in _ONLY_WHERE_GIVEN and not _is_trl(config):
        return None
    path, pointer = place
    name = given or names[0]
    return (Edit(path, (*pointer, name), "set", said),)


def _is_trl(config: Mapping[str, Any]) -> bool:
    return any(key in config for key in ("use_peft", "packing", "dataset_train_split", "lora_r", "dataset_num_proc"))


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
