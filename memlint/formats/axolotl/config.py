"""An Axolotl file as its loader reads it: keys with Axolotl's defaults, and the TrainingArguments made of them.

Read in axolotl 0.19.0: cli/config.py, utils/schemas/, utils/config/__init__.py (normalize_config), core/builders/.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.axolotl.releases import NAME, Version, axolotl_versions
from memlint.formats.base import Context
from memlint.formats.fields import Fields, Section, as_bool, as_int, interpolated
from memlint.formats.keys import Keys
from memlint.formats.training_arguments import Arguments, read_arguments
from memlint.run import UNKNOWN, Origin


class AxolotlConfig(NamedTuple):
    """One file. `own` reads Axolotl's keys, `hf` the TrainingArguments that it makes of them.

    `placeholders`: keys whose value a template fills in. `version_evidence`: the key that bounds `versions`.
    `model_name` is "" where no model is named, `architecture` None where it is not known. `model_origin`: where the
    architecture came from.
    """

    section: Section
    own: Arguments
    hf: Arguments
    context: Context
    versions: Mapping[str, Version]
    placeholders: frozenset[str]
    version_evidence: Origin | None = None
    architecture: Any = None
    model_name: str = ""
    model_origin: Origin = Origin("unknown")

    def get(self, key: str) -> Any:
        """The value of `key`, else Axolotl's default, else None; UNKNOWN for a placeholder."""
        return UNKNOWN if key in self.placeholders else self.own.get(key)

    def written(self, key: str) -> str | None:
        """The spelling under which the file gives `key`, None where it does not."""
        return self.own.written(key)

    def origin(self, key: str) -> Origin:
        """Where the value of `key` comes from."""
        return self.own.origin(key)

    def text(self, key: str) -> str:
        value = self.own.get(key)
        return value.strip() if isinstance(value, str) else ""

    def integer(self, key: str, default: int = 0) -> int:
        value = self.own.integer(key)
        return default if value is None else value

    def mapping(self, key: str) -> Mapping[str, Any]:
        value = self.own.get(key)
        return value if isinstance(value, dict) else {}

    @property
    def release(self) -> Version:
        return self.versions[NAME]

    @property
    def family(self) -> str:
        """The model's `model_type`; "" where the model is unknown."""
        return getattr(self.architecture, "family", "")

    @property
    def has_experts(self) -> bool:
        return any(kind.mlp.kind == "moe" for kind in getattr(self.architecture, "layer_types", ()))

    @property
    def quantizes(self) -> bool:
        return self.own.flag("load_in_8bit") or self.own.flag("load_in_4bit")

    @property
    def adapter(self) -> str:
        return self.own.word("adapter")

    @property
    def rl(self) -> str:
        return self.own.word("rl")

    @property
    def plugin_paths(self) -> tuple[str, ...]:
        """The plug-ins as they are written: `axolotl.integrations.liger.LigerPlugin`."""
        value = self.own.get("plugins")
        return tuple(name for name in (value if isinstance(value, list) else [value]) if isinstance(name, str))

    @property
    def plugins(self) -> tuple[str, ...]:
        """Class names of the plug-ins: LigerPlugin."""
        return tuple(path.rpartition(".")[2] for path in self.plugin_paths)

    def put(self, fields: Fields, name: str, key: str, value: Any) -> None:
        """Set a neutral field that the file's `key` decides; UNKNOWN where the key is a placeholder."""
        if key in self.placeholders:
            fields.unknown(name, f"`{key}` is a placeholder")
        else:
            fields.put(name, value, self.own.origin(key))


def config_of(section: Section, context: Context, keys: Keys) -> AxolotlConfig:
    """A file read by the rows of `keys`. Values that a template fills in (`${LORA_R}`) are left out of `own`."""
    given = section.value
    keyed = ((key, value) for key, value in given.items() if isinstance(key, str))
    placeholders = frozenset(key for key, value in keyed if interpolated(value, key == "base_model"))
    plain = section._replace(value={key: value for key, value in given.items() if key not in placeholders})
    versions, version_evidence = axolotl_versions(plain, context.versions)
    named = f"Axolotl {'.'.join(map(str, versions[NAME]))}"
    own = read_arguments(plain, keys.defaults, named)
    hf = read_arguments(plain, {}, named)._replace(values=_training_arguments(own, keys, context, versions))
    return AxolotlConfig(plain, own, hf, context, versions, placeholders, version_evidence)


_EMULATES_BF16: Version = (2, 3)


def half_precision(own: Arguments, context: Context, torch: Version) -> tuple[str, str]:
    """The half-precision dtype of training ("" for none), and the key that sets it.

    `bf16: auto` asks `torch.cuda.is_bf16_supported()` (utils/config/__init__.py:173, resolve_dtype), which from torch
    2.3 on is true of cards that emulate it; without bf16 it is fp16, unless the file says something about that. A file
    that gives no `bf16` means `auto`, one that leaves it empty means none.
    """
    bf16: Any = own.section.value.get("bf16", "auto")
    bf16 = as_bool(bf16) if as_bool(bf16) is not None else bf16
    if own.flag("fp16") and bf16 in ("auto", None, False):
        return "float16", "fp16"
    if bf16 == "auto" and not (context.gpu is None or context.gpu.bf16 or torch >= _EMULATES_BF16):
        undecided = own.get("fp16") is None and not own.flag("float16") and not own.flag("bfloat16")
        bf16 = None
        if undecided:
            return "float16", "bf16"
    if bf16 or own.flag("bfloat16"):
        return "bfloat16", "bf16" if bf16 else "bfloat16"
    return "", "bf16"


def _training_arguments(
    own: Arguments, keys: Keys, context: Context, versions: Mapping[str, Version]
) -> dict[str, Any]:
    """What TrainingArguments are given (core/builders/base.py, _set_base_training_args): the keys that the table passes
    on, and what Axolotl makes of several keys."""
    values = {name: value for key, name in keys.passed if (value := own.get(key)) is not None}
    values["per_device_eval_batch_size"] = own.get("eval_batch_size") or own.get("micro_batch_size")
    values["gradient_accumulation_steps"] = accumulation(own)
    values["optim_args"] = _options(own.get("optim_args"))
    dtype, _ = half_precision(own, context, versions["torch"])
    full = own.get("bf16") == "full"
    values["bf16"], values["fp16"] = dtype == "bfloat16" and not full, dtype == "float16"
    values["bf16_full_eval"] = full
    values["torch_compile"] = own.word("torch_compile") == "auto" or own.flag("torch_compile")
    values["eval_strategy"] = evaluation_strategy(own, versions[NAME])
    values["save_strategy"] = "steps" if own.get("save_steps") else own.word("save_strategy") or "epoch"
    if not own.word("rl") and not own.flag("reward_model"):
        values["eval_accumulation_steps"] = values["gradient_accumulation_steps"]
    return values


def accumulation(own: Arguments) -> Any:
    """`gradient_accumulation_steps`, or what the older `batch_size` leaves to it (normalize_config)."""
    total, micro = as_int(own.section.value.get("batch_size")), as_int(own.get("micro_batch_size"))
    if own.written("gradient_accumulation_steps") or not total or not micro:
        return own.get("gradient_accumulation_steps")
    return total // micro


def evaluates(own: Arguments) -> bool:
    """Whether the config has an evaluation set."""
    return bool(own.get("test_datasets")) or bool(own.number("val_set_size"))


# core/builders/base.py:436, _configure_save_and_eval_strategy; before, core/trainer_builder.py fell back to epochs.
_NO_DEFAULT_EVALUATION_SINCE = (0, 10)


def evaluation_strategy(own: Arguments, release: Version) -> str:
    """The evaluation strategy: `eval_strategy`, by default steps, where there is an evaluation set; else none."""
    if not evaluates(own):
        return "no"
    if own.get("eval_steps") or _evaluates_in_between(own):
        return "steps"
    unasked = "epoch" if release < _NO_DEFAULT_EVALUATION_SINCE and not own.word("rl") else "no"
    return own.word("eval_strategy") or own.word("evaluation_strategy") or unasked


def _evaluates_in_between(own: Arguments) -> bool:
    """`evals_per_epoch: 1` of one epoch makes no `eval_steps` (utils/config/__init__.py:261, `if eval_steps < 1.0`)."""
    times, epochs = own.number("evals_per_epoch"), own.number("num_epochs")
    return bool(times and epochs and times * epochs > 1)


def _options(value: Any) -> Any:
    if isinstance(value, dict):
        return ",".join(f"{key}={option}" for key, option in value.items())
    return value


def uses_fsdp(config: AxolotlConfig) -> bool:
    """loaders/model.py:154, is_fsdp_enabled."""
    return config.own.get("fsdp_config") is not None or config.own.get("fsdp") is not None


def default_origin(config: AxolotlConfig, detail: str = "") -> Origin:
    return Origin("default", detail=f"{config.own.source}: {detail}" if detail else config.own.source)
