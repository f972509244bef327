"""Whether a document is a file of Axolotl: judged by its keys alone."""

from __future__ import annotations

from memlint.formats.axolotl.releases import SCHEMA
from memlint.formats.base import Recognition
from memlint.formats.schema.suggest import distance, normal
from memlint.formats.schema.validate import compiled_schema
from memlint.source.document import Document

# Keys that Axolotl's files set; no other trainer has many of them beside `base_model`.
_TELLTALE_KEYS = frozenset(
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
# Keys that no other trainer has: five of them tell an Axolotl file whose `base_model` is misspelt.
_UNIQUE_KEYS = frozenset(
    {
        *("micro_batch_size", "sequence_len", "sample_packing", "dataset_prepared_path", "val_set_size", "num_epochs"),
        *("lora_target_linear", "train_on_inputs", "eval_sample_packing", "pad_to_sequence_len", "saves_per_epoch"),
        *("evals_per_epoch", "special_tokens"),
    }
)
# Programs with files of their own say `num_epochs` as well. Of these keys every file has one: it names its data, or the
# length and number of its samples, or an adapter, in Axolotl's words.
_OWN_KEYS = frozenset({*_UNIQUE_KEYS, "datasets", "pretraining_dataset", "adapter", "rl"}) - {"num_epochs"}
# Tools with a `base_model` of their own (mergekit, Ludwig).
_OTHERS = frozenset({"slices", "models", "input_features", "output_features"})


def recognise(document: Document) -> Recognition:
    """`base_model` with Axolotl's other keys, or a slip of it with many that only Axolotl has."""
    value = document.value
    if not isinstance(value, dict) or _OTHERS & value.keys() or isinstance(value.get("adapter"), dict):
        return Recognition("no")
    known = len(_TELLTALE_KEYS & value.keys())
    if known < 3 or ("merge_method" in value and known < 6):
        return Recognition("no")
    if not _OWN_KEYS & value.keys():  # a file of a program's own, with `base_model` for its model
        return Recognition("no")
    if document.syntax == "json" and known < 6 and 3 * known < len(value):  # the results of a run, with its sizes
        return Recognition("no")
    if "base_model" not in value:
        own = len(_UNIQUE_KEYS & value.keys())
        sure = own >= 5 and isinstance(value.get("datasets"), list) and 2 * known >= len(value)
        slip = next((key for key in value if isinstance(key, str) and _means_base_model(key)), "") if sure else ""
        return Recognition("likely", reason=f"{own} keys of Axolotl; `{slip}`") if slip else Recognition("no")
    if not isinstance(value["base_model"], str):
        return Recognition("no")
    reason = f"`base_model` and {known} keys of Axolotl"
    return Recognition("certain" if known >= 6 and 3 * known >= len(value) else "likely", reason=reason)


def _means_base_model(key: str) -> bool:
    """Whether a key is a slip of `base_model`, or what others call it."""
    alias = compiled_schema(SCHEMA).root["x-memlint-aliases"].get(key, {})
    return alias.get("key") == "base_model" or distance(normal(key), "base_model", 3) <= 2
