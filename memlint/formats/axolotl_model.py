"""Axolotl: the model, its dtype, quantisation and attention, and what of it trains (loaders/model.py, adapter.py)."""

from __future__ import annotations

import re
from typing import Any

from memlint.formats.axolotl_config import Config, default_origin, half
from memlint.formats.base import model_origin
from memlint.formats.fields import Fields, as_bool, as_words
from memlint.run import Origin, Quantization

# utils/schemas/enums.py: LEGACY_ATTN_FLAG_TO_IMPL, the most particular first.
_FLAGS = (
    ("xformers_attention", "xformers"),
    ("sage_attention", "sage"),
    ("flex_attention", "flex_attention"),
    ("flash_attention", "flash_attention_2"),
    ("sdp_attention", "sdpa"),
    ("eager_attention", "eager"),
)
# Kernels of one kind keep the same tensors: inputs, output and a row of sums.
_LIKE_FLASH = {
    "flash_attention_4": "flash_attention_2",
    "flash_attention_torch": "flash_attention_2",
    "xformers": "flash_attention_2",
    "kernels-community/flash-attn2": "flash_attention_2",
    "kernels-community/flash-attn3": "flash_attention_3",
    "kernels-community/vllm-flash-attn3": "flash_attention_3",
}
_ADAPTERS = ("lora", "qlora")


def find_model(config: Config) -> tuple[Config, Origin, str]:
    """`config` with its architecture, where that came from, and the model's name ("" when nobody says it)."""
    name = config.text("base_model") or config.context.model_name
    if not name or "base_model" in config.held:
        reason = "`base_model` is a placeholder" if "base_model" in config.held else "no `base_model`"
        return config, Origin("unknown", detail=reason), ""
    found = config.context.find_model(name, config.section.document.path)
    if found.architecture is None:
        return config, Origin("unknown", detail=found.reason or f"`{name}` is not known"), name
    return config._replace(architecture=found.architecture), model_origin(found), name


def apply_model(fields: Fields, config: Config, origin: Origin, name: str) -> None:
    if name:
        written = bool(config.text("base_model"))
        fields.put("model.name", name, config.own.origin("base_model") if written else Origin("setting"))
    else:
        fields.unknown("model.name", "the file names no model (`base_model`); give --model")
    if config.architecture is None:
        fields.unknown("model.architecture", origin.detail)
    else:
        fields.put("model.architecture", config.architecture, origin)
    _dtypes(fields, config)
    quantization, place = _quantization(config)
    fields.put("model.quantization", quantization, place)
    _attention(fields, config)
    config.put(fields, "model.from_scratch", "reinit_weights", config.own.flag("reinit_weights"))


def _dtypes(fields: Fields, config: Config) -> None:
    """One dtype loads and trains (utils/config/__init__.py, resolve_dtype); mixed precision is autocast on top of it.

    Full fine-tuning without a flash kernel leaves embeddings, head and norms in fp32 (loaders/model.py,
    _configure_embedding_dtypes: turned back where adapters, FSDP or such a kernel want it).
    """
    dtype, key = half(config.own, config.context)
    if not dtype and (config.own.flag("load_in_8bit") or config.own.flag("float16")):
        dtype, key = "float16", "load_in_8bit" if config.own.flag("load_in_8bit") else "float16"
    origin = config.own.origin(key)
    for name in ("model.weights_dtype", "precision.trainable_dtype"):
        fields.put(name, dtype or "float32", origin)
    if not fields.get("precision.autocast"):
        fields.put("precision.compute", dtype or "float32", origin)
    sharded = config.own.get("fsdp") or config.own.get("fsdp_config")
    if dtype and not (config.adapter or sharded or _wants_half_embeddings(config)):
        reason = "Axolotl keeps embeddings, head and norms in fp32 where neither adapters nor flash kernels need less"
        fields.infer("precision.embeddings_dtype", "float32", reason)


def _wants_half_embeddings(config: Config) -> bool:
    word, _ = _asked_attention(config)
    return (bool(word) and word not in ("eager", "sdpa")) or _cuts(config)


def _cuts(config: Config) -> bool:
    """Cut cross entropy reads the head in half precision."""
    return "CutCrossEntropyPlugin" in config.plugins and as_bool(config.own.get("cut_cross_entropy")) is not False


def _quantization(config: Config) -> tuple[Quantization, Origin]:
    """4 bits for `adapter: qlora`, 8 for `adapter: lora` (loaders/model.py, _set_quantization_config)."""
    stored = getattr(config.architecture, "stored", None)
    method = getattr(stored, "method", "none")
    if stored is not None and method != "none" and not dequantizes(config):
        found = Quantization(method, stored.bits, stored.kind, stored.double_quant, "uint8", True, stored.group_size)
        found = found._replace(stacked_experts=_quantizes_experts(config))
        return found, Origin("catalog", detail=f"the checkpoint is stored as {method}")
    experts = _quantizes_experts(config)
    if config.adapter == "qlora" and config.own.flag("load_in_4bit"):
        more = config.below("bnb_config_kwargs")
        double = as_bool(more.get("bnb_4bit_use_double_quant"))
        kind = more.get("bnb_4bit_quant_type")
        found = Quantization(
            "bnb", 4, kind if isinstance(kind, str) else "nf4", double is not False, "bfloat16", stacked_experts=experts
        )
        return found, config.own.origin("load_in_4bit")
    if config.adapter == "lora" and config.own.flag("load_in_8bit"):
        return Quantization("bnb", 8, "int8", stacked_experts=experts), config.own.origin("load_in_8bit")
    return Quantization(), config.own.origin("load_in_4bit")


def _quantizes_experts(config: Config) -> bool:
    """bitsandbytes replaces linear layers alone, which experts are in remote code and in `Linearized` checkpoints."""
    linear = config.own.flag("trust_remote_code") or "linearized" in config.text("base_model").lower()
    return linear or config.own.flag("quantize_moe_experts")


def dequantizes(config: Config) -> bool:
    """`model_quantization_config_kwargs: {dequantize: true}` unpacks a stored checkpoint while it loads."""
    return bool(as_bool(config.below("model_quantization_config_kwargs").get("dequantize")))


def _asked_attention(config: Config) -> tuple[str, str]:
    """The implementation that the file asks for and the key that says so; "" where it asks for none."""
    word = config.text("attn_implementation")
    if word:
        return word.split(":")[0].split("@")[0], "attn_implementation"
    key, name = next(((key, name) for key, name in _FLAGS if config.own.flag(key)), ("", ""))
    return name, key


def _attention(fields: Fields, config: Config) -> None:
    word, key = _asked_attention(config)
    if word:
        fields.put("attention.implementation", _LIKE_FLASH.get(word, word), config.own.origin(key))
        fields.put("attention.requested", word, config.own.origin(key))
    else:
        fields.default("attention.implementation", "sdpa", "transformers: sdpa where the model supports it")


def apply_method(fields: Fields, config: Config) -> None:
    if "adapter" in config.held:
        fields.unknown("method.kind", "`adapter` is a placeholder")
    elif config.adapter in _ADAPTERS:
        _lora(fields, config)
    elif config.adapter:
        fields.unknown("method.kind", f"`adapter: {config.adapter}` is not modelled")
    elif config.own.get("unfrozen_parameters"):
        _unfrozen(fields, config)
    else:
        fields.put("method.kind", "full", config.own.origin("adapter"))
    for part in ("freeze_vision_tower", "freeze_multi_modal_projector"):
        config.put(fields, f"method.{part}", "freeze_mm_modules", config.own.flag("freeze_mm_modules"))


def _lora(fields: Fields, config: Config) -> None:
    config.put(fields, "method.kind", "adapter", "lora")
    for field, key in (("rank", "lora_r"), ("alpha", "lora_alpha")):
        config.put(fields, f"method.{field}", key, config.whole(key, 0))
    config.put(fields, "method.dropout", "lora_dropout", float(config.own.number("lora_dropout") or 0))
    _targets(fields, config)
    for field, key in (("modules_to_save", "lora_modules_to_save"), ("target_parameters", "lora_target_parameters")):
        words = as_words(config.own.get(key))
        if words:
            config.put(fields, f"method.{field}", key, words)
    for field in ("use_dora", "use_rslora"):
        config.put(fields, f"method.{field}", f"peft_{field}", config.own.flag(f"peft_{field}"))
    layers = config.own.get("peft_layers_to_transform")
    if isinstance(layers, list) and layers:
        chosen = tuple(layer for layer in layers if isinstance(layer, int))
        config.put(fields, "method.layers_to_transform", "peft_layers_to_transform", chosen)
    pattern = tuple((name, rank) for name, rank in config.below("lora_rank_pattern").items() if isinstance(rank, int))
    if pattern:
        config.put(fields, "method.rank_pattern", "lora_rank_pattern", pattern)
    half_adapters = as_bool(config.own.get("peft_autocast_adapter_dtype")) is False
    dtype = fields.get("model.weights_dtype") if half_adapters else "float32"
    config.put(fields, "method.adapter_dtype", "peft_autocast_adapter_dtype", dtype)
    fused = _fused(config)
    fields.put("method.fused_adapters", fused, default_origin(config, "LoRA kernels are on where they can be"))


def _targets(fields: Fields, config: Config) -> None:
    """`lora_target_linear` adds every linear layer; one string is a pattern over whole names (peft's re.fullmatch)."""
    if config.own.flag("lora_target_linear"):
        fields.put("method.targets", ("all-linear",), config.own.origin("lora_target_linear"))
        return
    value = config.own.get("lora_target_modules")
    if isinstance(value, str) and value != "all-linear":
        found = _matching(value, config.architecture)
        if found is None:
            fields.unknown("method.targets", f"the pattern `{value[:60]}` is not evaluated")
        else:
            config.put(fields, "method.targets", "lora_target_modules", found)
            fields.infer("method.freeze_vision_tower", True, "the pattern is taken to name the language model's layers")
        return
    config.put(fields, "method.targets", "lora_target_modules", as_words(value))


# A pattern that cannot take long: no group is repeated, and few things are.
_QUANTIFIERS = 3
_LAYERS = ("model.layers.0.", "model.language_model.layers.0.", "language_model.model.layers.0.")


def _matching(pattern: str, architecture: Any) -> tuple[str, ...] | None:
    """The modules of a decoder layer whose whole name the pattern matches; None where nobody can say."""
    names = sorted(
        {weight.name.rpartition(".")[0] for kind in getattr(architecture, "kinds", ()) for weight in kind.weights}
    )
    compiled = bounded_pattern(pattern)
    if compiled is None or not names:
        return None
    return tuple(name for name in names if any(compiled.fullmatch(start + name) for start in _LAYERS)) or None


def bounded_pattern(pattern: str) -> re.Pattern[str] | None:
    """The pattern compiled; None for one that is wrong, or may take long on some name."""
    repeats = sum(pattern.count(sign) for sign in "*+{")
    if len(pattern) > 400 or repeats > _QUANTIFIERS or re.search(r"\)[*+{]", pattern):
        return None
    try:
        return re.compile(pattern)
    except re.error:
        return None


_ROWS = re.compile(r"\[\d*:?\d*\]$")


def _unfrozen(fields: Fields, config: Config) -> None:
    """`unfrozen_parameters`: patterns from the start of parameters' names, whose dots are dots; rows of a range train
    with their whole table (utils/freeze.py, LayerNamePattern)."""
    value = config.own.get("unfrozen_parameters")
    words = [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
    patterns = tuple("^" + re.sub(r"\.(?!\+)", r"\\.", _ROWS.sub("", word)).lstrip("^") for word in words)
    if not patterns or any(bounded_pattern(pattern) is None for pattern in patterns):
        fields.unknown("method.kind", "`unfrozen_parameters` has a pattern that is not evaluated")
        return
    config.put(fields, "method.kind", "unfrozen_parameters", "freeze")
    config.put(fields, "method.trainable_patterns", "unfrozen_parameters", patterns)


_KERNELS = (("qkv", "lora_qkv_kernel"), ("o", "lora_o_kernel"), ("mlp", "lora_mlp_kernel"))
_SINCE_AUTOMATIC = (0, 10)  # check_auto_enable_lora_kernels, 2025-04-29


def _fused(config: Config) -> tuple[str, ...]:
    """Groups of projections that run Axolotl's LoRA kernels: those asked for, else all where nothing forbids it
    (utils/schemas/config.py, check_auto_enable_lora_kernels)."""
    said = {group: as_bool(config.own.get(key)) for group, key in _KERNELS}
    if any(value is not None for value in said.values()):
        return tuple(group for group, value in said.items() if value)
    eight_bits = config.adapter == "lora" and config.own.flag("load_in_8bit")
    sharded = config.own.get("fsdp_config") is not None and str(fsdp_version(config)) != "2"
    if config.rl or eight_bits or config.own.flag("trust_remote_code") or sharded:
        return ()
    return tuple(said) if config.versions["axolotl"] >= _SINCE_AUTOMATIC else ()


def fsdp_version(config: Config) -> int:
    """FSDP 1 unless something says 2 (utils/schemas/validation.py, check_fsdp_version_in_fsdp_config)."""
    options = config.below("fsdp_config")
    for value in (config.own.get("fsdp_version"), options.get("fsdp_version"), options.get("version")):
        if str(value) in ("1", "2"):
            return int(str(value))
    return 1
