"""Axolotl: the model, its dtype, quantisation and attention (loaders/model.py): how the keys are read and written."""

from __future__ import annotations

import memlint.formats.axolotl.families as families
from memlint.formats.axolotl.config import AxolotlConfig, half_precision, uses_fsdp
from memlint.formats.axolotl.experts import packs_experts
from memlint.formats.base import named_model
from memlint.formats.engine_files import fsdp
from memlint.formats.fields import STATED_MODEL, Fields, as_bool
from memlint.formats.keys import FieldChange, Written
from memlint.run import UNKNOWN, Origin, Quantization

# utils/schemas/enums.py: LEGACY_ATTN_FLAG_TO_IMPL, the most particular first.
ATTENTION_FLAGS = (
    ("xformers_attention", "xformers"),
    ("sage_attention", "sage"),
    ("flex_attention", "flex_attention"),
    ("flash_attention", "flash_attention_2"),
    ("sdp_attention", "sdpa"),
    ("eager_attention", "eager"),
)
# Kernels of one kind keep the same tensors: inputs, output and a row of sums.
_SAME_TENSORS = {
    "flash_attention_4": "flash_attention_2",
    "flash_attention_torch": "flash_attention_2",
    "xformers": "flash_attention_2",
    "kernels-community/flash-attn2": "flash_attention_2",
    "kernels-community/flash-attn3": "flash_attention_3",
    "kernels-community/vllm-flash-attn3": "flash_attention_3",
}
ADAPTERS = ("lora", "qlora")
# Set on the model's config before it is made (0.12.2 loaders/utils.py:188, utils/schemas/deprecated.py:62).
_OVERRIDES = ("overrides_of_model_config", "model_config")
# Entries of a config.json that say how large a model is.
_SIZES = frozenset(
    ("vocab_size", "hidden_size", "intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size")
    + ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "q_lora_rank", "kv_lora_rank")
    + ("num_local_experts", "num_experts", "n_routed_experts", "n_shared_experts", "first_k_dense_replace")
)


def find_model(config: AxolotlConfig) -> AxolotlConfig:
    """`config` with its model's name and architecture, and the origin of the architecture."""
    name = config.text("base_model") or config.context.model_name
    if not name:
        reason = "`base_model` is a placeholder" if "base_model" in config.placeholders else "no `base_model`"
        return config._replace(model_origin=Origin("unknown", detail=reason))
    resized = _resized(config)
    if resized:
        return config._replace(model_origin=Origin("unknown", detail=resized))
    architecture, origin = named_model(config.context, name, config.section.document.path)
    return config._replace(architecture=architecture, model_name=name, model_origin=origin)


def _resized(config: AxolotlConfig) -> str:
    """Which sizes of the model that it names the file overrides, in words; "" where it keeps them."""
    given = (config.section.value.get(name) for name in _OVERRIDES)
    keys = ", ".join(f"`{key}`" for one in given if isinstance(one, dict) for key in one if key in _SIZES)
    return f"the file sets {keys} of the model's config anew" if keys else ""


def read_model(fields: Fields, config: AxolotlConfig) -> None:
    """`base_model`; `--model` or a setting where the file names none."""
    if config.model_name:
        written = bool(config.text("base_model"))
        origin = config.own.origin("base_model") if written else STATED_MODEL
        fields.put("model.name", config.model_name, origin)
    else:
        fields.unknown("model.name", _resized(config) or "the file names no model (`base_model`); give --model")
    architecture = config.architecture
    fields.put("model.architecture", UNKNOWN if architecture is None else architecture, config.model_origin)


def read_dtypes(fields: Fields, config: AxolotlConfig) -> None:
    """One dtype loads and trains (utils/config/__init__.py, resolve_dtype); mixed precision is autocast on top of it.

    Full fine-tuning without a flash kernel leaves embeddings, head and norms in fp32 (loaders/model.py:440,
    _configure_embedding_dtypes: turned back where adapters, FSDP or such a kernel want it; DeepSpeed turns all back).
    """
    dtype, key = loaded(config)
    origin = config.own.origin(key)
    for name in ("model.weights_dtype", "precision.trainable_dtype"):
        fields.put(name, dtype or "float32", origin)
    if not fields.get("precision.autocast"):
        fields.put("precision.compute", dtype or "float32", origin)
    read_dtype_of_rest(fields, config)


def read_dtype_of_rest(fields: Fields, config: AxolotlConfig) -> None:
    """Embeddings, head and norms, where they have a dtype of their own."""
    dtype, _ = loaded(config)
    if dtype and _upcasts_rest(config):
        _after_preparing_for_kbit(fields, config, dtype)
    elif dtype and not (config.adapter or uses_fsdp(config) or _wants_half_embeddings(config)):
        reason = "Axolotl keeps embeddings, head and norms in fp32 where neither adapters nor flash kernels need less"
        fields.infer("precision.embeddings_dtype", "float32", reason)


def loaded(config: AxolotlConfig) -> tuple[str, str]:
    """The dtype that the model is loaded in ("" for fp32), and the key that sets it."""
    dtype, key = half_precision(config.own, config.context, config.versions["torch"])
    for other in ("load_in_8bit", "float16"):
        if not dtype and config.own.flag(other):
            return "float16", other
    return dtype, key


def _upcasts_rest(config: AxolotlConfig) -> bool:
    """Whether peft's prepare_model_for_kbit_training casts all unquantised weights to fp32 (loaders/model.py:1109)."""
    loads_on_host = as_bool(
        fsdp.FsdpOptions(config.section.below("fsdp_config"), {}, "").get("cpu_ram_efficient_loading")
    )
    sharded = uses_fsdp(config) and (config.adapter == "qlora" or loads_on_host)
    without = packs_experts(config) or bool(config.mapping("peft").get("loftq_config"))
    return config.adapter in ADAPTERS and config.quantizes and not (sharded or without)


def _after_preparing_for_kbit(fields: Fields, config: AxolotlConfig, dtype: str) -> None:
    """Axolotl casts embeddings, head and norms back after peft cast them to fp32. `adapter: lora` with `load_in_4bit`
    quantises nothing (loaders/model.py:799), but peft casts its weights to fp32 too."""
    reason = "turned back after prepare_model_for_kbit_training (loaders/model.py:489)"
    fields.infer("precision.embeddings_dtype", dtype, reason)
    if _quantization(config)[0].method == "none":
        reason = "`adapter: lora` quantises nothing in 4 bits, and prepare_model_for_kbit_training makes it fp32"
        fields.infer("model.weights_dtype", "float32", reason)


def _wants_half_embeddings(config: AxolotlConfig) -> bool:
    word, _ = _requested_attention(config)
    return (bool(word) and word not in ("eager", "sdpa")) or uses_cut_cross_entropy(config)


def uses_cut_cross_entropy(config: AxolotlConfig) -> bool:
    """Whether cut cross entropy is the loss, on by default with its plug-in; it reads the head in half precision."""
    return "CutCrossEntropyPlugin" in config.plugins and as_bool(config.own.get("cut_cross_entropy")) is not False


def read_quantization(fields: Fields, config: AxolotlConfig) -> None:
    fields.put("model.quantization", *_quantization(config))


def _quantization(config: AxolotlConfig) -> tuple[Quantization, Origin]:
    """4 bits for `adapter: qlora`, 8 for `adapter: lora` (loaders/model.py, _set_quantization_config)."""
    stored = getattr(config.architecture, "stored", None)
    method = getattr(stored, "method", "none")
    if stored is not None and method != "none" and not dequantizes(config):
        found = Quantization(method, stored.bits, stored.kind, stored.double_quant, "uint8", True, stored.group_size)
        found = found._replace(
            stacked_experts=_has_linear_experts(config), upcast_rest_to_fp32=method == "bnb" and _upcasts_rest(config)
        )
        return found, Origin("catalog", detail=f"the checkpoint is stored as {method}")
    if config.adapter == "qlora" and config.own.flag("load_in_4bit"):
        more = config.mapping("bnb_config_kwargs")
        double = as_bool(more.get("bnb_4bit_use_double_quant"))
        kind = more.get("bnb_4bit_quant_type")
        found = Quantization("bnb", 4, kind if isinstance(kind, str) else "nf4", double is not False, "bfloat16")
        return _with_module_rules(found, config), config.own.origin("load_in_4bit")
    if config.adapter == "lora" and config.own.flag("load_in_8bit"):
        return _with_module_rules(Quantization("bnb", 8, "int8"), config), config.own.origin("load_in_8bit")
    return Quantization(), config.own.origin("load_in_4bit")


def _with_module_rules(found: Quantization, config: AxolotlConfig) -> Quantization:
    experts, rest = _has_linear_experts(config), _upcasts_rest(config)
    packed = packs_experts(config) and not experts
    found = found._replace(stacked_experts=experts, experts_on_load=packed, upcast_rest_to_fp32=rest)
    return found._replace(skipped=_skipped(config, found.bits))


def _skipped(config: AxolotlConfig, bits: float) -> tuple[str, ...]:
    """Modules that are not quantised (loaders/model.py:782-814, _set_quantization_config)."""
    skipped = config.mapping("bnb_config_kwargs").get("llm_int8_skip_modules")
    if bits == 4 and isinstance(skipped, list):
        return tuple(str(name) for name in skipped[:_MOST_SKIPPED])
    own = families.NOT_QUANTIZED.get(config.family)
    return own.modules if own is not None and config.release >= own.since and bits in own.bits else ()


_MOST_SKIPPED = 4096


def _has_linear_experts(config: AxolotlConfig) -> bool:
    """bitsandbytes replaces linear layers alone, which experts are in remote code and in `Linearized` checkpoints."""
    return config.own.flag("trust_remote_code") or "linearized" in config.text("base_model").lower()


def dequantizes(config: AxolotlConfig) -> bool:
    """`model_quantization_config_kwargs: {dequantize: true}` dequantises a quantised checkpoint on load."""
    return bool(as_bool(config.mapping("model_quantization_config_kwargs").get("dequantize")))


def _requested_attention(config: AxolotlConfig) -> tuple[str, str]:
    """The attention implementation in the file and its key; "" where the file sets none."""
    word = config.text("attn_implementation")
    if word:
        return word.split(":")[0].split("@")[0], "attn_implementation"
    key, name = next(((key, name) for key, name in ATTENTION_FLAGS if config.own.flag(key)), ("", ""))
    return name, key


def read_attention(fields: Fields, config: AxolotlConfig) -> None:
    word, key = _requested_attention(config)
    if word:
        fields.put("attention.implementation", _SAME_TENSORS.get(word, word), config.own.origin(key))
    else:
        fields.default("attention.implementation", "sdpa", "transformers: sdpa where the model supports it")


# utils/schemas/config.py: `attn_implementation` since 0.12; flags alone before.
_SINCE_ATTENTION = (0, 12)
_WRITABLE_FLAGS = {
    "eager": "eager_attention",
    "sdpa": "sdp_attention",
    "flash_attention_2": "flash_attention",
    "flex_attention": "flex_attention",
}
_WRITABLE = (*_WRITABLE_FLAGS, "flash_attention_3")


def write_attention(change: FieldChange) -> Written | None:
    """`attn_implementation`, or the flag of an older release. Other flags may not stand beside either."""
    if () < change.run.stack.framework_version < _SINCE_ATTENTION:
        key, value = _WRITABLE_FLAGS.get(change.value, ""), True
    else:
        key, value = "attn_implementation" if change.value in _WRITABLE else "", change.value
    return {key: value, **{flag: None for flag, _ in ATTENTION_FLAGS if flag != key}} if key else None


SHARDS_WITH_FSDP2_SINCE = (0, 20)


def fsdp_version(config: AxolotlConfig) -> int:
    """FSDP 1 unless a key says 2 (utils/schemas/validation.py, check_fsdp_version_in_fsdp_config); from 0.20 on FSDP 2
    alone (0.20.0 utils/schemas/validation.py:1423, check_fsdp_version)."""
    if config.release >= SHARDS_WITH_FSDP2_SINCE:
        return 2
    options = config.mapping("fsdp_config")
    for value in (config.own.get("fsdp_version"), options.get("fsdp_version"), options.get("version")):
        if str(value) in ("1", "2"):
            return int(str(value))
    return 1
