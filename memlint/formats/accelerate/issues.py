"""What accelerate refuses in a launch file (accelerate 1.15 commands/launch.py, utils/dataclasses.py)."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.formats.accelerate.families import meant_layer
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
    own = (issue for issue in found if not _is_of_a_file(issue, section))
    kept = (issue for issue in own if issue.pointer != _INNER_PRECISION and not _unread(issue, section))
    issues = _together([_with_severity_here(issue, context) for issue in kept])
    issues += _wrapped_classes(section)
    config = section.below("deepspeed_config")
    if isinstance(config.value.get("deepspeed_config_file"), str) and not _starts_another_engine(section):
        start = section.document.start
        given = start.accepted.defined if start is not None else frozenset()  # accelerate checks what the file says
        for key in _FILE_EXCLUDES:
            if key in given:
                continue
            where = section if key == "mixed_precision" and key not in config.value else config
            if where.value.get(key) is not None and as_bool(where.value.get(key)) is not False:
                message = f"`{key}` may not stand beside `deepspeed_config_file`: accelerate raises ValueError"
                if where is section:  # commands/launch.py, mp_from_config_flag
                    message += ", unless the command gives `--mixed_precision`"
                issues.append(where.issue("conflict", message, key, on_key=True))
    return tuple(issues)


def _starts_another_engine(section: Section) -> bool:
    """Whether the file asks for another engine than DeepSpeed, in which case nobody reads `deepspeed_config`
    (accelerate 1.15 commands/launch.py, launch_command)."""
    kind = section.value.get("distributed_type")
    return isinstance(kind, str) and not interpolated(kind) and kind.upper() != "DEEPSPEED"


def _is_plain(issue: Issue) -> bool:
    """Whether it says no more than that a key is unknown."""
    return issue.code == "unknown-key" and issue.message == f"unknown key `{issue.pointer[-1]}`"


def _together(issues: list[Issue]) -> list[Issue]:
    """The issues with one for all unknown keys of `deepspeed_config`: several are DeepSpeed's own, copied together."""
    plain = [one for one in issues if one.pointer[:1] == ("deepspeed_config",) and _is_plain(one)]
    if not plain:
        return issues
    names = [f"`{one.pointer[-1]}`" for one in plain]
    message = f"{plain[0].message}: accelerate drops it"
    if len(plain) > 1:
        message = (
            f"unknown keys {', '.join(names[:-1])} and {names[-1]}: accelerate drops them; DeepSpeed's own keys stand "
            "in a file that `deepspeed_config_file` names"
        )
    merged = plain[0]._replace(message=message)
    return [merged if one is plain[0] else one for one in issues if one is plain[0] or one not in plain]


# `launch` makes arguments of the keys in a section (commands/launch.py:1266), so the precision is heard there, too, and
# before the one at the top.
_INNER_PRECISION = ("deepspeed_config", "mixed_precision")
_SECTIONS = {"fsdp_config": "FSDP", "deepspeed_config": "DEEPSPEED", "megatron_lm_config": "MEGATRON_LM"}


def _with_severity_here(issue: Issue, context: Context) -> Issue:
    """A removed key is information only while the release is not known: an older release reads it."""
    is_stated = NAME in context.versions
    return issue._replace(severity="info") if issue.code == "removed-key" and not is_stated else issue


def _is_of_a_file(issue: Issue, section: Section) -> bool:
    """Whether a command has the key from its launch file: it is said there."""
    start = section.document.start
    return start is not None and bool(issue.pointer) and str(issue.pointer[-1]) not in start.accepted.defined


def _unread(issue: Issue, section: Section) -> bool:
    """Whether the issue is about a value that a template fills in, or that another `distributed_type` or FSDP2 does not
    read."""
    if interpolated(value_at(section.value, issue.pointer)):
        return True
    if issue.pointer == ("config_file",) and section.document.start is not None:
        return True  # the launcher's option, where the file that it names is not there
    is_section = len(issue.pointer) > 1 or issue.code == "wrong-type"
    owner = _SECTIONS.get(str(issue.pointer[0])) if is_section else None
    if owner is None or issue.code == "unknown-key":
        return False
    fsdp = section.below("fsdp_config").value
    second = as_int(fsdp.get("fsdp_version", fsdp.get("version"))) == 2
    strategy = str(issue.pointer[-1]).endswith("sharding_strategy")
    return section.value.get("distributed_type") != owner or (second and strategy)


def _wrapped_classes(section: Section) -> Iterator[Issue]:
    """Classes to wrap that are slips of a layer's name: accelerate looks each up among the model's modules and raises
    ValueError for one that is not there (1.15 utils/dataclasses.py:2095)."""
    config = section.below("fsdp_config")
    key = next((name for name in _WRAP_KEYS if isinstance(config.value.get(name), (str, list))), "")
    if section.value.get("distributed_type") != "FSDP" or not key or interpolated(config.value[key]):
        return
    if isinstance(config.value[key], list):
        yield _listed_classes(config, key)
        return
    for name in (word.strip() for word in config.value[key].split(",")):
        guess = meant_layer(name)
        if guess or not name.isidentifier() or not name[0].isupper():
            hint = f": did you mean `{guess}`?" if guess else "; classes are divided by commas" if ";" in name else ""
            message = f"`{key}: {name[:60]}` names no layer class, and accelerate raises ValueError when it wraps{hint}"
            yield config.issue("bad-value", message, key, severity="warning", suggestion=guess)


def _listed_classes(config: Section, key: str) -> Issue:
    """The launcher hands the list on as text (1.15 utils/launch.py:321), `['LlamaDecoderLayer']`, which is no class."""
    names = ",".join(str(name) for name in config.value[key])
    message = (
        f"`{key}` is a list, of which accelerate makes text that names no layer class: it raises ValueError when it "
        f"wraps; write `{names[:120]}`"
    )
    return config.issue("wrong-type", message, key, suggestion=names)


_WRAP_KEYS = ("fsdp_transformer_layer_cls_to_wrap", "transformer_layer_cls_to_wrap")
