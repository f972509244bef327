"""How a Trainer file (with the DeepSpeed file behind it) would say a change of neutral fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Parsed
from memlint.formats.deepspeed_edits import deepspeed_edits, says
from memlint.formats.trainer_config import is_trl
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
    "method.kind": (("use_peft",), _adapter),
    "method.rank": (("lora_r", "lora_rank"), _whole),
    "method.alpha": (("lora_alpha",), _whole),
    "method.targets": (("lora_target_modules", "target_modules"), _targets),
    "model.quantization.bits": (("load_in_4bit",), _four_bit),
    "model.quantization.kind": (("bnb_4bit_quant_type",), _word),
    "model.quantization.double_quant": (("use_bnb_nested_quant",), _flag),
    "model.weights_dtype": (("dtype", "torch_dtype"), _word),
    "saving.only_model": (("save_only_model",), _flag),
    "stack.empty_cache_steps": (("torch_empty_cache_steps",), _whole),
    "parallelism.ddp_bucket_mb": (("ddp_bucket_cap_mb",), lambda value: int(value)),
    "offload.activations": (("activation_offloading",), lambda value: {"cpu": True, "none": False}.get(value)),
}
# What only TRL's ModelConfig and SFTConfig have; a script of its own may have the key, which then stands in its file.
_TRLS = (
    *("sequence.length", "sequence.packing", "model.weights_dtype", "offload.activations"),
    *("method.rank", "method.alpha", "method.targets"),
)
# Changes that need TRL's own reading of its keys (get_peft_config, get_quantization_config).
_TRL_ALONE = ("method.kind", "model.quantization.bits", "model.quantization.kind", "model.quantization.double_quant")


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
    """`loss.kind: liger` is the Liger switch where the loss is the model's own; trl's newest has no such switch.

    Trainable parameters have the dtype that the model is loaded in; 4 bits say bitsandbytes.
    """
    spoken = dict(changes)
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


def _own(parsed: Parsed, field: str, value: Any) -> tuple[Edit, ...] | None:
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
    name = given or names[0]
    return (Edit(path, (*pointer, name), "set", said),)


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
