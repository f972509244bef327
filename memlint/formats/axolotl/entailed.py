"""Axolotl: what follows from changes that plans make, read as the changed file is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint.formats.axolotl.config import AxolotlConfig
from memlint.formats.axolotl.experts import packs_experts
from memlint.formats.axolotl.keys import METHOD
from memlint.formats.axolotl.method import read_fused_adapters, trains_adapters
from memlint.formats.axolotl.model import read_dtype_of_rest, read_quantization
from memlint.formats.axolotl.parallel import apply_engine, cast_by_deepspeed, started_fsdp
from memlint.formats.axolotl.training import read_checkpointing, read_offloading, tiles_mlps
from memlint.formats.axolotl.unmodelled import read_linear_experts, read_packed_experts
from memlint.formats.deepspeed.entailed import entailed_by_deepspeed
from memlint.formats.entailed import entailed
from memlint.formats.fields import Fields
from memlint.formats.keys import Keys
from memlint.run import Entailed, Origin

_LORA_ROWS = (row for row in METHOD if row.when is trains_adapters)
_ADAPTERS = Keys(*(row for row in _LORA_ROWS if row.field not in ("method.rank", "method.alpha")))
_LORA = {"adapter": "lora", "load_in_8bit": False}
_QLORA: Mapping[str, Any] = {"adapter": "qlora", "load_in_8bit": False, "load_in_4bit": True}
_EVERY_LINEAR: Mapping[str, Any] = {"lora_target_linear": True, "lora_target_modules": None}


def find_entailed(config: AxolotlConfig, fields: Fields) -> Iterator[Entailed | None]:
    kind, bits = fields.get("method.kind"), getattr(fields.get("model.quantization"), "bits", 16)
    new = kind in ("full", "freeze")
    if new:
        plain = {"method.kind": "lora", "model.quantization.method": "none"}
        yield _adapters(fields, _but(config, **_LORA, **_EVERY_LINEAR), plain)
    if new or (kind == "lora" and bits != 4):
        wanted = {**_QLORA, **(_EVERY_LINEAR if new else {})}
        few_bits = {"method.kind": "lora", "model.quantization.bits": 4}
        yield _adapters(fields, _but(config, **wanted), few_bits)
    if kind == "lora" and bits in (4, 8) and not config.own.flag("quantize_moe_experts"):
        packed = _but(config, quantize_moe_experts=True, lora_target_linear=None)
        yield entailed(fields, {"model.quantization.experts_on_load": True}, lambda tried: _read_packed(tried, packed))
    if not fields.get("checkpointing.offload", False):
        asks = _but(config, activation_offloading="hidden_states")
        given = {"checkpointing.mode": "full", "checkpointing.offload": True}
        yield entailed(fields, given, lambda tried: read_offloading(tried, asks))
    if fields.get("parallelism.engine") in ("single", "ddp"):
        yield from _sharded(fields, config)
    if fields.get("parallelism.engine") == "ddp" and fields.get("planning.starts_fsdp", 0):
        yield from _started_fsdp(fields, config)


def _started_fsdp(fields: Fields, config: AxolotlConfig) -> Iterator[Entailed | None]:
    """4-bit weights under a new section of FSDP."""
    for offloads in (False, True):
        given = {"parallelism.engine": "fsdp", "parallelism.fsdp.cpu_offload": offloads}
        started = _but(config, **started_fsdp(given), **_QLORA)

        def read(tried: Fields, started: AxolotlConfig = started) -> None:
            read_fused_adapters(tried, started)
            _read_weights(tried, started)
            tried.put("parallelism.fsdp.loads_packed_on_host", True, Origin("default"))
            apply_engine(tried, started)

        yield entailed(fields, given, read)


def _read_weights(fields: Fields, config: AxolotlConfig) -> None:
    """The weights in few bits, and what the loader makes of the others."""
    fields.put("precision.embeddings_dtype", "", Origin("default"))
    read_dtype_of_rest(fields, config)
    read_quantization(fields, config)


def _read_packed(fields: Fields, config: AxolotlConfig) -> None:
    """Experts in few bits as well, where the engine leaves their memory known."""
    _read_weights(fields, config)
    read_packed_experts(fields, config)


def _adapters(fields: Fields, config: AxolotlConfig, given: Mapping[str, Any]) -> Entailed | None:
    """Adapters on what the loader makes of the model beside them; DeepSpeed gives all parameters one dtype after."""

    def read(tried: Fields) -> None:
        _ADAPTERS.read(tried, config, config)
        _read_weights(tried, config)
        if tried.get("checkpointing.offload", False):
            read_checkpointing(tried, config)
            read_offloading(tried, config)
        if tried.get("checkpointing.mlp_tiles", 0) and not tiles_mlps(tried, config):
            tried.put("checkpointing.mlp_tiles", 0, Origin("default"))
        if tried.get("parallelism.engine") == "deepspeed":
            tried.values["method.adapter_dtype"] = fields.get("method.adapter_dtype", "float32")
            cast_by_deepspeed(tried)

    return entailed(fields, given, read)


_ONE_DTYPE = (("precision.embeddings_dtype", ""), ("model.quantization.upcast_rest_to_fp32", False))


def _sharded(fields: Fields, config: AxolotlConfig) -> Iterator[Entailed | None]:
    """A DeepSpeed section for a file without one."""
    yield from entailed_by_deepspeed(fields, config.hf, config.architecture)
    if fields.get("precision.compute") != "float32":
        yield Entailed((("parallelism.engine", "deepspeed"),), _ONE_DTYPE)
    packs = config.own.flag("llama4_linearized_experts") or packs_experts(config)
    if not packs or "stack.unmodelled" in fields.values:
        return
    divided = _but(config, deepspeed={"zero_optimization": {}})

    def read(tried: Fields) -> None:
        read_linear_experts(tried, divided)
        read_packed_experts(tried, divided)

    for stage in (2, 3):
        yield entailed(fields, {"parallelism.engine": "deepspeed", "parallelism.zero.stage": stage}, read)


def _but(config: AxolotlConfig, **keys: Any) -> AxolotlConfig:
    """The file with other values of some keys; None takes a key away."""
    own = config.own.but(keys)
    return config._replace(section=own.section, own=own)
