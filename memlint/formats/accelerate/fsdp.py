"""FSDP options of accelerate files and of `fsdp_config`, as neutral fields (accelerate 1.15, transformers 5.23)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memlint.formats.accelerate.fsdp_options import STRATEGIES, version_of
from memlint.formats.accelerate.keys import OPTIONS
from memlint.formats.fields import Fields, Section, as_int
from memlint.formats.section_keys import SectionKeys
from memlint.formats.training_arguments import FSDP_ALL_IN_CONFIG_SINCE
from memlint.run import Origin


class FsdpOptions(SectionKeys):
    """FSDP options with or without the `fsdp_` prefix, and their reader's defaults (without it)."""

    __slots__ = ("defaults",)

    def __init__(self, section: Section, defaults: dict[str, Any], source: str) -> None:
        super().__init__(section, OPTIONS, source)
        self.defaults = defaults

    def default(self, name: str) -> Any:
        return self.defaults.get(self.keys[name].name.removeprefix("fsdp_"))

    def version(self) -> int:
        """1 or 2."""
        return version_of(self)


LAUNCH_DEFAULTS: dict[str, Any] = {name.removeprefix("fsdp_"): value for name, value in OPTIONS.defaults.items()}
# transformers 5.23 TrainingArguments._process_fsdp_args, where it differs.
TRAINER_DEFAULTS: dict[str, Any] = {
    **LAUNCH_DEFAULTS,
    "version": 2,
    "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    "min_num_params": None,
    "state_dict_type": "FULL_STATE_DICT",
    "cpu_ram_efficient_loading": False,
}


def trainer_options(section: Section, words: Sequence[str], transformers: tuple[int, ...], source: str) -> FsdpOptions:
    """`fsdp` and `fsdp_config` of TrainingArguments as a release of transformers reads them."""
    defaults: dict[str, Any] = {**TRAINER_DEFAULTS, **options_in_words(words)}
    if transformers < FSDP_ALL_IN_CONFIG_SINCE:
        by_size = as_int(section.value.get("fsdp_min_num_params", section.value.get("min_num_params")))
        wrap = "SIZE_BASED_WRAP" if by_size else "TRANSFORMER_BASED_WRAP"
        defaults |= {"version": 1, "state_dict_type": ""}
        defaults["auto_wrap_policy"] = wrap if "auto_wrap" in words else "NO_WRAP"
        unread = {"state_dict_type", "auto_wrap_policy", *(() if transformers >= (5,) else ("version",))}
        read = {key: value for key, value in section.value.items() if str(key).removeprefix("fsdp_") not in unread}
        section = section._replace(value=read)
    return FsdpOptions(section, defaults, source)


def options_in_words(words: Sequence[str]) -> dict[str, Any]:
    """The options that the words of `fsdp: full_shard offload` stand for (transformers
    TrainingArguments._process_fsdp_args)."""
    found: dict[str, Any] = {"offload_params": True} if "offload" in words else {}
    for word in words:
        if word.upper() in STRATEGIES:
            found["sharding_strategy"] = word.upper()
    return found


def apply_fsdp(fields: Fields, options: FsdpOptions, origin: Origin) -> None:
    """Fill `parallelism.fsdp`; call it after mixed precision is known. `origin`: where FSDP is turned on."""
    fields.put("parallelism.engine", "fsdp", origin)
    OPTIONS.read(fields, options, options)
    _precision(fields, options.version())


def _precision(fields: Fields, version: int) -> None:
    """Mixed precision becomes FSDP's policy, and trainable parameters are turned into fp32 (accelerator.py:1999).

    Version 2 computes in the policy's dtype as autocast would and leaves the model's outputs alone
    (accelerator.py:1674, _prepare_fsdp2), and turns nothing into fp32 beside 4-bit weights (fsdp_utils.py:815).
    """
    mixed = bool(fields.get("precision.autocast", False))
    four_bits = fields.get("model.quantization.bits", 16) == 4
    reason = "accelerate turns low-precision trainable parameters into fp32 under mixed precision"
    fields.infer("parallelism.fsdp.upcasts_trainable", mixed and not (version == 2 and four_bits), reason)
    if version == 2:
        fields.infer("precision.outputs_to_fp32", False, "accelerate 1.15 leaves the outputs of FSDP2 models")
    compute = fields.get("precision.compute", "")
    if mixed and isinstance(compute, str) and compute:
        fields.infer("parallelism.fsdp.param_dtype", compute, "mixed precision gives FSDP's policy")
        fields.infer("parallelism.fsdp.reduce_dtype", compute, "mixed precision gives FSDP's policy")
