"""Model, adapter, dtype and attention of an OpenRLHF command."""

from __future__ import annotations

from memlint.formats.base import named_model
from memlint.formats.fields import STATED_MODEL, Fields, as_words
from memlint.formats.openrlhf.config import OpenRLHFConfig
from memlint.run import UNKNOWN, Quantization

_DTYPES = {"bf16": "bfloat16", "fp16": "float16"}
# Releases before 0.8.10 had the switch `--flash_attn`, and computed with eager attention without it.
_NO_SWITCH = (0, 8, 10)
OLD_ATTENTION = "before 0.8.10 attention is eager without `--flash_attn`, since then FlashAttention 2"


def read_model(fields: Fields, config: OpenRLHFConfig) -> None:
    key = "model.model_name_or_path"
    value = config.get(key)
    named = isinstance(value, str) and bool(value)
    name = value if named else config.context.model_name
    if not name:
        reason = config.origin(key).detail if value is UNKNOWN else "the model is not named"
        for field in ("model.name", "model.architecture"):
            fields.unknown(field, reason)
        return
    fields.put("model.name", name, config.origin(key) if named else STATED_MODEL)
    architecture, origin = named_model(config.context, name, config.section.document.path)
    fields.put("model.architecture", UNKNOWN if architecture is None else architecture, origin)


def is_multimodal(config: OpenRLHFConfig) -> bool:
    return bool(getattr(config.architecture, "towers", ()))


def param_dtype(config: OpenRLHFConfig) -> str:
    """`--param_dtype`, bf16 unless said; before 0.9.2 `--bf16` was a switch, and the model is fp32 without it."""
    if config.written("ds.param_dtype") is not None or config.has_sections:
        return _DTYPES.get(config.text("ds.param_dtype"), "")
    if config.flag("bf16"):
        return "bfloat16"
    return "float32" if config.written("flash_attn") is not None else "bfloat16"


def read_dtype(fields: Fields, config: OpenRLHFConfig) -> None:
    """The weights are loaded in the dtype that DeepSpeed computes in (models/actor.py:113)."""
    dtype = param_dtype(config)
    if dtype:
        fields.put("model.weights_dtype", dtype, config.origin("ds.param_dtype"))
    else:
        fields.unknown("model.weights_dtype", "`ds.param_dtype` is neither bf16 nor fp16")


def read_attention(fields: Fields, config: OpenRLHFConfig) -> None:
    """FlashAttention 2 unless said; packed samples need it (cli/train_sft.py:324)."""
    key = "ds.attn_implementation"
    value = config.get(key)
    if packs(config) and "flash_attention" not in str(value):
        fields.infer("attention.implementation", "flash_attention_2", "packed samples run with FlashAttention 2")
    elif value is UNKNOWN:
        fields.unknown("attention.implementation", config.origin(key).detail)
    elif config.flag("flash_attn"):
        fields.put("attention.implementation", "flash_attention_2", config.origin("flash_attn"))
    elif () < config.context.versions.get("openrlhf", ()) < _NO_SWITCH and _leaves_attention_open(config):
        fields.infer("attention.implementation", "eager", f"OpenRLHF {OLD_ATTENTION}")
    else:
        fields.put("attention.implementation", str(value), config.origin(key))


def may_be_eager(config: OpenRLHFConfig) -> bool:
    """Whether an older release computes attention otherwise than a newer one, and nobody says which runs."""
    return "openrlhf" not in config.context.versions and _leaves_attention_open(config)


def _leaves_attention_open(config: OpenRLHFConfig) -> bool:
    told = config.written("ds.attn_implementation") or config.written("ds.param_dtype") or config.flag("flash_attn")
    return not (config.has_sections or told or packs(config))


def packs(config: OpenRLHFConfig) -> bool:
    """Whether samples are joined without padding. A ring and dynamic batches turn it on (cli/train_ppo_ray.py:686)."""
    dynamic = config.trains_with_rewards and config.flag("train.dynamic_batch_enable")
    return config.flag("ds.packing_samples") or dynamic or (config.whole("ds.ring_attn_size") or 1) > 1


def read_packing(fields: Fields, config: OpenRLHFConfig) -> None:
    fields.put("sequence.unpadded", packs(config), config.origin("ds.packing_samples"))


def trains_adapter(config: OpenRLHFConfig) -> bool:
    return bool(config.whole("ds.lora.rank"))


def read_adapter(fields: Fields, config: OpenRLHFConfig) -> None:
    key = "ds.lora.rank"
    rank = config.whole(key)
    if rank is None:
        fields.unknown("method.kind", config.origin(key).detail or f"`{key}` is not known")
        return
    fields.put("method.kind", "lora" if rank else "full", config.origin(key))
    if rank:
        fields.put("method.rank", rank, config.origin(key))


def read_targets(fields: Fields, config: OpenRLHFConfig) -> None:
    value = config.get("ds.lora.target_modules")
    words = as_words(value) if isinstance(value, (str, list)) else ()
    fields.put("method.targets", words or ("all-linear",), config.origin("ds.lora.target_modules"))


def read_quantization(fields: Fields, config: OpenRLHFConfig) -> None:
    """NF4 with a second quantisation (models/actor.py:117)."""
    key = "ds.load_in_4bit"
    if config.flag(key):
        found = Quantization("bnb", 4, "nf4", True)
        for name in ("method", "bits", "kind", "double_quant"):
            fields.put(f"model.quantization.{name}", getattr(found, name), config.origin(key))
