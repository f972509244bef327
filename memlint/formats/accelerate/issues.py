"""What accelerate refuses in a launch file (accelerate 1.15 commands/launch.py, utils/dataclasses.py)."""

from __future__ import annotations

from memlint.formats.accelerate.recognise import NAME, SCHEMA
from memlint.formats.base import Context, Issue
from memlint.formats.fields import Section, as_bool, as_int, interpolated, value_at
from memlint.formats.schema.validate import schema_issues

# What may not stand beside a `deepspeed_config_file` (DeepSpeedPlugin._deepspeed_config_checks).
_FILE_EXCLUDES = (
    *("gradient_accumulation_steps", "gradient_clipping", "zero_stage", "offload_optimizer_device"),
    *("offload_param_device", "offload_param_nvme_path", "offload_optimizer_nvme_path", "zero3_save_16bit_model"),
    "mixed_precision",
)


def accelerate_issues(section: Section, context: Context) -> tuple[Issue, ...]:
    """Issues that accelerate refuses: unknown keys, invalid values, a DeepSpeed file together with keys it replaces."""
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
    """A removed key is information only while the release is not known: an older release reads it."""
    is_stated = NAME in context.versions
    return issue._replace(severity="info") if issue.code == "removed-key" and not is_stated else issue


def _unread(issue: Issue, section: Section) -> bool:
    """Whether the issue is about a value that a template fills in, or that another `distributed_type` or FSDP2 does not
    read."""
    if interpolated(value_at(section.value, issue.pointer)):
        return True
    owner = _SECTIONS.get(str(issue.pointer[0])) if len(issue.pointer) > 1 else None
    if owner is None or issue.code == "unknown-key":
        return False
    fsdp = section.below("fsdp_config").value
    second = as_int(fsdp.get("fsdp_version", fsdp.get("version"))) == 2
    strategy = str(issue.pointer[-1]).endswith("sharding_strategy")
    return section.value.get("distributed_type") != owner or (second and strategy)
