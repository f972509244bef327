"""The DeepSpeed format: a JSON or YAML configuration of deepspeed 0.19.8, alone or behind a training config.

Alone it says nothing of the model: its run has purpose "partial" and what Hugging Face fills in for `auto` is UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import memlint.formats.deepspeed.batch as batch
import memlint.formats.deepspeed.config as own
import memlint.formats.deepspeed.edits as written
import memlint.formats.deepspeed.optimizer as optimizer
import memlint.formats.deepspeed.precision as precision
import memlint.formats.deepspeed.zero as zero
from memlint.findings import Edit
from memlint.formats.base import Context, Issue, Parsed, Recognition
from memlint.formats.fields import Fields, Section, interpolated, root
from memlint.formats.hardware import apply_hardware
from memlint.formats.schema.validate import schema_issues
from memlint.formats.training_arguments import Arguments
from memlint.run import Run
from memlint.source.document import Document, Path

NAME = "deepspeed"
DIALECT = "yaml12"
SCHEMA = "deepspeed.json"

# Keys that no other config format has at its top with these meanings.
_TELLING = frozenset(
    {
        *("zero_optimization", "train_micro_batch_size_per_gpu", "zero_allow_untested_optimizer", "prescale_gradients"),
        *("zero_force_ds_cpu_optimizer", "wall_clock_breakdown", "steps_per_print", "communication_data_type"),
        *("compression_training", "data_efficiency", "flops_profiler", "hybrid_engine", "torch_autocast"),
    }
)
_COMMON = frozenset(
    {
        *("train_batch_size", "gradient_accumulation_steps", "gradient_clipping", "optimizer", "scheduler", "fp16"),
        *("bf16", "bfloat16", "amp", "activation_checkpointing", "aio", "autotuning", "tensor_parallel", "data_types"),
        *("comms_logger", "checkpoint", "compile", "dump_state", "memory_breakdown", "sparse_attention", "pipeline"),
        *("gradient_predivide_factor", "tensorboard", "wandb", "csv_monitor", "nebula", "elasticity", "timers"),
        *("curriculum_learning", "progressive_layer_drop", "seq_parallel_communication_data_type", "eigenvalue"),
        *("disable_allgather", "sparse_gradients", "quantize_training", "zero_quantized_weights", "amp_enabled"),
    }
)
_MAPPINGS = ("optimizer", "scheduler", "fp16", "bf16", "activation_checkpointing")


def recognise(document: Document) -> Recognition:
    """By keys: one that only DeepSpeed has, and few that it has not (GPT-NeoX embeds DeepSpeed's keys in its own)."""
    value = document.value
    if not isinstance(value, dict) or not value:
        return Recognition("no")
    telling = sum(key in _TELLING for key in value)
    known = telling + sum(key in _COMMON for key in value)
    if 2 * known < len(value) or any(not isinstance(value.get(key, {}), (dict, type(None))) for key in _MAPPINGS):
        return Recognition("no")
    if telling:
        sure = telling > 1 or known > 2 or isinstance(value.get("zero_optimization"), dict)
        return Recognition("certain" if sure else "likely", reason=f"{known} DeepSpeed keys")
    if known > 1 and any(isinstance(value.get(key), dict) and "enabled" in value[key] for key in ("fp16", "bf16")):
        return Recognition("likely", reason=f"{known} DeepSpeed keys")
    return Recognition("no")


def parse(document: Document, context: Context) -> Parsed:
    """A lone DeepSpeed file: one partial run. Never raises."""
    section = root(document)
    fields = Fields()
    apply_hardware(fields, context)
    apply_deepspeed(fields, section, None)
    run = fields.run(NAME, document.path, purpose="partial")
    issues = (*config_issues(section, context), *fields.issues)
    raw = {"config": document.value, "deepspeed": document.value}
    places = dict.fromkeys(raw, (document.path, ()))
    return Parsed(NAME, (run,), issues, (document,), raw, places)


def config_issues(section: Section, context: Context) -> tuple[Issue, ...]:
    """What the schema has against a DeepSpeed mapping. Keys that start with `_` or `comment` are remarks."""
    found = schema_issues(section.value, section.document.path, SCHEMA, context.versions)
    return tuple(
        issue._replace(pointer=section.pointer + issue.pointer) for issue in found if not _harmless(issue, section)
    )


def _harmless(issue: Issue, section: Section) -> bool:
    """Remarks, what a template's reader fills in, the deprecated `zero_optimization: true`, and quoted numbers below
    `zero_optimization`."""
    if issue.code == "unknown-key":
        return str(issue.pointer[-1]).startswith(("_", "comment"))
    value = own.Config(section, None).get(*map(str, issue.pointer))
    if interpolated(value) or _quoted(issue.pointer, value):
        return True
    return issue.pointer == ("zero_optimization",) and isinstance(section.value.get("zero_optimization"), bool)


def _quoted(pointer: Path, value: Any) -> bool:
    """A whole number as text where pydantic reads it (runtime/zero/config.py) and the number itself is in order."""
    if pointer[:1] != ("zero_optimization",) or not isinstance(value, str) or not value.strip().isdecimal():
        return False
    number: Any = int(value) if len(value) < 16 else None
    for key in reversed(pointer):
        number = {key: number}
    return not any(issue.pointer == pointer for issue in schema_issues(number, "", SCHEMA))


def apply_deepspeed(fields: Fields, config: Section, arguments: Arguments | None, architecture: Any = None) -> None:
    """Fill ZeRO, offload, precision, batch and optimizer fields from a DeepSpeed configuration.

    `config` is the configuration's mapping (the referenced file as a "companion" section, or the inline mapping);
    `arguments` the training arguments that fill `auto` (None: a lone DeepSpeed file); `architecture` gives the
    hidden size behind `auto` bucket sizes (None: UNKNOWN). Call it after `training_arguments.apply` and after
    `parallelism.world_size` is put; contradictions between the two files go to `fields.issues`.
    """
    view = own.Config(config, arguments)
    fields.put("parallelism.engine", "deepspeed", config.origin())
    zero.apply_zero(fields, view, architecture)
    precision.apply_precision(fields, view)
    batch.apply_batch(fields, view)
    optimizer.apply_optimizer(fields, view)
    _tensor_parallel(fields, view)
    _activation_checkpointing(fields, view)


def _tensor_parallel(fields: Fields, view: own.Config) -> None:
    """AutoTP divides the linear layers over `autotp_size` GPUs (deepspeed 0.19.8 runtime/tensor_parallel/config.py)."""
    size = view.integer("tensor_parallel", "autotp_size")
    if size is not None and size > 1:
        fields.put("parallelism.tensor_parallel_size", size, view.section.origin("tensor_parallel", "autotp_size"))


def _activation_checkpointing(fields: Fields, view: own.Config) -> None:
    """The section configures deepspeed.checkpointing.checkpoint(), which transformers' models never call."""
    if view.arguments is not None and view.mapping("activation_checkpointing"):
        message = (
            "`activation_checkpointing` has no effect on Hugging Face models: they never call "
            "deepspeed.checkpointing; use `gradient_checkpointing` in the training arguments"
        )
        fields.issues.append(
            view.section.issue("ignored-key", message, "activation_checkpointing", severity="warning", on_key=True)
        )


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` in a lone DeepSpeed file."""
    place = parsed.raw_places.get("deepspeed")
    return written.deepspeed_edits(parsed.raw.get("deepspeed"), place, changes) if place else None
