"""accelerate launch files (accelerate 1.15 commands/config): how many processes, which engine, which precision.

Such a file is a companion: it trains nothing by itself, so alone its run has purpose "partial". A training format joins
it with `apply_accelerate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.accelerate.fsdp import LAUNCH_DEFAULTS, Options, apply_fsdp
from memlint.formats.base import Context, Issue, Missing, Parsed, Recognition
from memlint.formats.deepspeed.format import apply_deepspeed, config_issues
from memlint.formats.fields import Fields, Section, as_bool, as_int, interpolated, root, value_at
from memlint.formats.hardware import apply_hardware
from memlint.formats.references import issue as reference_issue
from memlint.formats.schema.validate import schema_issues
from memlint.formats.training_arguments import Arguments
from memlint.run import Origin, Run
from memlint.source.document import Document

NAME = "accelerate"
DIALECT = "yaml11"
SCHEMA = "accelerate.json"

SOURCE = "accelerate 1.15"
_TELLING = ("distributed_type", "compute_environment", "num_machines", "machine_rank", "main_training_function")
_OTHERS = frozenset(
    {
        *("num_processes", "mixed_precision", "use_cpu", "debug", "downcast_bf16", "rdzv_backend", "same_network"),
        *("gpu_ids", "main_process_ip", "main_process_port", "enable_cpu_affinity", "deepspeed_config", "fsdp_config"),
        *("fp8_config", "parallelism_config", "megatron_lm_config", "mpirun_config", "dynamo_config", "dynamo_backend"),
        *("tpu_env", "tpu_use_cluster", "tpu_use_sudo", "tpu_name", "tpu_zone", "tpu_vm", "commands", "command_file"),
        *("ec2_instance_type", "iam_role_name", "image_uri", "profile", "region", "base_job_name", "fp16"),
        *("pytorch_version", "transformers_version", "py_version", "sagemaker_inputs_file", "sagemaker_metrics_file"),
        *("additional_args", "deepspeed_hostfile", "ipex_config"),
    }
)
# What may not stand beside a `deepspeed_config_file` (DeepSpeedPlugin._deepspeed_config_checks).
_FILE_EXCLUDES = (
    *("gradient_accumulation_steps", "gradient_clipping", "zero_stage", "offload_optimizer_device"),
    *("offload_param_device", "offload_param_nvme_path", "offload_optimizer_nvme_path", "zero3_save_16bit_model"),
    "mixed_precision",
)


def recognise(document: Document) -> Recognition:
    """By keys: what `accelerate config` writes. A training config has keys of its own beside them."""
    value = document.value
    if not isinstance(value, dict):
        return Recognition("no")
    telling = sum(key in value for key in _TELLING)
    known = telling + sum(key in _OTHERS for key in value)
    if not telling or 2 * known < len(value):
        return Recognition("no")
    words = ("num_processes", "mixed_precision", "fsdp_config", "deepspeed_config", "use_cpu", "iam_role_name")
    if telling > 1 or ("distributed_type" in value and any(word in value for word in words)):
        return Recognition("certain", "companion", f"{known} keys of accelerate's launch file")
    return Recognition("likely" if known > 1 else "unsure", "companion", f"{known} keys of accelerate's launch file")


def parse(document: Document, context: Context) -> Parsed:
    """A launch file alone: a partial run, which knows the engine, its sharding and the GPUs but no model."""
    section = root(document)
    fields = Fields()
    apply_hardware(fields, context)
    apply_world(fields, section)
    named = apply_accelerate(fields, section, None, context)
    run = fields.run(NAME, document.path, purpose="partial")
    raw: dict[str, Any] = {"config": document.value, "accelerate": document.value}
    places: dict[str, tuple[str, tuple[str | int, ...]]] = dict.fromkeys(raw, (document.path, ()))
    documents = [document]
    if named is not None:
        documents.append(named.document)
        raw["deepspeed"], places["deepspeed"] = named.value, (named.document.path, ())
    issues = (*accelerate_issues(section, context), *fields.issues)
    return Parsed(NAME, (run,), issues, tuple(documents), raw, places)


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """A launch file makes no run of its own, so there is nothing to change through it."""
    return None


def accelerate_issues(section: Section, context: Context) -> tuple[Issue, ...]:
    """What accelerate would refuse: unknown keys, impossible values, a DeepSpeed file beside keys it replaces."""
    found = schema_issues(section.value, section.document.path, SCHEMA, context.versions)
    kept = (issue for issue in found if issue.pointer != _INNER_PRECISION and not _unread(issue, section))
    issues = [_judged(issue, context) for issue in kept]
    config = section.below("deepspeed_config")
    if isinstance(config.value.get("deepspeed_config_file"), str):
        for key in _FILE_EXCLUDES:
            where = section if key == "mixed_precision" and key not in config.value else config
            if where.value.get(key) is not None and as_bool(where.value.get(key)) is not False:
                message = f"`{key}` may not stand beside `deepspeed_config_file`: accelerate raises ValueError"
                issues.append(where.issue("conflict", message, key, on_key=True))
    return tuple(issues)


# `launch` makes arguments of the keys in a section (commands/launch.py:1266), so the precision is heard there, too, and
# before the one at the top.
_INNER_PRECISION = ("deepspeed_config", "mixed_precision")
_SECTIONS = {"fsdp_config": "FSDP", "deepspeed_config": "DEEPSPEED", "megatron_lm_config": "MEGATRON_LM"}


def _judged(issue: Issue, context: Context) -> Issue:
    """A key that is gone is information while nobody says which release is in use: an older one reads it."""
    said = NAME in context.versions
    return issue._replace(severity="info") if issue.code == "removed-key" and not said else issue


def _unread(issue: Issue, section: Section) -> bool:
    """Whether it is about a value that a template's reader fills in, or that another `distributed_type`, or FSDP2,
    leaves unread."""
    if interpolated(value_at(section.value, issue.pointer)):
        return True
    owner = _SECTIONS.get(str(issue.pointer[0])) if len(issue.pointer) > 1 else None
    if owner is None or issue.code == "unknown-key":
        return False
    fsdp = section.below("fsdp_config").value
    second = as_int(fsdp.get("fsdp_version", fsdp.get("version"))) == 2
    strategy = str(issue.pointer[-1]).endswith("sharding_strategy")
    return section.value.get("distributed_type") != owner or (second and strategy)


def _deepspeed_file(section: Section, context: Context) -> Section | Issue | None:
    """The file behind `deepspeed_config_file`."""
    config = section.below("deepspeed_config")
    reference = config.value.get("deepspeed_config_file")
    if not isinstance(reference, str) or reference.lower() == "none":
        return None
    found = context.read(reference, section.document.path)
    if isinstance(found, Missing):
        return reference_issue(found, section.document.path, (*config.pointer, "deepspeed_config_file"))
    if not isinstance(found.value, dict):
        return config.issue("wrong-companion", f"`{reference}` is no DeepSpeed configuration", "deepspeed_config_file")
    return root(found, "companion")


def processes(section: Section) -> int | None:
    """`num_processes` where it is a real count (-1 and "auto" are not)."""
    count = as_int(section.value.get("num_processes"))
    return count if count is not None and count > 0 else None


def mixed_precision(section: Section) -> str:
    """`mixed_precision`: no, fp16, bf16, fp8; YAML reads a bare `no` as false."""
    inner = section.below("deepspeed_config").value.get("mixed_precision")
    value = inner if isinstance(inner, str) else section.value.get("mixed_precision")
    if isinstance(value, bool) or value is None:
        return "fp16" if section.value.get("fp16") is True else "no"
    return value.lower() if isinstance(value, str) else "no"


def apply_world(fields: Fields, section: Section) -> None:
    """World size and GPUs per node, unless something stronger said them (command line, directive, settings)."""
    count, machines = processes(section), as_int(section.value.get("num_machines")) or 1
    if count is None:
        return
    if not isinstance(fields.get("parallelism.world_size"), int):
        fields.put("parallelism.world_size", count, section.origin("num_processes"))
        fields.put("parallelism.gpus_per_node", max(1, count // max(1, machines)), section.origin("num_processes"))


def apply_accelerate(
    fields: Fields, section: Section, args: Arguments | None, context: Context, architecture: Any = None
) -> Section | None:
    """Engine, sharding and degrees that the launch file sets. Gives the DeepSpeed section that it names or makes.

    Call it after `apply_world` and the mixed precision in force (TrainingArguments win over the launcher).
    """
    kind = section.value.get("distributed_type")
    word = "NO" if kind is False else str(kind).upper()
    if word == "DEEPSPEED":
        named = _deepspeed(fields, section, args, context, architecture)
        # Ulysses is DeepSpeed's (1.15 parallelism_config.py: sp_backend); launch passes the degrees on for any engine.
        _degrees(fields, section.below("parallelism_config"), _PARALLELISM)
        return named
    if word == "FSDP":
        options = Options(section.below("fsdp_config"), LAUNCH_DEFAULTS, f"{SOURCE} launch")
        apply_fsdp(fields, options, section.origin("distributed_type"))
    elif word == "MEGATRON_LM":
        fields.put("parallelism.engine", "megatron", section.origin("distributed_type"))
        _degrees(fields, section.below("megatron_lm_config"), _MEGATRON)
    elif word.startswith("MULTI_"):
        fields.put("parallelism.engine", "ddp", section.origin("distributed_type"))
    elif word == "NO":
        fields.put("parallelism.engine", "single", section.origin("distributed_type"))
    _degrees(fields, section.below("parallelism_config"), _PARALLELISM)
    _fp8(fields, section)
    return None


_MEGATRON = (
    ("tensor_parallel_size", "megatron_lm_tp_degree"),
    ("pipeline_parallel_size", "megatron_lm_pp_degree"),
)
_PARALLELISM = (
    ("tensor_parallel_size", "parallelism_config_tp_size"),
    ("context_parallel_size", "parallelism_config_cp_size"),
    ("sequence_parallel_size", "parallelism_config_sp_size"),
)


def _degrees(fields: Fields, section: Section, names: tuple[tuple[str, str], ...]) -> None:
    for field, key in names:
        size = as_int(section.value.get(key))
        if size is not None and size > 0:
            fields.put(f"parallelism.{field}", size, section.origin(key))


def _fp8(fields: Fields, section: Section) -> None:
    if mixed_precision(section) != "fp8":
        return
    config = section.below("fp8_config")
    backend = str(config.value.get("backend", config.value.get("fp8_backend", "AO"))).lower()
    names = {"ao": "torchao", "te": "te", "msamp": "msamp"}
    fields.put("precision.fp8", names.get(backend, "torchao"), section.origin("mixed_precision"))


def _deepspeed(
    fields: Fields, section: Section, args: Arguments | None, context: Context, architecture: Any
) -> Section | None:
    """A DeepSpeed file, or the configuration that DeepSpeedPlugin makes of the inline keys."""
    named = _deepspeed_file(section, context)
    if isinstance(named, Issue):
        fields.issues.append(named)
        fields.put("parallelism.engine", "deepspeed", section.origin("distributed_type"))
        fields.unknown("parallelism.zero.stage", "the DeepSpeed file that says it cannot be read")
        return None
    if named is not None:
        fields.issues.extend(config_issues(named, context))
        apply_deepspeed(fields, named, args, architecture)
        return named
    config = section.below("deepspeed_config")
    made = config._replace(value=plugin_config(config.value))
    known = len(fields.issues)
    apply_deepspeed(fields, made, args, architecture)
    fields.issues[known:] = [_inline(issue) for issue in fields.issues[known:]]
    for field, key in _INLINE:
        said = config.value.get(key) is not None
        fields.origins[field] = config.origin(key) if said else Origin("default", detail=f"{SOURCE} DeepSpeedPlugin")
    return None


def _inline(issue: Issue) -> Issue:
    """An issue of the configuration that the plugin makes, at the key that it is made of."""
    name = str(issue.pointer[-2]) if issue.pointer[-1:] == ("device",) else ""
    if name not in ("offload_param", "offload_optimizer"):
        return issue
    key = f"{name}_device"
    return issue._replace(
        pointer=("deepspeed_config", key), message=issue.message.replace(f"`{name}`", f"`{key}`"), on_key=False
    )


_INLINE = (
    ("parallelism.zero.stage", "zero_stage"),
    ("offload.optimizer", "offload_optimizer_device"),
    ("offload.parameters", "offload_param_device"),
    ("parallelism.zero.gather_16bit_weights_on_model_save", "zero3_save_16bit_model"),
)


def plugin_config(inline: Mapping[str, Any]) -> dict[str, Any]:
    """What DeepSpeedPlugin.__post_init__ builds of accelerate's keys (accelerate 1.15 utils/dataclasses.py)."""
    stage = as_int(inline.get("zero_stage"))
    zero: dict[str, Any] = {
        "stage": 2 if stage is None else stage,
        "offload_optimizer": {"device": _device(inline.get("offload_optimizer_device"))},
        "offload_param": {"device": _device(inline.get("offload_param_device"))},
        "stage3_gather_16bit_weights_on_model_save": bool(as_bool(inline.get("zero3_save_16bit_model"))),
    }
    steps = as_int(inline.get("gradient_accumulation_steps"))
    made: dict[str, Any] = {
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto" if steps is None else steps,
        "zero_optimization": zero,
    }
    if inline.get("gradient_clipping") is not None:
        made["gradient_clipping"] = inline["gradient_clipping"]
    return made


def _device(value: Any) -> str:
    return value if value in ("cpu", "nvme") else "none"
