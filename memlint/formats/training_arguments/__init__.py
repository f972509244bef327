"""transformers' TrainingArguments: what the Trainer, TRL, LLaMA-Factory and Axolotl share.

A format makes `Arguments` from its section, calls `apply` and overrides what its framework does differently with a
later `Fields.put`. The keys stand in `keys.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.formats.fields import Fields, Section
from memlint.formats.training_arguments.arguments import Arguments, Version
from memlint.formats.training_arguments.keys import KEYS, optimizer_options
from memlint.run import TRANSFORMERS, Origin

__all__ = [
    "FSDP_ALL_IN_CONFIG_SINCE",
    "KEYS",
    "Arguments",
    "Version",
    "apply",
    "arguments",
    "default_fsdp_version",
    "optimizer_options",
    "read_arguments",
]


def read_arguments(
    section: Section,
    defaults: Mapping[str, Any],
    source: str,
    world_size: int | None = None,
    spellings: Mapping[str, tuple[str, ...]] = KEYS.spellings,
) -> Arguments:
    """The arguments that `section` gives, over `defaults`. `source` names the framework and version of the defaults."""
    given = {key: value for key, value in section.value.items() if value is not None}
    values = {**defaults, **given}
    for key, names in spellings.items():
        for name in names:
            if name in given:
                values[key] = given[name]
                break
    return Arguments(section, defaults, source, world_size, values, Origin("default", detail=source), spellings)


def arguments(
    section: Section,
    versions: Mapping[str, Version] | None = None,
    overrides: Mapping[str, Any] | None = None,
    source: str = "",
    world_size: int | None = None,
    spellings: Mapping[str, tuple[str, ...]] = KEYS.spellings,
) -> Arguments:
    """The arguments of `section` under the framework `versions` ({"transformers": (4, 57)}; newest where absent).

    `overrides` are defaults that a subclass (SFTConfig, LLaMA-Factory) changes; `source` then names it.
    """
    versions = versions or {}
    defaults = {**KEYS.defaults, "optim": default_optimizer(versions), **(overrides or {})}
    transformers = versions.get("transformers", TRANSFORMERS)
    named = source or f"transformers {'.'.join(map(str, transformers))} TrainingArguments"
    return read_arguments(section, defaults, named, world_size, spellings)


def default_optimizer(versions: Mapping[str, Version]) -> str:
    """`optim` when nothing is said: transformers' own AdamW before 4.32 (4.31.0 training_args.py:1026, 4.32.1 :1050),
    fused AdamW from torch 2.8 on (4.57.6 :1292)."""
    if versions.get("transformers", TRANSFORMERS) < (4, 32):
        return "adamw_hf"
    fused = versions.get("torch", (2, 13)) >= (2, 8) and versions.get("transformers", TRANSFORMERS) >= (4, 57)
    return "adamw_torch_fused" if fused else "adamw_torch"


# Since 5.10 `fsdp_config` says all of it. Before, `auto_wrap` was a word of `fsdp`, version 1 the default, and
# what is saved accelerate's choice (5.9.0 training_args.py:2788). Up to 4.57 no version was read either (4.57.6 :2004).
FSDP_ALL_IN_CONFIG_SINCE = (5, 10)


def default_fsdp_version(transformers: Version) -> int:
    """The version of FSDP that a release of transformers runs where `fsdp_config` says none."""
    return 2 if transformers >= FSDP_ALL_IN_CONFIG_SINCE else 1


def apply(fields: Fields, args: Arguments, versions: Mapping[str, Version] | None = None) -> None:
    """Fill batch, optimizer, checkpointing, precision, evaluation, saving, DDP and stack fields from `args`."""
    KEYS.read(fields, args, args._replace(versions=versions or {}))
    # trainer.py: `prediction_loss_only=True if self.compute_metrics is None else None`.
    fields.infer("evaluation.keeps_logits", False, "without compute_metrics Trainer.evaluate keeps losses alone")
    fields.put("precision.master_weights", False, Origin("inferred", detail="no engine keeps a second copy"))
