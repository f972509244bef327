"""Axolotl: what trains: adapters and their targets, or patterns of parameters (loaders/adapter.py).

How the keys are read and written; utils/schemas/{peft,config,validation}.py, axolotl 0.19.0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import memlint.formats.axolotl.families as families
from memlint.architectures.model import layer_weights
from memlint.formats.axolotl.config import AxolotlConfig, default_origin, uses_fsdp
from memlint.formats.axolotl.model import ADAPTERS, SHARDS_WITH_FSDP2_SINCE, loaded
from memlint.formats.fields import Fields, as_bool, as_words
from memlint.formats.keys import FieldChange, Written
from memlint.formats.name_patterns import bounded_pattern
from memlint.formats.target_patterns import put_pattern, ranks_by_module


def trains_adapters(config: AxolotlConfig) -> bool:
    """Whether the file trains adapters that memlint models."""
    return config.adapter in ADAPTERS


def read_method(fields: Fields, config: AxolotlConfig) -> None:
    """`adapter`. Without one the whole model trains, or the parameters that `unfrozen_parameters` selects."""
    if "adapter" in config.placeholders:
        fields.unknown("method.kind", "`adapter` is a placeholder")
    elif trains_adapters(config):
        fields.put("method.kind", "lora", config.own.origin("adapter"))
    elif config.adapter:
        fields.unknown("method.kind", f"`adapter: {config.adapter}` is not modelled")
    elif config.own.get("unfrozen_parameters"):
        _unfrozen(fields, config)
    else:
        fields.put("method.kind", "full", config.own.origin("adapter"))


def read_rank(fields: Fields, config: AxolotlConfig) -> None:
    """`lora_r`. Axolotl has no default for it."""
    config.put(fields, "method.rank", "lora_r", config.integer("lora_r"))
    if not config.own.written("lora_r") and "lora_r" not in config.placeholders:
        named = config.own.get("lora_model_dir")
        reason = "the adapter that is loaded says it" if named else "the file gives no `lora_r`"
        fields.unknown("method.rank", reason)


def read_layers(fields: Fields, config: AxolotlConfig) -> None:
    """`peft_layers_to_transform`: numbers of the layers that get adapters."""
    layers = config.own.get("peft_layers_to_transform")
    if isinstance(layers, list) and layers:
        chosen = tuple(layer for layer in layers if isinstance(layer, int))
        config.put(fields, "method.layers_to_transform", "peft_layers_to_transform", chosen)


def read_rank_pattern(fields: Fields, config: AxolotlConfig) -> None:
    """`lora_rank_pattern`: ranks of single modules."""
    pattern = ranks_by_module(config.mapping("lora_rank_pattern"))
    if pattern:
        config.put(fields, "method.rank_pattern", "lora_rank_pattern", pattern)


def read_fused_adapters(fields: Fields, config: AxolotlConfig) -> None:
    """The projections that run Axolotl's LoRA kernels."""
    origin = default_origin(config, "LoRA kernels are on where they can be")
    fields.put("method.fused_adapters", _fused_projections(config), origin)


_CASTS_QLORA = (0, 24)  # trl turns adapters over 4 bits into bf16


def read_adapter_dtype(fields: Fields, config: AxolotlConfig) -> None:
    """peft creates adapters in fp32. In reinforcement learning TRL wraps the model itself (core/builders/rl.py:289) and
    makes QLoRA's adapters bf16. Under FSDP Axolotl gives all parameters one dtype (:331)."""
    half_adapters = as_bool(config.own.get("peft_autocast_adapter_dtype")) is False
    by_trl = config.rl in ("dpo", "ipo", "kto") and config.own.flag("load_in_4bit") and config.adapter == "qlora"
    half_adapters |= by_trl and config.versions["trl"] >= _CASTS_QLORA
    half_adapters |= bool(config.rl) and uses_fsdp(config)
    dtype = (loaded(config)[0] or "float32") if half_adapters else "float32"
    config.put(fields, "method.adapter_dtype", "peft_autocast_adapter_dtype", dtype)


def read_targets(fields: Fields, config: AxolotlConfig) -> None:
    """`lora_target_linear` adds every linear layer; one string is a pattern over whole names (peft's re.fullmatch)."""
    if config.own.flag("lora_target_linear"):
        fields.put("method.targets", _every_linear(config), config.own.origin("lora_target_linear"))
        return
    value = config.own.get("lora_target_modules")
    if isinstance(value, str) and value != "all-linear":
        put_pattern(fields, value, config.own.origin("lora_target_modules"), config.architecture)
        return
    config.put(fields, "method.targets", "lora_target_modules", as_words(value))


def _every_linear(config: AxolotlConfig) -> tuple[str, ...]:
    """The last names of nn.Linear modules, towers included (loaders/adapter.py:51, find_all_linear_names), and the
    file's own targets. Experts that are stacked in one tensor, since transformers 5, are no such modules."""
    kinds = getattr(config.architecture, "layer_types", ())
    if config.versions["transformers"] < (5,) or not kinds:
        return ("all-linear",)
    groups = [kind.weights for kind in kinds]
    for tower in getattr(config.architecture, "towers", ()):
        groups += [tower.weights, tower.layer_weights, tower.projector_weights]
    linears = (weight.name for group in groups for weight in group if weight.kind == "linear")
    names = {name.split(".")[-2] for name in linears if name.endswith(".weight") and "." in name[: -len(".weight")]}
    return tuple(sorted(names | set(as_words(config.own.get("lora_target_modules"))))) or ("all-linear",)


_ROW_RANGE = re.compile(r"\[\d*:?\d*\]$")


def _unfrozen(fields: Fields, config: AxolotlConfig) -> None:
    """`unfrozen_parameters`: patterns from the start of parameters' names, whose dots are dots; rows of a range train
    with their whole table (utils/freeze.py, LayerNamePattern)."""
    value = config.own.get("unfrozen_parameters")
    words = [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
    called = [_with_todays_names(word, config) for word in words]
    patterns = tuple("^" + re.sub(r"\.(?!\+)", r"\\.", _ROW_RANGE.sub("", word)).lstrip("^") for word in called)
    if not patterns or any(bounded_pattern(pattern) is None for pattern in patterns):
        fields.unknown("method.kind", "`unfrozen_parameters` has a pattern that is not evaluated")
        return
    unmatched = next(
        (word for word, text in zip(words, patterns) if not _matches_a_parameter(text, config.architecture)), None
    )
    if unmatched is not None:
        before = families.MLP_CALLED_BEFORE.get(config.family, "")
        renamed = f" (transformers 5 calls `{before}` `mlp`)" if before and before in unmatched else ""
        fields.unknown("method.kind", f"`{unmatched[:60]}` names no parameter that is known here{renamed}")
        return
    config.put(fields, "method.kind", "unfrozen_parameters", "freeze")
    config.put(fields, "method.trainable_patterns", "unfrozen_parameters", patterns)


def _with_todays_names(word: str, config: AxolotlConfig) -> str:
    """A pattern over names of this run's transformers, turned into one over today's names."""
    before = families.MLP_CALLED_BEFORE.get(config.family)
    return word.replace(before, "mlp") if before and config.versions["transformers"] < (5,) else word


def _matches_a_parameter(text: str, architecture: Any) -> bool:
    """Whether a pattern matches a parameter, by today's names."""
    compiled = bounded_pattern(text)
    kinds = getattr(architecture, "layer_types", ())
    if compiled is None or not kinds:
        return True
    inside = (name for name, _ in layer_weights(architecture))
    outside = (weight.name for weight in architecture.non_layer_weights)
    return any(map(compiled.search, (*outside, *inside)))


_KERNELS = (("qkv", "lora_qkv_kernel"), ("o", "lora_o_kernel"), ("mlp", "lora_mlp_kernel"))
_SINCE_AUTOMATIC = (0, 9, 1)
_GROUPED_MM = (2, 9)  # torch; mixtures are left out before


def _fused_projections(config: AxolotlConfig) -> tuple[str, ...]:
    """Groups of projections that run Axolotl's LoRA kernels: those in the config, else all where no option forbids it
    (utils/schemas/config.py:1976, check_auto_enable_lora_kernels)."""
    kernels = {group: as_bool(config.own.get(key)) for group, key in _KERNELS}
    if config.family in families.WITHOUT_LORA_KERNELS:
        return ()
    if any(value is not None for value in kernels.values()) or config.own.written("lora_embedding_kernel"):
        return tuple(group for group, value in kernels.items() if value)
    return () if config.release < _SINCE_AUTOMATIC or _without_kernels(config) else tuple(kernels)


def _without_kernels(config: AxolotlConfig) -> bool:
    """FSDP counts as version 2 where `fsdp_version` itself says so: the validator runs before the one that copies
    `fsdp_config.fsdp_version` there (pydantic runs a subclass's first)."""
    eight_bits = config.adapter == "lora" and config.own.flag("load_in_8bit")
    older = config.release < SHARDS_WITH_FSDP2_SINCE
    sharded = older and config.own.get("fsdp_config") is not None and str(config.own.get("fsdp_version")) != "2"
    without = eight_bits or config.own.flag("trust_remote_code") or config.own.flag("nvfp4_merge_aware")
    return bool(config.rl) or without or sharded or (config.has_experts and config.versions["torch"] < _GROUPED_MM)


_QUANTIZATION = ("method", "bits", "kind", "double_quant", "storage_dtype")
# What picks or packs whole weights in its own way and does not go with a new adapter.
_WITHOUT_ADAPTERS = ("unfrozen_parameters", "relora", "model_quantization_config", "gptq")


def write_adapter(change: FieldChange) -> Written | None:
    """`adapter: lora`, or `qlora` with `load_in_4bit` (loaders/model.py, _set_quantization_config: NF4 with double
    quantisation unless `bnb_config_kwargs` says otherwise). Kind, targets and bits of one plan make one answer."""
    config, changes = change.section, change.changes
    kind, targets = changes.get("method.kind"), changes.get("method.targets")
    quantized = {part: changes.get(f"model.quantization.{part}") for part in _QUANTIZATION}
    if kind is None and targets is None and not any(quantized.values()):
        return {}
    if any(quantized.values()) and (not _is_nf4(config, quantized) or _loads_on_one_rank(config)):
        return None
    if kind not in (None, "lora") or (kind is None and config.get("adapter") not in ADAPTERS):
        return None
    if any(config.get(key) for key in _WITHOUT_ADAPTERS):
        return None
    four_bits = quantized["bits"] == 4
    keys: dict[str, Any] = {"adapter": "qlora" if four_bits else "lora"}
    keys |= {"load_in_4bit": True} if four_bits or config.get("load_in_4bit") else {}
    keys |= {"load_in_8bit": False} if config.get("load_in_8bit") else {}
    if kind is None:
        return keys if targets is None else None
    return {**keys, **_target_keys(targets)} if _takes_an_adapter(config) else None


def _is_nf4(config: Mapping[str, Any], quantized: Mapping[str, Any]) -> bool:
    is_nf4 = quantized["bits"] == 4 and quantized["kind"] in (None, "nf4")
    return is_nf4 and quantized["storage_dtype"] in (None, "bfloat16") and not config.get("bnb_config_kwargs")


def _loads_on_one_rank(config: Mapping[str, Any]) -> bool:
    """Whether one rank alone reads the checkpoint, which FSDP2 refuses with 4 bits (validation.py:1266)."""
    section = config.get("fsdp_config")
    keys = ("cpu_ram_efficient_loading", "fsdp_cpu_ram_efficient_loading")
    return isinstance(section, dict) and any(section.get(key) for key in keys)


def _takes_an_adapter(config: Mapping[str, Any]) -> bool:
    """validation.py: fused MLPs, 1-bit models and `q_galore_adamw8bit` want whole weights."""
    fused = any(config.get(key) for key in ("flash_attn_fuse_mlp", "flash_attn_fuse_qkv", "use_onebitllms"))
    return not fused and config.get("optimizer") != "q_galore_adamw8bit"


def _target_keys(targets: Any) -> Written:
    if targets is None:
        return {}
    if tuple(targets) == ("all-linear",):
        return {"lora_target_linear": True, "lora_target_modules": None}
    return {"lora_target_modules": list(targets), "lora_target_linear": None}


def write_frozen_modules(change: FieldChange) -> Written | None:
    """`freeze_mm_modules` freezes both tower and projector."""
    parts = [change.changes.get(f"method.freeze_{part}") for part in ("vision_tower", "multi_modal_projector")]
    return {"freeze_mm_modules": True} if parts == [True, True] else None
