"""Oumi: what follows from changes that plans make, read as the changed file is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from memlint.formats.entailed_of_file import QUANTIZED, Read, follows
from memlint.formats.fields import Fields
from memlint.formats.oumi.engine import STARTED_FSDP
from memlint.run import Entailed
from memlint.source.document import Document

_ADAPTER: Mapping[str, Any] = {"training.use_peft": True}
_4_BITS: Mapping[str, Any] = {
    "peft.q_lora": True,
    "peft.q_lora_bits": 4,
    "peft.bnb_4bit_quant_type": "nf4",
    "peft.use_bnb_nested_quant": True,
}
_STAGES = (1, 2, 3)


def find_entailed(document: Document, fields: Fields, read: Read) -> Iterator[Entailed | None]:
    """`read`: the fields of a file of Oumi's."""
    kind, bits = fields.get("method.kind"), fields.get("model.quantization.bits", 16)
    lora = {"method.kind": "lora"}
    if kind == "full":
        yield follows(document, fields, read, lora, _ADAPTER)
    if kind in ("full", "lora") and bits != 4:
        yield follows(document, fields, read, {**lora, **QUANTIZED}, {**_ADAPTER, **_4_BITS})
    if fields.get("parallelism.engine") in ("single", "ddp", "deepspeed"):
        yield from (follows(document, fields, read, *one) for one in _sharded())
    if fields.get("parallelism.engine") == "ddp" and fields.get("planning.starts_fsdp", 0):
        yield from (follows(document, fields, read, *one) for one in _started_fsdp(fields))
    if fields.get("checkpointing.mode") == "none":
        recomputes = {"training.enable_gradient_checkpointing": True}
        yield follows(document, fields, read, {"checkpointing.mode": "full"}, recomputes)


def _sharded() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(fields, keys of the file) of each stage of ZeRO, with what may lie in host memory at it."""
    for stage, states, weights in product(_STAGES, ("none", "cpu"), ("none", "cpu")):
        if weights == "cpu" and stage != 3:
            continue
        given = {"parallelism.engine": "deepspeed", "parallelism.zero.stage": stage}
        keys: dict[str, Any] = {"deepspeed.enable_deepspeed": True, "deepspeed.zero_stage": f"ZERO_{stage}"}
        if states == "cpu":
            keys["deepspeed.offload_optimizer.device"] = "CPU"
        if weights == "cpu":
            keys["deepspeed.offload_param.device"] = "CPU"
        yield {**given, "offload.optimizer": states, "offload.parameters": weights}, keys


def _started_fsdp(fields: Fields) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(fields, keys of the file) of FSDP over 4-bit weights, on the cards or in host memory."""
    packs = {} if fields.get("model.quantization.bits", 16) == 4 else {**_ADAPTER, **_4_BITS}
    stored = {**packs, "peft.bnb_4bit_quant_storage": fields.get("precision.compute")}
    for offloads in (False, True):
        given = {"parallelism.engine": "fsdp", "parallelism.fsdp.cpu_offload": offloads}
        yield given, {**stored, **STARTED_FSDP, "fsdp.cpu_offload": offloads}
