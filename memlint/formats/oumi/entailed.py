"""Oumi: what follows from changes that plans make, read as the changed file is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

from memlint.formats.deepspeed.edits import FOLLOW_DEEPSPEED
from memlint.formats.fields import Fields
from memlint.formats.oumi.engine import STARTED_FSDP
from memlint.formats.section_keys import path_of
from memlint.run import Entailed, Run, get
from memlint.source.document import Document

Read = Callable[[Document], Fields]

_ADAPTER: Mapping[str, Any] = {"training.use_peft": True}
_4_BITS: Mapping[str, Any] = {
    "peft.q_lora": True,
    "peft.q_lora_bits": 4,
    "peft.bnb_4bit_quant_type": "nf4",
    "peft.use_bnb_nested_quant": True,
}
_QUANTIZED: Mapping[str, Any] = {
    "model.quantization.method": "bnb",
    "model.quantization.bits": 4,
    "model.quantization.kind": "nf4",
}
# A plan says these of an adapter by itself.
_OF_PLANS = ("method.rank", "method.alpha", "method.targets", "planning.entails")
_STAGES = (1, 2, 3)
_DEFAULTS = Run("", "")


def find_entailed(document: Document, fields: Fields, read: Read) -> Iterator[Entailed | None]:
    """`read`: the fields of a file of Oumi's."""
    kind, bits = fields.get("method.kind"), fields.get("model.quantization.bits", 16)
    lora = {"method.kind": "lora"}
    if kind == "full":
        yield _follows(document, fields, read, lora, _ADAPTER)
    if kind in ("full", "lora") and bits != 4:
        yield _follows(document, fields, read, {**lora, **_QUANTIZED}, {**_ADAPTER, **_4_BITS})
    if fields.get("parallelism.engine") in ("single", "ddp", "deepspeed"):
        yield from (_follows(document, fields, read, *one) for one in _sharded())
    if fields.get("parallelism.engine") == "ddp" and fields.get("planning.starts_fsdp", 0):
        yield from (_follows(document, fields, read, *one) for one in _started_fsdp(fields))
    if fields.get("checkpointing.mode") == "none":
        recomputes = {"training.enable_gradient_checkpointing": True}
        yield _follows(document, fields, read, {"checkpointing.mode": "full"}, recomputes)


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


def _follows(
    document: Document, fields: Fields, read: Read, given: Mapping[str, Any], keys: Mapping[str, Any]
) -> Entailed | None:
    """What the file with these keys says beside `given`; None where that is nothing new."""
    value = document.value
    for name, new in keys.items():
        value = _with(value, path_of(name), new)
    before, then = fields.values, read(document._replace(value=value)).values
    # What a plan for DeepSpeed says of dtypes by itself counts as changed, too.
    dtypes = FOLLOW_DEEPSPEED if "parallelism.engine" in given else ()
    names = [name for name in dict.fromkeys((*before, *then, *dtypes)) if name not in (*given, *_OF_PLANS)]
    after = {name: then[name] if name in then else get(_DEFAULTS, name) for name in names}
    changes = tuple((name, new) for name, new in after.items() if name in dtypes or before.get(name, ...) != new)
    return Entailed(tuple(given.items()), changes) if changes else None


def _with(value: Any, path: tuple[str, ...], new: Any) -> Any:
    """The mapping with `new` at the path."""
    if not path:
        return new
    given = value if isinstance(value, dict) else {}
    return {**given, path[0]: _with(given.get(path[0]), path[1:], new)}
