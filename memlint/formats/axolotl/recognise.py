"""Whether a document is a file of Axolotl: judged by its keys alone."""

from __future__ import annotations

from memlint.formats.base import Recognition
from memlint.source.document import Document

# Keys that Axolotl's files set; no other trainer has many of them beside `base_model`.
_TELLING = frozenset(
    {
        *("micro_batch_size", "sequence_len", "adapter", "sample_packing", "num_epochs", "dataset_prepared_path"),
        *("val_set_size", "datasets", "pretraining_dataset", "lora_target_linear", "train_on_inputs"),
        *("group_by_length", "wandb_project", "flash_attention", "xformers_attention", "eval_sample_packing"),
        *("gradient_accumulation_steps", "pad_to_sequence_len", "saves_per_epoch", "evals_per_epoch"),
        *("load_in_8bit", "load_in_4bit", "lora_r", "rl", "is_llama_derived_model", "strict", "special_tokens"),
        *("chat_template", "base_model_config", "tokenizer_type", "optimizer", "lr_scheduler", "learning_rate"),
        *("output_dir", "bf16", "gradient_checkpointing", "model_type"),
    }
)
# Tools with a `base_model` of their own (mergekit, Ludwig).
_OTHERS = frozenset({"merge_method", "slices", "models", "input_features", "output_features"})


def recognise(document: Document) -> Recognition:
    """`base_model` with Axolotl's other keys."""
    value = document.value
    if not isinstance(value, dict) or not isinstance(value.get("base_model"), str) or _OTHERS & value.keys():
        return Recognition("no")
    known = len(_TELLING & value.keys())
    if known < 3 or isinstance(value.get("adapter"), dict):
        return Recognition("no")
    reason = f"`base_model` and {known} keys of Axolotl"
    return Recognition("certain" if known >= 6 and 3 * known >= len(value) else "likely", reason=reason)
