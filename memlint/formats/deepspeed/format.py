"""The DeepSpeed format: a JSON or YAML configuration of deepspeed 0.19.8, alone or behind a training config.

Alone it says nothing of the model: its run has purpose "partial" and what Hugging Face fills in for `auto` is UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import memlint.formats.deepspeed.edits as written
from memlint.findings import Edit
from memlint.formats.base import Context, Issue, Parsed
from memlint.formats.deepspeed.batch import check_batch
from memlint.formats.deepspeed.config import AUTO, DeepSpeedConfig
from memlint.formats.deepspeed.keys import KEYS
from memlint.formats.deepspeed.precision import apply_precision
from memlint.formats.deepspeed.recognise import NAME, SCHEMA, recognise
from memlint.formats.deepspeed.scheduler import scheduler_issues
from memlint.formats.deepspeed.zero import fill_auto
from memlint.formats.fields import Fields, Section, interpolated, root, value_at
from memlint.formats.hardware import apply_hardware
from memlint.formats.schema.validate import schema_issues
from memlint.formats.training_arguments import Arguments
from memlint.run import Run
from memlint.source import in_dialect
from memlint.source.document import Document, Path

__all__ = [
    "DIALECT",
    "NAME",
    "SCHEMA",
    "apply_deepspeed",
    "as_read",
    "config_issues",
    "edits",
    "missing_reader",
    "parse",
    "recognise",
    "skips_rule",
    "takes_comments",
]

DIALECT = "yaml12"


# Rules about what transformers and accelerate make of the file: DeepSpeed itself drops `auto` and takes its default
# (deepspeed 0.19.8 runtime/config_utils.py:56).
_HUGGING_FACE_RULES = frozenset({"DSP001"})
# Rules about deepspeed.checkpointing, which Hugging Face's trainers and models never call.
_CHECKPOINTING_RULES = frozenset({"DSP014"})


def skips_rule(rule: str, document: Document, context: Context) -> bool:
    """Whether `rule` says nothing of a lone file: the repository's programs hand theirs to DeepSpeed itself, or one
    loads it and fills in what it likes; or none calls what the rule is about."""
    if rule in _CHECKPOINTING_RULES:
        return context.repository.leaves_deepspeed()
    if rule not in _HUGGING_FACE_RULES:
        return False
    keys = frozenset(key for key in document.value if isinstance(key, str)) if isinstance(document.value, dict) else ()
    return (
        context.repository.calls_deepspeed() or context.repository.config_reader(document.path, keys).kind == "script"
    )


def takes_comments(document: Document, context: Context) -> bool:
    """Whether DeepSpeed itself reads a lone file: by hjson, which takes comments and commas at the end (deepspeed
    0.18.5 runtime/config.py:658), where transformers and accelerate read JSON."""
    return context.repository.calls_deepspeed()


def missing_reader(what: str, document: Document, context: Context) -> str:
    """What must hold for an error in a lone file, where the repository does not show who reads it. `what`: the key of
    the error's message.

    DeepSpeed, transformers and accelerate read JSON alone (deepspeed 0.19.8 runtime/config.py,
    DeepSpeedConfig.__init__), and only DeepSpeed's own parser takes comments: `auto` speaks for the other two.
    """
    if document.syntax == "yaml" and not context.repository.calls_deepspeed():
        return "a program loads this YAML and hands it to DeepSpeed as it stands"
    if what.startswith("CFG004") and not any(key in document.value for key in _SIZES):
        return "the program that adds a batch size to this file adds nothing else"
    if what in _TAKEN_BY_HJSON and f'"{AUTO}"' not in document.text:
        return "transformers or accelerate reads this file, and not DeepSpeed itself, whose parser takes it"
    return ""


# DeepSpeed works the others out of one of them, and refuses a file without any (runtime/config.py:615).
_SIZES = ("train_batch_size", "train_micro_batch_size_per_gpu")
_TAKEN_BY_HJSON = ("SRC001:json-comment", "SRC001:json-trailing-comma")


def as_read(file: Document) -> Document:
    """A file that another config names for DeepSpeed, as it is read: by json.load, whatever its name ends with
    (accelerate 1.15.0 utils/deepspeed.py, HfDeepSpeedConfig), so that `2e8` is a number."""
    return in_dialect(file, DIALECT)


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
    """The schema's issues of a DeepSpeed mapping. Keys that start with `_` or `comment` are remarks."""
    found = schema_issues(section.value, section.document.path, SCHEMA, context.versions)
    found = tuple(issue for issue in found if not _is_of_a_program(issue, section, context))
    autos = tuple(issue for issue in found if _is_auto(issue, section))
    if autos and not skips_rule("DSP001", section.document, context):
        found = tuple(issue for issue in found if issue not in autos)
    refused = tuple(scheduler_issues(section))
    said = {issue.pointer for issue in refused if issue.code == "unknown-key"}
    kept = [issue for issue in found if issue.pointer not in said and not _harmless(issue, section)]
    kept = [issue._replace(severity="warning") if _is_taken_as_it_is(issue) else issue for issue in kept]
    return tuple(issue._replace(pointer=section.pointer + issue.pointer) for issue in (*kept, *refused))


def _is_auto(issue: Issue, section: Section) -> bool:
    """Whether a value of another type is the word `auto`: rule DSP001 says who fills it in."""
    return issue.code == "wrong-type" and value_at(section.value, issue.pointer) == AUTO


def _is_of_a_program(issue: Issue, section: Section, context: Context) -> bool:
    """Whether an unknown key is one that the program which loads the file asks for by itself."""
    if issue.code != "unknown-key" or len(issue.pointer) != 1 or section.pointer:
        return False
    keys = frozenset(key for key in section.value if isinstance(key, str))
    return issue.pointer[0] in context.repository.config_reader(section.document.path, keys).reads


# Read with get_scalar_param and used as truth values, or by nothing that trains: no type of theirs ends a run.
_TRUTH_VALUES = frozenset(
    {
        *("wall_clock_breakdown", "memory_breakdown", "prescale_gradients", "dump_state", "disable_allgather"),
        *("disable_python_gc", "zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer", "dataloader_drop_last"),
        *("use_data_before_expert_parallelism", "flops_profiler", "activation_checkpointing"),
    }
)


def _is_taken_as_it_is(issue: Issue) -> bool:
    """Whether DeepSpeed takes a value of whatever type (0.19.8 runtime/config.py:233-410)."""
    return issue.code == "wrong-type" and bool(issue.pointer) and issue.pointer[0] in _TRUTH_VALUES


# Read with `param_dict.get` (runtime/config_utils.py:194): null is the same as no key, and templates have it.
_BATCHES = (("train_batch_size",), ("train_micro_batch_size_per_gpu",), ("gradient_accumulation_steps",))


def _harmless(issue: Issue, section: Section) -> bool:
    """Remarks, what a template's reader fills in, the deprecated `zero_optimization: true`, and quoted numbers below
    `zero_optimization`."""
    if issue.code == "unknown-key":
        return str(issue.pointer[-1]).startswith(("_", "comment"))
    value = value_at(section.value, issue.pointer)
    if interpolated(value) or _quoted(issue.pointer, value):
        return True
    if value is None and issue.pointer in _BATCHES:
        return True
    if issue.code == "wrong-type" and issue.pointer[:2] == ("activation_checkpointing", "number_checkpoints"):
        return True  # `none`: only what calls deepspeed.checkpointing by itself looks at it
    if value == AUTO and issue.pointer[:1] == ("zero_optimization",):
        return True  # as if the key were not there (0.19.8 runtime/config_utils.py:58, DeepSpeedConfigModel.__init__)
    return issue.pointer == ("zero_optimization",) and isinstance(section.value.get("zero_optimization"), bool)


def _quoted(pointer: Path, value: Any) -> bool:
    """Whether a value is a whole number as text, which pydantic reads (runtime/zero/config.py), and is valid."""
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
    view = DeepSpeedConfig(config, KEYS, arguments, architecture)
    fields.put("parallelism.engine", "deepspeed", config.origin())
    KEYS.read(fields, view, view)
    fill_auto(fields, view)
    apply_precision(fields, view)
    check_batch(fields, view)
    _activation_checkpointing(fields, view)


def _activation_checkpointing(fields: Fields, view: DeepSpeedConfig) -> None:
    """The section configures deepspeed.checkpointing.checkpoint(), which transformers' models never call."""
    if view.arguments is not None and isinstance(view.raw("activation_checkpointing"), dict):
        message = (
            "`activation_checkpointing` has no effect on Hugging Face models: they never call "
            "deepspeed.checkpointing; use `gradient_checkpointing` in the training arguments"
        )
        fields.issues.append(
            view.section.issue("ignored-key", message, "activation_checkpointing", severity="warning", on_key=True)
        )


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` as edits of a lone DeepSpeed file."""
    place = parsed.raw_places.get("deepspeed")
    return written.deepspeed_edits(parsed.raw.get("deepspeed"), place, changes) if place else None
