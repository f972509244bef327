"""Axolotl: the model, its dtype, quantisation and attention, and what of it trains (loaders/model.py, adapter.py)."""

from __future__ import annotations

import re
import warnings
from typing import Any

import memlint.formats.axolotl.families as families
from memlint.formats.axolotl.config import Config, default_origin, half, is_sharded
from memlint.formats.axolotl.experts import packs_experts
from memlint.formats.base import named_model
from memlint.formats.engine_files import fsdp
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
    architecture, origin = named_model(config.context, name, config.section.document.path)
    return config._replace(architecture=architecture), origin, name


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

    Full fine-tuning without a flash kernel leaves embeddings, head and norms in fp32 (loaders/model.py:440,
    _configure_embedding_dtypes: turned back where adapters, FSDP or such a kernel want it; DeepSpeed turns all back).
    """
    dtype, key = _loaded(config)
    origin = config.own.origin(key)
    for name in ("model.weights_dtype", "precision.trainable_dtype"):
        fields.put(name, dtype or "float32", origin)
    if not fields.get("precision.autocast"):
        fields.put("precision.compute", dtype or "float32", origin)
    if config.own.flag("fp8"):
        fields.put("precision.fp8", "torchao", config.own.origin("fp8"))
    if dtype and _upcasts_rest(config):
        _after_kbit(fields, config, dtype)
    elif dtype and not (config.adapter or is_sharded(config) or _wants_half_embeddings(config)):
        reason = "Axolotl keeps embeddings, head and norms in fp32 where neither adapters nor flash kernels need less"
        fields.infer("precision.embeddings_dtype", "float32", reason)


def _loaded(config: Config) -> tuple[str, str]:
    """The dtype that the model is loaded in ("" for fp32), and the key that says so."""
    dtype, key = half(config.own, config.context, config.versions["torch"])
    for other in ("load_in_8bit", "float16"):
        if not dtype and config.own.flag(other):
            return "float16", other
    return dtype, key


def _upcasts_rest(config: Config) -> bool:
    """Whether peft's prepare_model_for_kbit_training makes all that is not quantised fp32 (loaders/model.py:1109)."""
    loads_on_host = as_bool(fsdp.Options(config.section.below("fsdp_config"), {}, "").get("cpu_ram_efficient_loading"))
    sharded = is_sharded(config) and (config.adapter == "qlora" or loads_on_host)
    without = packs_experts(config) or bool(config.below("peft").get("loftq_config"))
    return config.adapter in _ADAPTERS and config.quantizes and not (sharded or without)


def _after_kbit(fields: Fields, config: Config, dtype: str) -> None:
    """What peft made fp32, Axolotl turns back for embeddings, head and norms. `adapter: lora` with `load_in_4bit`
    quantises nothing (loaders/model.py:799) and is made fp32 all the same."""
    reason = "turned back after prepare_model_for_kbit_training (loaders/model.py:489)"
    fields.infer("precision.embeddings_dtype", dtype, reason)
    if _quantization(config)[0].method == "none":
        reason = "`adapter: lora` quantises nothing in 4 bits, and prepare_model_for_kbit_training makes it fp32"
        fields.infer("model.weights_dtype", "float32", reason)


def _wants_half_embeddings(config: Config) -> bool:
    word, _ = _asked_attention(config)
    return (bool(word) and word not in ("eager", "sdpa")) or cuts(config)


def cuts(config: Config) -> bool:
    """Whether cut cross entropy is the loss, on by default with its plug-in; it reads the head in half precision."""
    return "CutCrossEntropyPlugin" in config.plugins and as_bool(config.own.get("cut_cross_entropy")) is not False


def _quantization(config: Config) -> tuple[Quantization, Origin]:
    """4 bits for `adapter: qlora`, 8 for `adapter: lora` (loaders/model.py, _set_quantization_config)."""
    stored = getattr(config.architecture, "stored", None)
    method = getattr(stored, "method", "none")
    if stored is not None and method != "none" and not dequantizes(config):
        found = Quantization(method, stored.bits, stored.kind, stored.double_quant, "uint8", True, stored.group_size)
        found = found._replace(
            stacked_experts=_holds_linears(config), upcast_rest_to_fp32=method == "bnb" and _upcasts_rest(config)
        )
        return found, Origin("catalog", detail=f"the checkpoint is stored as {method}")
    if config.adapter == "qlora" and config.own.flag("load_in_4bit"):
        more = config.below("bnb_config_kwargs")
        double = as_bool(more.get("bnb_4bit_use_double_quant"))
        kind = more.get("bnb_4bit_quant_type")
        found = Quantization("bnb", 4, kind if isinstance(kind, str) else "nf4", double is not False, "bfloat16")
        return _prepared(found, config), config.own.origin("load_in_4bit")
    if config.adapter == "lora" and config.own.flag("load_in_8bit"):
        return _prepared(Quantization("bnb", 8, "int8"), config), config.own.origin("load_in_8bit")
    return Quantization(), config.own.origin("load_in_4bit")


def _prepared(found: Quantization, config: Config) -> Quantization:
    experts, rest = _holds_linears(config), _upcasts_rest(config)
    packed = packs_experts(config) and not experts
    found = found._replace(stacked_experts=experts, experts_on_load=packed, upcast_rest_to_fp32=rest)
    return found._replace(skipped=_skipped(config, found.bits))


def _skipped(config: Config, bits: float) -> tuple[str, ...]:
    """Modules that are left as they are (loaders/model.py:782-814, _set_quantization_config)."""
    said = config.below("bnb_config_kwargs").get("llm_int8_skip_modules")
    if bits == 4 and isinstance(said, list):
        return tuple(str(name) for name in said[:_MOST_SKIPPED])
    own = families.NOT_QUANTIZED.get(config.family)
    return own.modules if own is not None and config.release >= own.since and bits in own.bits else ()


_MOST_SKIPPED = 4096


def _holds_linears(config: Config) -> bool:
    """bitsandbytes replaces linear layers alone, which experts are in remote code and in `Linearized` checkpoints."""
    return config.own.flag("trust_remote_code") or "linearized" in config.text("base_model").lower()


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
    else:
        fields.default("attention.implementation", "sdpa", "transformers: sdpa where the model supports it")


def apply_method(fields: Fields, config: Config) -> None:
    for part in ("freeze_vision_tower", "freeze_multi_modal_projector"):
        config.put(fields, f"method.{part}", "freeze_mm_modules", config.own.flag("freeze_mm_modules"))
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


def _lora(fields: Fields, config: Config) -> None:
    config.put(fields, "method.kind", "adapter", "lora")
    for field, key in (("rank", "lora_r"), ("alpha", "lora_alpha")):
        config.put(fields, f"method.{field}", key, config.whole(key, 0))
    if not config.own.written("lora_r") and "lora_r" not in config.held:
        named = config.own.get("lora_model_dir")
        reason = "the adapter that is loaded says it" if named else "the file gives no `lora_r`"
        fields.unknown("method.rank", reason)
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
    _adapter_dtype(fields, config)
    fused = _fused(config)
    fields.put("method.fused_adapters", fused, default_origin(config, "LoRA kernels are on where they can be"))


_CASTS_QLORA = (0, 24)  # trl turns adapters over 4 bits into bf16


def _adapter_dtype(fields: Fields, config: Config) -> None:
    """peft makes adapters fp32. Of reinforcement learning, TRL wraps the model itself (core/builders/rl.py:289) and
    makes QLoRA's bf16; under FSDP Axolotl makes all one dtype (:331)."""
    half_adapters = as_bool(config.own.get("peft_autocast_adapter_dtype")) is False
    by_trl = config.rl in ("dpo", "ipo", "kto") and config.own.flag("load_in_4bit") and config.adapter == "qlora"
    half_adapters |= by_trl and config.versions["trl"] >= _CASTS_QLORA
    half_adapters |= bool(config.rl) and is_sharded(config)
    dtype = (_loaded(config)[0] or "float32") if half_adapters else "float32"
    config.put(fields, "method.adapter_dtype", "peft_autocast_adapter_dtype", dtype)


def _targets(fields: Fields, config: Config) -> None:
    """`lora_target_linear` adds every linear layer; one string is a pattern over whole names (peft's re.fullmatch)."""
    if config.own.flag("lora_target_linear"):
        fields.put("method.targets", _every_linear(config), config.own.origin("lora_target_linear"))
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


def _every_linear(config: Config) -> tuple[str, ...]:
    """The last names of nn.Linear modules (loaders/adapter.py:51, find_all_linear_names), the file's own with them,
    towers' among them. Experts in one tensor, since transformers 5, are no such module."""
    kinds = getattr(config.architecture, "layer_types", ())
    if config.versions["transformers"] < (5,) or not kinds:
        return ("all-linear",)
    groups = [kind.weights for kind in kinds]
    for tower in getattr(config.architecture, "towers", ()):
        groups += [tower.weights, tower.layer_weights, tower.projector_weights]
    linears = (weight.name for group in groups for weight in group if weight.kind == "linear")
    names = {name.split(".")[-2] for name in linears if name.endswith(".weight") and "." in name[: -len(".weight")]}
    return tuple(sorted(names | set(as_words(config.own.get("lora_target_modules"))))) or ("all-linear",)


# A pattern that cannot take long: no group is repeated, and few things are.
_QUANTIFIERS = 3
# Idefics and SmolVLM call it `text_model` (models/smolvlm/modeling_smolvlm.py:445).
_STACKS = ("model.layers", "model.language_model.layers", "language_model.model.layers", "model.text_model.layers")


def _matching(pattern: str, architecture: Any) -> tuple[str, ...] | None:
    """The modules of decoder layers whose whole name the pattern matches; None where nobody can say, or where layers
    that have the same modules are not matched alike."""
    kinds = getattr(architecture, "layer_types", ())
    compiled = bounded_pattern(pattern)
    if compiled is None or not kinds:
        return None
    modules = [tuple(sorted({weight.name.rpartition(".")[0] for weight in kind.weights})) for kind in kinds]
    layers = {
        index: modules[architecture.layer_type_ids[index]] for index in _asked(pattern, architecture.layer_type_ids)
    }
    matched = {index: _named(compiled, names, index) for index, names in layers.items()}
    found = frozenset(name for names in matched.values() for name in names)
    alike = all(found.intersection(names) == set(matched[index]) for index, names in layers.items())
    return tuple(sorted(found)) if found and alike else None


# With so few, every layer is asked; with more, which may take their time, the first and the last of each kind.
_CHEAP = 2


def _asked(pattern: str, kinds: tuple[int, ...]) -> list[int]:
    if _repeats(pattern) <= _CHEAP:
        return list(range(len(kinds)))
    first = {kind: index for index, kind in reversed(tuple(enumerate(kinds)))}
    last = {kind: index for index, kind in enumerate(kinds)}
    return sorted({*first.values(), *last.values()})


def _repeats(pattern: str) -> int:
    return sum(pattern.count(sign) for sign in "*+{")


def _named(compiled: re.Pattern[str], names: tuple[str, ...], layer: int) -> tuple[str, ...]:
    return tuple(name for name in names if any(compiled.fullmatch(f"{stack}.{layer}.{name}") for stack in _STACKS))


def bounded_pattern(pattern: str) -> re.Pattern[str] | None:
    """The pattern compiled; None for one that is wrong, or may take long on some name."""
    if len(pattern) > 400 or _repeats(pattern) > _QUANTIFIERS or re.search(r"\)[*+{]", pattern):
        return None
    try:
        with warnings.catch_warnings():  # "Possible nested set": re's word to programmers
            warnings.simplefilter("ignore")
            return re.compile(pattern)
    except re.error:
        return None


_ROWS = re.compile(r"\[\d*:?\d*\]$")


def _unfrozen(fields: Fields, config: Config) -> None:
    """`unfrozen_parameters`: patterns from the start of parameters' names, whose dots are dots; rows of a range train
    with their whole table (utils/freeze.py, LayerNamePattern)."""
    value = config.own.get("unfrozen_parameters")
    words = [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
    called = [_as_called_now(word, config) for word in words]
    patterns = tuple("^" + re.sub(r"\.(?!\+)", r"\\.", _ROWS.sub("", word)).lstrip("^") for word in called)
    if not patterns or any(bounded_pattern(pattern) is None for pattern in patterns):
        fields.unknown("method.kind", "`unfrozen_parameters` has a pattern that is not evaluated")
        return
    strange = next((word for word, text in zip(words, patterns) if not _names_one(text, config.architecture)), None)
    if strange is not None:
        before = families.MLP_CALLED_BEFORE.get(config.family, "")
        renamed = f" (transformers 5 calls `{before}` `mlp`)" if before and before in strange else ""
        fields.unknown("method.kind", f"`{strange[:60]}` names no parameter that is known here{renamed}")
        return
    config.put(fields, "method.kind", "unfrozen_parameters", "freeze")
    config.put(fields, "method.trainable_patterns", "unfrozen_parameters", patterns)


def _as_called_now(word: str, config: Config) -> str:
    """A pattern of names that this run's transformers gives, in those of today."""
    before = families.MLP_CALLED_BEFORE.get(config.family)
    return word.replace(before, "mlp") if before and config.versions["transformers"] < (5,) else word


def _names_one(text: str, architecture: Any) -> bool:
    """Whether a pattern matches a parameter, by the names that decoders of today have."""
    compiled = bounded_pattern(text)
    kinds = getattr(architecture, "layer_types", ())
    if compiled is None or not kinds:
        return True
    inside = (
        f"{at}.{weight.name}" for at, kind in enumerate(architecture.layer_type_ids) for weight in kinds[kind].weights
    )
    outside = (weight.name for weight in architecture.non_layer_weights)
    return any(map(compiled.search, (*outside, *(f"{architecture.stack}.{name}" for name in inside))))


_KERNELS = (("qkv", "lora_qkv_kernel"), ("o", "lora_o_kernel"), ("mlp", "lora_mlp_kernel"))
_SINCE_AUTOMATIC = (0, 9, 1)
_GROUPED_MM = (2, 9)  # torch; mixtures are left out before


def _fused(config: Config) -> tuple[str, ...]:
    """Groups of projections that run Axolotl's LoRA kernels: those asked for, else all where nothing forbids it
    (utils/schemas/config.py:1976, check_auto_enable_lora_kernels)."""
    said = {group: as_bool(config.own.get(key)) for group, key in _KERNELS}
    if config.family in families.WITHOUT_LORA_KERNELS:
        return ()
    if any(value is not None for value in said.values()) or config.own.written("lora_embedding_kernel"):
        return tuple(group for group, value in said.items() if value)
    return () if config.release < _SINCE_AUTOMATIC or _is_left_out(config) else tuple(said)


def _is_left_out(config: Config) -> bool:
    """FSDP counts as version 2 where `fsdp_version` itself says so: the validator runs before the one that copies
    `fsdp_config.fsdp_version` there (pydantic runs a subclass's first)."""
    eight_bits = config.adapter == "lora" and config.own.flag("load_in_8bit")
    sharded = config.own.get("fsdp_config") is not None and str(config.own.get("fsdp_version")) != "2"
    without = eight_bits or config.own.flag("trust_remote_code") or config.own.flag("nvfp4_merge_aware")
    return bool(config.rl) or without or sharded or (config.has_experts and config.versions["torch"] < _GROUPED_MM)


def fsdp_version(config: Config) -> int:
    """FSDP 1 unless something says 2 (utils/schemas/validation.py, check_fsdp_version_in_fsdp_config)."""
    options = config.below("fsdp_config")
    for value in (config.own.get("fsdp_version"), options.get("fsdp_version"), options.get("version")):
        if str(value) in ("1", "2"):
            return int(str(value))
    return 1
