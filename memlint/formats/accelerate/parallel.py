"""World, engine and degrees that a launch file sets, and the DeepSpeed configuration that it names or makes."""

from __future__ import annotations

from typing import Any

from memlint.formats.accelerate.fsdp import LAUNCH_DEFAULTS, FsdpOptions, apply_fsdp
from memlint.formats.accelerate.keys import DEGREES, INLINE, KEYS, MEGATRON
from memlint.formats.accelerate.recognise import SCHEMA
from memlint.formats.base import Context, Issue, MissingFile
from memlint.formats.deepspeed.format import apply_deepspeed, as_read, config_issues
from memlint.formats.fields import Fields, Section, as_bool, as_int, interpolated, root
from memlint.formats.references import issue as reference_issue
from memlint.formats.schema.validate import compiled_schema
from memlint.formats.section_keys import CommandKeys, SectionKeys
from memlint.formats.training_arguments import Arguments

SOURCE = "accelerate 1.15"


def _deepspeed_file(section: Section, context: Context) -> Section | Issue | None:
    """The file behind `deepspeed_config_file`."""
    config = section.below("deepspeed_config")
    reference = config.value.get("deepspeed_config_file")
    if not isinstance(reference, str) or reference.lower() == "none":
        return None
    found = context.read(reference, section.document.path)
    if isinstance(found, MissingFile):
        return reference_issue(found, section.document, (*config.pointer, "deepspeed_config_file"))
    if not isinstance(found.value, dict):
        return config.issue("wrong-companion", f"`{reference}` is no DeepSpeed configuration", "deepspeed_config_file")
    return root(as_read(found), "companion")


def mixed_precision(section: Section) -> str:
    """`mixed_precision`: no, fp16, bf16, fp8; YAML reads a bare `no` as false."""
    inner = section.below("deepspeed_config").value.get("mixed_precision")
    value = inner if isinstance(inner, str) else section.value.get("mixed_precision")
    if isinstance(value, bool) or value is None:
        return "fp16" if section.value.get("fp16") is True else "no"
    return value.lower() if isinstance(value, str) else "no"


def apply_world(fields: Fields, section: Section) -> None:
    """World size and GPUs per node, unless the command line, a directive or settings set them."""
    count, machines = as_int(section.value.get("num_processes")), as_int(section.value.get("num_machines")) or 1
    if count is None or count <= 0:  # -1 and "auto" are no count
        return
    if not isinstance(fields.get("parallelism.world_size"), int):
        fields.put("parallelism.world_size", count, section.origin("num_processes"))
        fields.put("parallelism.gpus_per_node", max(1, count // max(1, machines)), section.origin("num_processes"))


def apply_accelerate(
    fields: Fields, section: Section, args: Arguments | None, context: Context, architecture: Any = None
) -> Section | None:
    """Sets engine, sharding and degrees from the launch file. Returns the DeepSpeed section that it names or makes.

    Call it after `apply_world` and the mixed precision in force (TrainingArguments win over the launcher).
    """
    launch = SectionKeys(section, KEYS, SOURCE)
    if _lacks_its_file(fields, section, context) or _is_refused(fields, section, context):
        return None
    kind = section.value.get("distributed_type")
    word = "NO" if kind is False else str(kind).upper()
    if word == "DEEPSPEED":
        named = _deepspeed(fields, section, args, context, architecture)
        # Ulysses is DeepSpeed's (1.15 parallelism_config.py: sp_backend); launch passes the degrees on for any engine.
        DEGREES.read(fields, launch, launch)
        return named
    if word == "FSDP":
        options = FsdpOptions(section.below("fsdp_config"), LAUNCH_DEFAULTS, f"{SOURCE} launch")
        apply_fsdp(fields, options, section.origin("distributed_type"))
    elif word == "MEGATRON_LM":
        fields.put("parallelism.engine", "megatron", section.origin("distributed_type"))
        MEGATRON.read(fields, launch, launch)
    elif word == "NO" or word.startswith("MULTI_"):
        engine = "single" if word == "NO" else "ddp"
        fields.put("parallelism.engine", engine, section.origin("distributed_type"))
    elif interpolated(kind):
        told = CommandKeys(section, KEYS, SOURCE).open_because("distributed_type")
        fields.unknown("parallelism.engine", told or "the launch file leaves it open")
    DEGREES.read(fields, launch, launch)
    _fp8(fields, launch)
    return None


def _lacks_its_file(fields: Fields, section: Section, context: Context) -> bool:
    """Whether these are options of a command whose `--config_file` cannot be read: accelerate raises for one that is
    not there, and for one without `distributed_type` (1.15 commands/config/config_args.py, load_config_from_file and
    process_config)."""
    reference = section.value.get("config_file") if section.document.start is not None else None
    if not isinstance(reference, str):
        return False
    found = context.read(reference, section.document.path)
    if isinstance(found, MissingFile):
        fields.issues.append(reference_issue(found, section.document, ("config_file",)))
    elif isinstance(found.value, dict) and "distributed_type" not in found.value:
        message = f"`{reference}` is no launch file: it has no `distributed_type`, and accelerate raises ValueError"
        fields.issues.append(section.issue("wrong-companion", message, "config_file"))
    else:
        return False
    fields.unknown("parallelism.engine", f"`{reference}` says it, which is not there or not below the linted folder")
    return True


def _is_refused(fields: Fields, section: Section, context: Context) -> bool:
    """Whether accelerate refuses the launch file for keys that it does not have at the top: it raises ValueError before
    anything starts (1.10 commands/config/config_args.py, from_yaml_file)."""
    value, name = section.value, section.document.path
    if section.document.start is not None:  # options of a command, and the file that it names
        reference = value.get("config_file")
        found = context.read(reference, name) if isinstance(reference, str) else None
        if found is None or isinstance(found, MissingFile) or not isinstance(found.value, dict):
            return False
        value, name = found.value, found.path
    unknown = [key for key in value if key not in compiled_schema(SCHEMA).schema["properties"]]
    if unknown:
        fields.unknown("parallelism.engine", f"accelerate refuses {name}, which has the key `{unknown[0]}`")
    return bool(unknown)


def _fp8(fields: Fields, launch: SectionKeys) -> None:
    if mixed_precision(launch.section) == "fp8":
        backend = KEYS["fp8_config.backend"].neutral(launch.get("fp8_config.backend"))
        if backend == "te" and launch.flag("fp8_config.use_mxfp8_block_scaling"):
            backend = "te_mxfp8"
        fields.put("precision.fp8", backend, launch.origin("mixed_precision"))


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
    inline = SectionKeys(section, KEYS, f"{SOURCE} DeepSpeedPlugin")
    made = section.below("deepspeed_config")._replace(value=plugin_config(inline))
    known = len(fields.issues)
    apply_deepspeed(fields, made, args, architecture)
    fields.issues[known:] = [_inline(issue) for issue in fields.issues[known:]]
    for row in INLINE:
        if row.field and not row.read_only:
            fields.origins[row.field] = inline.origin(row.name)
    _loads_whole(fields, inline, context)
    return None


_ALWAYS_TELLS_SINCE = (1, 0)


def _loads_whole(fields: Fields, inline: SectionKeys, context: Context) -> None:
    """Without `zero3_init_flag` accelerate before 1.0 does not tell transformers of DeepSpeed, so that zero.Init
    divides nothing while a model loads (0.34.2 and 1.0.1 utils/dataclasses.py, set_deepspeed_weakref)."""
    key = "deepspeed_config.zero3_init_flag"
    is_old = () < tuple(context.versions.get("accelerate", ())) < _ALWAYS_TELLS_SINCE
    if is_old and fields.get("parallelism.zero.stage") == 3 and as_bool(inline.raw(key)) is False:
        fields.put("parallelism.zero.shards_on_load", False, inline.origin(key))


def _inline(issue: Issue) -> Issue:
    """An issue of the plugin's configuration, at the key of the launch file that it came from."""
    name = str(issue.pointer[-2]) if issue.pointer[-1:] == ("device",) else ""
    if name not in ("offload_param", "offload_optimizer"):
        return issue
    key = f"{name}_device"
    return issue._replace(
        pointer=("deepspeed_config", key), message=issue.message.replace(f"`{name}`", f"`{key}`"), on_key=False
    )


def _device(name: Any) -> Any:
    """The launcher writes the device in small letters (1.15 utils/launch.py:574): YAML's text `None` is none."""
    return name.lower() if isinstance(name, str) else name


def plugin_config(inline: SectionKeys) -> dict[str, Any]:
    """The configuration that DeepSpeedPlugin.__post_init__ builds from accelerate's keys
    (accelerate 1.15 utils/dataclasses.py)."""
    stage, steps = (inline.integer(f"deepspeed_config.{key}") for key in ("zero_stage", "gradient_accumulation_steps"))
    made: dict[str, Any] = {
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto" if steps is None else steps,
        "zero_optimization": {
            "stage": inline.default("deepspeed_config.zero_stage") if stage is None else stage,
            "offload_optimizer": {"device": _device(inline.get("deepspeed_config.offload_optimizer_device"))},
            "offload_param": {"device": _device(inline.get("deepspeed_config.offload_param_device"))},
            "stage3_gather_16bit_weights_on_model_save": inline.flag("deepspeed_config.zero3_save_16bit_model"),
        },
    }
    clipping = inline.raw("deepspeed_config.gradient_clipping")
    return made if clipping is None else {**made, "gradient_clipping": clipping}
