"""How a checkpoint stores its weights: its dtype, and its quantisation where it has one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.architectures.model import StoredWeights

_PACKED = ("mxfp4", "fp8", "modelopt", "compressed-tensors")
HALF = {"bfloat16": "bfloat16", "float16": "float16", "float32": "float32", "half": "float16", "float": "float32"}


def weights_dtype(config: Mapping[str, Any]) -> str:
    """`dtype` (transformers 5) or `torch_dtype` of a config; float32 where it says nothing, as torch would.

    Of a packed checkpoint that says nothing, the dtype of its first tensor that is not packed, the embedding
    (transformers 5.23 modeling_utils.py:258, get_state_dict_dtype): bfloat16 in all that are known. Packed experts are
    unpacked to it as well (integrations/mxfp4.py:288).
    """
    for holder in (config, config.get("text_config"), config.get("llm_config"), config.get("thinker_config")):
        if isinstance(holder, Mapping):
            for key in ("dtype", "torch_dtype"):
                value = holder.get(key)
                if isinstance(value, str):
                    return HALF.get(value.replace("torch.", ""), "bfloat16")
    quantization = config.get("quantization_config")
    packed = isinstance(quantization, Mapping) and quantization.get("quant_method") in _PACKED
    return "bfloat16" if packed else "float32"


def stored_weights(config: Mapping[str, Any]) -> StoredWeights:
    """The checkpoint's `quantization_config`, as bits per weight."""
    facts = config.get("quantization_config")
    if not isinstance(facts, Mapping) or not facts:
        return StoredWeights()
    method = facts.get("quant_method")
    if method in ("bitsandbytes", None) and (facts.get("load_in_4bit") or facts.get("load_in_8bit")):
        return _bitsandbytes(facts)
    reader = {"gptq": _grouped, "awq": _grouped, "fp8": _fp8, "mxfp4": _mxfp4}.get(str(method))
    return reader(facts) if reader else StoredWeights(str(method), float(_size(facts.get("bits"), 8)))


def _bitsandbytes(facts: Mapping[str, Any]) -> StoredWeights:
    skipped = facts.get("llm_int8_skip_modules")
    names = tuple(str(name) for name in skipped[:4096]) if isinstance(skipped, (list, tuple)) else ()
    if facts.get("load_in_8bit"):
        return StoredWeights("bnb", 8, "int8", skipped=names)
    kind = facts.get("bnb_4bit_quant_type")
    return StoredWeights(
        "bnb",
        4,
        kind if kind in ("nf4", "fp4") else "fp4",
        64,
        bool(facts.get("bnb_4bit_use_double_quant")),
        names,
    )


def _grouped(facts: Mapping[str, Any]) -> StoredWeights:
    method = str(facts.get("quant_method"))
    bits, group = _size(facts.get("bits"), 4), _size(facts.get("group_size"), 128)
    return StoredWeights(method, float(bits), f"int{bits}", group)


def _fp8(facts: Mapping[str, Any]) -> StoredWeights:
    block = facts.get("weight_block_size")
    group = _size(block[0], 0) if isinstance(block, (list, tuple)) and block else 0
    return StoredWeights("fp8", 8, "float8_e4m3", group)


def _mxfp4(facts: Mapping[str, Any]) -> StoredWeights:
    """OCP microscaling FP4: 4 bits a weight and an 8-bit scale for 32 of them."""
    skipped = facts.get("modules_to_not_convert")
    names = tuple(str(name) for name in skipped[:4096]) if isinstance(skipped, (list, tuple)) else ()
    return StoredWeights("mxfp4", 4.25, "e2m1", 32, skipped=names)


def _size(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 20 else otherwise
