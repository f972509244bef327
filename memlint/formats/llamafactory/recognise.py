"""Whether a document is a LLaMA-Factory file, and what it is for, judged by its keys alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.formats.base import Recognition
from memlint.formats.fields import as_bool
from memlint.formats.schema.validate import compiled_schema
from memlint.source.document import Document

# Keys that LLaMA-Factory has and no other framework's files have beside `model_name_or_path`.
_DISTINCTIVE = frozenset(
    {
        *("finetuning_type", "stage", "cutoff_len", "infer_backend", "lora_target", "quantization_bit", "flash_attn"),
        *("export_dir", "export_size", "export_device", "export_legacy_format", "pref_loss", "pref_beta", "pref_ftx"),
        *("plot_loss", "freeze_trainable_layers", "freeze_trainable_modules", "freeze_vision_tower", "use_galore"),
        *("use_badam", "use_apollo", "use_muon", "pure_bf16", "enable_liger_kernel", "use_unsloth_gc"),
        *("disable_gradient_checkpointing", "neat_packing", "quantization_method", "image_max_pixels", "dataset_dir"),
        *("video_max_pixels", "upcast_layernorm", "use_llama_pro", "reward_model", "reward_model_type", "ppo_epochs"),
        *("use_kt", "shift_attn", "mixture_of_depths", "adapter_name_or_path", "freeze_multi_modal_projector"),
        *("double_quantization", "create_new_adapter", "use_mca", "use_megatron_bridge", "dpo_beta", "orpo_beta"),
        *("oft_block_size", "use_dft_loss", "kto_chosen_weight", "vllm_maxlen", "vllm_gpu_util", "resize_vocab"),
    }
)
# Keys that often stand beside those, and elsewhere too.
_USUAL = frozenset(
    {"template", "dataset", "eval_dataset", "val_size", "max_samples", "lora_rank", "overwrite_cache", "use_unsloth"}
)
# What is trained on, and how: every training file has one of them.
_TRAINS = frozenset({"stage", "do_train", "finetuning_type", "template", "dataset", "eval_dataset", "dataset_dir"})
_MODEL = ("model_name_or_path", "adapter_name_or_path")

_V1_DISTINCTIVE = frozenset(
    {
        *("model_class", "kernel_config", "dist_config", "quant_config", "init_config", "optim_config"),
        *("lr_scheduler_config", "train_dataset", "sample_backend", "batching_strategy", "cp_mode", "mp_shard_size"),
        *("custom_chat_template", "enable_activation_checkpointing", "save_ckpt_as_hf", "mp_replicate_size"),
    }
)


def recognise_document(document: Document) -> Recognition:
    """Confidence by how many distinctive keys there are, and by the share of keys that LLaMA-Factory knows at all."""
    value = document.value
    if not isinstance(value, dict) or not value:
        return Recognition("no")
    if is_v1(value):
        return _recognise_v1(value)
    found = _recognise_v0(value)
    foreign = document.syntax == "json" and found.role == "inference" and _known_share(value, "v0") < 1
    return Recognition("no") if foreign else found  # a program's own settings: LLaMA-Factory would refuse the file


def is_v1(value: Mapping[Any, Any]) -> bool:
    """The layout of src/llamafactory/v1: `model` names the model, settings of a plugin are mappings with a name."""
    if "model" not in value or "model_name_or_path" in value:
        return False
    peft = value.get("peft_config")
    named = isinstance(peft, dict) and peft.get("name") in ("lora", "freeze")
    return named or any(key in _V1_DISTINCTIVE for key in value)


def _recognise_v0(value: Mapping[Any, Any]) -> Recognition:
    distinctive = len(_DISTINCTIVE.intersection(value))
    usual = len(_USUAL.intersection(value))
    named = any(key in value for key in _MODEL)
    share = _known_share(value, "v0")
    if not distinctive or share < 0.5 or not (named or distinctive >= 3):
        return Recognition("no")
    if distinctive == 1 and share < 0.75:
        return Recognition("no")  # `stage` alone: PaddleFormers and others have it beside TrainingArguments' names
    if _role(value) == "training" and _TRAINS.isdisjoint(value):
        return Recognition("no")  # a script's own file: LLaMA-Factory trains nothing without these
    reason = f"{distinctive + usual} keys of LLaMA-Factory"
    if share >= 0.75 and (distinctive >= 2 or usual >= 2 or (usual and "template" in value)):
        return Recognition("certain" if named else "likely", _role(value), reason)
    return Recognition("likely" if distinctive >= 2 else "unsure", _role(value), reason)


def _recognise_v1(value: Mapping[Any, Any]) -> Recognition:
    distinctive = len(_V1_DISTINCTIVE.intersection(value))
    share = _known_share(value, "v1")
    if share < 0.6 or not isinstance(value["model"], str):
        return Recognition("no")
    peft = value.get("peft_config")
    exports = isinstance(peft, dict) and peft.get("export_dir") is not None
    role = "export" if exports else "training" if "train_dataset" in value else "inference"
    confidence = "certain" if distinctive >= 2 else "likely"
    return Recognition(confidence, role, f"{distinctive} keys of LLaMA-Factory's v1 layout")


def _known_share(value: Mapping[Any, Any], layout: str) -> float:
    known = compiled_schema(f"llamafactory.json#{layout}").schema["properties"]
    return len(known.keys() & value.keys()) / len(value)


def _role(value: Mapping[Any, Any]) -> str:
    """export, inference (chat, api, predict, eval) or training."""
    if value.get("export_dir") is not None:
        return "export"
    if as_bool(value.get("do_train")):
        return "training"
    if "infer_backend" in value or as_bool(value.get("do_predict")) or as_bool(value.get("do_eval")):
        return "inference"
    if "n_shot" in value or "infer_dtype" in value or value.get("task") is not None:
        return "inference"
    trains = {"learning_rate", "num_train_epochs", "per_device_train_batch_size", "max_steps", "output_dir"}
    return "training" if any(key in value for key in trains) and "do_train" not in value else "inference"
