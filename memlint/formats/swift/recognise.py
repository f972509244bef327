"""Whether a document is ms-swift's: by keys that no other trainer has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.formats.base import Recognition
from memlint.source.document import Document

NAME = "swift"
SCHEMA = "swift.json"
# Keys of `swift sft` and `swift rlhf` beside `model`; other trainers have none of them.
_TELLTALE_KEYS = frozenset(
    {
        *("tuner_type", "train_type", "sft_type", "torch_dtype", "target_modules", "dataset", "split_dataset_ratio"),
        *("attn_impl", "rlhf_type", "truncation_strategy", "model_author", "dataset_num_proc", "freeze_vit"),
        *("freeze_aligner", "padding_free", "load_from_cache_file", "columns", "lora_rank", "quant_bits", "use_hf"),
        *("sleep_level", "offload_model", "vllm_mode", "max_length", "packing_length", "lazy_tokenize"),
    }
)
_UNIQUE_KEYS = frozenset(
    {
        *("tuner_type", "train_type", "sft_type", "split_dataset_ratio", "attn_impl", "rlhf_type", "freeze_vit"),
        *("freeze_aligner", "sleep_level", "load_from_cache_file", "lazy_tokenize", "packing_length", "use_hf"),
    }
)


# Keys of Megatron-SWIFT (`megatron sft`), whose files look alike (ms-swift 4.6.0 swift/megatron/arguments).
_MEGATRON = frozenset(
    {
        *("micro_batch_size", "global_batch_size", "train_iters", "tensor_model_parallel_size", "attention_backend"),
        *("pipeline_model_parallel_size", "expert_model_parallel_size", "recompute_granularity", "sequence_parallel"),
        *("moe_permute_fusion", "gradient_accumulation_fusion", "cross_entropy_loss_fusion", "save_interval"),
    }
)


def is_megatron(value: Mapping[str, Any]) -> bool:
    """Whether Megatron-LM trains: two of its keys."""
    return len(_MEGATRON & value.keys()) >= 2


def recognise(document: Document) -> Recognition:
    """`model` with three of ms-swift's keys, at least one of them its alone."""
    value = document.value
    if not isinstance(value, dict) or not isinstance(value.get("model"), str):
        return Recognition("no")
    found = _TELLTALE_KEYS & value.keys()
    if len(found) < 3 or not _UNIQUE_KEYS & found or "model_name_or_path" in value:
        return Recognition("no")
    return Recognition("certain", reason="keys of ms-swift beside `model`")
