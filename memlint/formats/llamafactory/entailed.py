"""LLaMA-Factory: what follows from changes that plans make, read as the changed file is read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from memlint.formats.accelerate.edits import started_fsdp
from memlint.formats.deepspeed.entailed import entailed_by_deepspeed
from memlint.formats.entailed import entailed
from memlint.formats.fields import Fields
from memlint.formats.keys import Keys
from memlint.formats.llamafactory.config import LlamaFactoryConfig
from memlint.formats.llamafactory.keys import OF_ADAPTERS
from memlint.formats.llamafactory.method import freezes, read_llama_pro
from memlint.formats.llamafactory.model import read_quantization
from memlint.formats.llamafactory.parallel import apply_engine
from memlint.formats.llamafactory.precision import read_trainable_dtypes
from memlint.formats.llamafactory.training import FOR_FULL_TRAINING
from memlint.run import Entailed, Method, Origin

_FOLLOWS = Keys(*(row for row in OF_ADAPTERS if row.field not in ("method.rank", "method.alpha", "method.targets")))
_4_BITS = {"quantization_bit": 4, "quantization_method": "bnb", "double_quantization": True}
_NOT_FROZEN = Method()
_LORA = {**dict.fromkeys(FOR_FULL_TRAINING), "finetuning_type": "lora"}


def find_entailed(config: LlamaFactoryConfig, fields: Fields) -> Iterator[Entailed | None]:
    if fields.get("method.kind") in ("full", "freeze"):
        own = config.own.but(_LORA)
        adapted = config._replace(section=own.section, own=own)
        yield entailed(fields, {"method.kind": "lora"}, lambda tried: _read_adapters(tried, adapted))
    if fields.get("method.kind") in ("full", "freeze", "lora") and _bits(fields) != 4:
        own = config.own.but({**_LORA, **_4_BITS})
        quantized = config._replace(section=own.section, own=own)
        given = {"method.kind": "lora", "model.quantization.bits": 4}
        yield entailed(fields, given, lambda tried: read_quantization(tried, quantized))
    if fields.get("parallelism.engine") in ("single", "ddp"):
        # `bf16: true` is written beside a section of DeepSpeed where weights are bfloat16 (edits.py).
        asks = config.hf.but({"bf16": True}) if fields.get("precision.compute") == "bfloat16" else config.hf
        yield from entailed_by_deepspeed(fields, asks, config.architecture)
    if fields.get("parallelism.engine") == "ddp" and fields.get("planning.starts_fsdp", 0):
        yield from _started_fsdp(config, fields)


def _started_fsdp(config: LlamaFactoryConfig, fields: Fields) -> Iterator[Entailed | None]:
    """4-bit weights under an `fsdp` of the config."""
    for offloads in (False, True):
        given = {"parallelism.engine": "fsdp", "parallelism.fsdp.cpu_offload": offloads}
        keys = started_fsdp(fields.get("planning.starts_fsdp"), offloads)
        own = config.own.but(keys)
        started = config._replace(section=own.section, own=own, hf=config.hf.but(keys))
        yield entailed(fields, given, partial(_read_engine, started))


def _read_engine(config: LlamaFactoryConfig, fields: Fields) -> None:
    apply_engine(fields, config)


def _read_adapters(fields: Fields, config: LlamaFactoryConfig) -> None:
    _FOLLOWS.read(fields, config, config)
    left = () if freezes(config) else ("freeze_trainable_layers", "freeze_trainable_modules", "freeze_extra_modules")
    for name in left:
        fields.put(f"method.{name}", getattr(_NOT_FROZEN, name), Origin("default"))
    if config.own.flag("use_llama_pro"):
        read_llama_pro(fields, config)
    if fields.get("parallelism.engine") in ("single", "ddp"):
        read_trainable_dtypes(fields, config)


def _bits(fields: Fields) -> float:
    return getattr(fields.get("model.quantization", None), "bits", 16)
