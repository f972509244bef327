"""What there is to say about an Axolotl file: keys, values, and combinations that its validators refuse.

Axolotl ignores a key that it does not know, so one is reported only where it is a slip of a known key. The conflicts
are those of axolotl 0.19.0 utils/schemas/ that raise, and that older releases raised as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from memlint._record import NamedTuple
from memlint.formats.axolotl_config import NAME, SCHEMA, Config
from memlint.formats.axolotl_model import fsdp_version
from memlint.formats.axolotl_training import PLUGIN_OF
from memlint.formats.base import Issue
from memlint.formats.fields import as_bool, as_int, as_number
from memlint.formats.validate import schema_issues


def axolotl_issues(config: Config) -> tuple[Issue, ...]:
    section = config.section
    found = schema_issues(section.value, section.document.path, SCHEMA, config.context.versions)
    kept = (_judged(issue, config) for issue in found)
    own = (*_placeholders(config), *_conflicts(config), *_without_plugin(config))
    return (*(issue for issue in kept if issue is not None), *own)


_NUMBERS = frozenset(("micro_batch_size", "gradient_accumulation_steps", "sequence_len", "lora_r", "eval_batch_size"))


def _judged(issue: Issue, config: Config) -> Issue | None:
    """An issue of the schema with the severity it deserves: while nobody says which release is in use, an older one may
    take what the newest refuses or ignores."""
    if issue.code == "unknown-key" and not issue.suggestion:
        return None
    if NAME in config.context.versions or (issue.pointer and issue.pointer[0] in _NUMBERS):
        return issue
    if issue.code in ("removed-key", "renamed-key", "removed-value"):
        return issue._replace(severity="info")
    return issue._replace(severity="warning") if issue.severity == "error" else issue


def _placeholders(config: Config) -> Iterator[Issue]:
    value = config.section.document.value
    for key in sorted(config.held):
        message = f"`{key}: {str(value[key])[:60]}` looks like a template's variable; its value is not known here"
        yield config.section.issue("interpolation", message, key, severity="info")


class Conflict(NamedTuple):
    """`key`: where it is said; `refused(config)`: whether Axolotl raises."""

    key: str
    message: str
    refused: Callable[[Config], bool]


def _on(config: Config, *keys: str) -> bool:
    return all(config.own.get(key) and as_bool(config.own.get(key)) is not False for key in keys)


def _reentrant(config: Config) -> bool:
    return bool(as_bool(config.below("gradient_checkpointing_kwargs").get("use_reentrant")))


def _is_qlora(config: Config) -> bool:
    return config.adapter == "qlora" and not config.own.flag("merge_lora")


def _kernels(config: Config) -> bool:
    return any(config.own.flag(f"lora_{name}_kernel") for name in ("mlp", "qkv", "o"))


def _losses(config: Config) -> int:
    keys = ("cut_cross_entropy", "chunked_cross_entropy", "liger_cross_entropy", "liger_fused_linear_cross_entropy")
    return sum(config.own.flag(key) for key in keys)


_CONFLICTS = (
    Conflict(  # utils/schemas/peft.py:165
        "load_in_4bit",
        "`load_in_4bit` and `load_in_8bit` need an `adapter` to train: name one, or load the model as it is",
        lambda c: not c.adapter and "adapter" not in c.held and not c.own.flag("inference") and c.quantizes,
    ),
    Conflict(
        "load_in_8bit", "`adapter: qlora` cannot be loaded in 8 bits", lambda c: _is_qlora(c) and _on(c, "load_in_8bit")
    ),
    Conflict("gptq", "`adapter: qlora` cannot be loaded from GPTQ", lambda c: _is_qlora(c) and _on(c, "gptq")),
    Conflict(
        "adapter",
        "`adapter: qlora` requires `load_in_4bit: true`",
        lambda c: _is_qlora(c) and not c.own.flag("load_in_4bit") and "load_in_4bit" not in c.held,
    ),
    Conflict(  # validation.py:706
        "sample_packing", "`sample_packing` does not work with `rl`", lambda c: bool(c.rl) and _on(c, "sample_packing")
    ),
    Conflict("fsdp", "`deepspeed` and `fsdp` cannot be used together", lambda c: _on(c, "deepspeed", "fsdp")),
    Conflict(  # validation.py:277
        "batch_size",
        "`gradient_accumulation_steps` and `batch_size` both say how many samples a step has: keep one",
        lambda c: (
            _on(c, "gradient_accumulation_steps", "batch_size") and bool(c.own.written("gradient_accumulation_steps"))
        ),
    ),
    Conflict(  # validation.py:1596
        "activation_offloading",
        "`activation_offloading` requires `gradient_checkpointing`",
        lambda c: _on(c, "activation_offloading") and not _on(c, "gradient_checkpointing"),
    ),
    Conflict(  # validation.py:474
        "unfrozen_parameters",
        "a partly frozen model needs `use_reentrant: false` in `gradient_checkpointing_kwargs`",
        lambda c: _on(c, "unfrozen_parameters") and _reentrant(c),
    ),
    Conflict(  # validation.py:666
        "load_in_8bit",
        "the LoRA kernels are not compatible with 8-bit LoRA",
        lambda c: _kernels(c) and c.adapter == "lora" and _on(c, "load_in_8bit"),
    ),
    Conflict(  # validation.py:687
        "trust_remote_code",
        "the LoRA kernels are not compatible with `trust_remote_code`",
        lambda c: _kernels(c) and _on(c, "trust_remote_code"),
    ),
    Conflict(  # validation.py:1117
        "cut_cross_entropy", "only one cross entropy can be in force: keep one of them", lambda c: _losses(c) > 1
    ),
    Conflict(  # validation.py:1249
        "optimizer",
        "FSDP2 is not compatible with bitsandbytes' 8-bit AdamW: use `adamw_torch_8bit`",
        lambda c: _sharded(c, 2) and c.own.word("optimizer") in ("adamw_8bit", "adamw_bnb_8bit"),
    ),
    Conflict(  # validation.py:1236
        "optimizer",
        "FSDP's offload is not compatible with 8-bit optimizers",
        lambda c: _sharded(c, 1) and "8bit" in c.own.word("optimizer") and _offloads(c),
    ),
    Conflict(  # validation.py:713
        "rl",
        "`rl: kto` requires `remove_unused_columns: false`",
        lambda c: c.rl == "kto" and as_bool(c.own.get("remove_unused_columns")) is not False,
    ),
    Conflict(  # validation.py:1480
        "pretraining_dataset",
        "`pretraining_dataset` is streamed: `max_steps` must be set",
        lambda c: _on(c, "pretraining_dataset") and not as_int(c.own.get("max_steps")),
    ),
    Conflict(  # peft.py:240
        "lora_dropout",
        "`lora_dropout` must be 0 with `lora_target_parameters`",
        lambda c: _on(c, "lora_target_parameters") and bool(as_number(c.own.get("lora_dropout"))),
    ),
)


def _sharded(config: Config, version: int) -> bool:
    return bool(config.own.get("fsdp_config")) and fsdp_version(config) == version


def _offloads(config: Config) -> bool:
    options: Mapping[str, object] = config.below("fsdp_config")
    return bool(as_bool(options.get("offload_params")) or as_bool(options.get("fsdp_offload_params")))


def _conflicts(config: Config) -> Iterator[Issue]:
    for conflict in _CONFLICTS:
        if conflict.refused(config):
            message = f"Axolotl refuses this: {conflict.message}"
            yield config.section.issue("conflict", message, conflict.key)


def _without_plugin(config: Config) -> Iterator[Issue]:
    """A plug-in's keys are known only where the plug-in is (utils/config/__init__.py, merge_input_args)."""
    for key, plugin in PLUGIN_OF.items():
        if config.own.flag(key) and plugin not in config.plugins and "plugins" not in config.held:
            name = f"axolotl.integrations.{'liger' if plugin == 'LigerPlugin' else 'cut_cross_entropy'}.{plugin}"
            message = f"`{key}` has no effect without its plug-in: add `{name}` to `plugins`"
            yield config.section.issue("ignored-key", message, key, severity="warning", on_key=True)
