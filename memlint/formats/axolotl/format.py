"""Axolotl: one YAML file for `axolotl train`, the launch file or DeepSpeed JSON behind it.

Read in axolotl 0.19.0 (utils/schemas, utils/config, loaders, core/builders).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import memlint.formats.axolotl.edits as written
from memlint.findings import Edit
from memlint.formats.axolotl.config import NAME, SCHEMA, Config, config_of
from memlint.formats.axolotl.issues import axolotl_issues
from memlint.formats.axolotl.model import apply_method, apply_model, find_model
from memlint.formats.axolotl.parallel import Taken, apply_parallel
from memlint.formats.axolotl.training import (
    apply_batch,
    apply_checkpointing,
    apply_evaluation,
    apply_loss,
    apply_optimizer,
    apply_sequence,
    apply_stack,
    apply_stage,
    apply_tiles,
    apply_unmodelled,
)
from memlint.formats.base import Context, Parsed, Recognition
from memlint.formats.fields import Fields, root
from memlint.formats.hardware import apply_hardware
from memlint.formats.training_arguments import apply as apply_arguments
from memlint.run import Run
from memlint.source.document import Document, Path

__all__ = ["DIALECT", "NAME", "SCHEMA", "edits", "parse", "recognise"]

DIALECT = "yaml11"

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


def parse(document: Document, context: Context) -> Parsed:
    """The file as one run. Never raises on any value."""
    if not isinstance(document.value, dict):
        return Parsed(NAME, (), (), (document,))
    config, origin, name = find_model(config_of(root(document), context))
    fields = Fields()
    apply_arguments(fields, config.hf, config.versions)
    apply_batch(fields, config)
    apply_hardware(fields, context)
    apply_stack(fields, config)
    apply_model(fields, config, origin, name)
    apply_method(fields, config)
    for part in (apply_stage, apply_sequence, apply_checkpointing, apply_loss, apply_optimizer, apply_evaluation):
        part(fields, config)
    taken = apply_parallel(fields, config)
    apply_tiles(fields, config)
    apply_unmodelled(fields, config)
    return _finished(fields, config, taken)


def _finished(fields: Fields, config: Config, taken: tuple[Taken, ...]) -> Parsed:
    document = config.section.document
    others = tuple(dict.fromkeys(one.section.document.path for one in taken if one.section.document is not document))
    run = fields.run(NAME, document.path, others)
    raw: dict[str, Any] = {"config": document.value}
    places: dict[str, tuple[str, Path]] = {"config": (document.path, ())}
    for one in taken:
        raw[one.name] = one.section.value
        if one.editable:
            places[one.name] = (one.section.document.path, one.section.pointer)
    files = {one.section.document.path: one.section.document for one in taken if one.section.document is not document}
    return Parsed(NAME, (run,), (*axolotl_issues(config), *fields.issues), (document, *files.values()), raw, places)


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` in this file or the DeepSpeed file behind it; None where one cannot be said."""
    return written.axolotl_edits(parsed, run, changes)
