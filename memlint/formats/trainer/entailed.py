"""Trainer files: what follows from changes that plans make, read as the changed file is read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from memlint.formats.accelerate.edits import started_fsdp
from memlint.formats.deepspeed.entailed import entailed_by_deepspeed
from memlint.formats.entailed import entailed
from memlint.formats.fields import Fields
from memlint.formats.keys import Keys
from memlint.formats.trainer.config import TrainerConfig
from memlint.formats.trainer.keys import ADAPTER, QUANTIZATION
from memlint.formats.trainer.method import trains_adapter
from memlint.formats.trainer.model import read_quantization
from memlint.formats.trainer.parallel import apply_engine, companions_of
from memlint.formats.trainer.quantized import apply_preparation, under_zero3
from memlint.run import Entailed, Origin

_OF_PLANS = ("method.rank", "method.alpha", "method.targets")
_FOLLOWS = Keys(*(row for row in ADAPTER if row.when is trains_adapter and row.field not in _OF_PLANS))
_STORED = Keys(*(row for row in QUANTIZATION if row.field == "model.quantization.storage_dtype"))
_4_BITS = {
    "model.quantization.method": "bnb",
    "model.quantization.bits": 4,
    "model.quantization.kind": "nf4",
    "model.quantization.double_quant": True,
}
_PREPARED = ("model.quantization.upcast_rest_to_fp32", "model.quantization.vocabulary_to_bf16")
_UNDER_ZERO3 = {"method.kind": "lora", "parallelism.zero.stage": 3, "checkpointing.mode": "full"}


def find_entailed(config: TrainerConfig, fields: Fields) -> Iterator[Entailed | None]:
    """TRL alone makes adapters of these keys."""
    kind = fields.get("method.kind")
    if config.trl and kind == "full":
        args = config.args.but({"use_peft": True})
        adapted = config._replace(section=args.section, args=args)
        yield entailed(fields, {"method.kind": "lora"}, lambda tried: _FOLLOWS.read(tried, args, adapted))
    if config.trl and kind in ("full", "lora") and fields.get("model.quantization.bits", 16) != 4:
        quantized = config._replace(args=config.args.but({"load_in_4bit": True}))
        yield entailed(fields, {"method.kind": "lora", **_4_BITS}, partial(_read_4_bits, quantized))
    if config.trl and kind in ("full", "lora"):
        yield entailed(fields, _UNDER_ZERO3, lambda tried: under_zero3(tried, config))
    if fields.get("parallelism.engine") in ("single", "ddp"):
        yield from entailed_by_deepspeed(fields, config.args, config.architecture)
        yield _in_one_dtype(fields)
    by_launch_file = 1 if fields.get("planning.fsdp_by_launch_file", "") else 0
    version = fields.get("planning.starts_fsdp", 0) or by_launch_file
    if fields.get("parallelism.engine") == "ddp" and version:
        yield from _started_fsdp(config, fields, version)


def _started_fsdp(config: TrainerConfig, fields: Fields, version: int) -> Iterator[Entailed | None]:
    """4-bit weights under an `fsdp` of the arguments, or of a launch file that says as much."""
    for offloads in (False, True):
        given = {"parallelism.engine": "fsdp", "parallelism.fsdp.cpu_offload": offloads}
        args = config.args.but(started_fsdp(version, offloads))
        yield entailed(fields, given, partial(_read_fsdp, config._replace(section=args.section, args=args)))


def _read_fsdp(config: TrainerConfig, fields: Fields) -> None:
    """The weights are in 4 bits, and stored in the compute dtype, in any plan that shares them so."""
    for name, value in (("bits", 4), ("storage_dtype", fields.get("precision.compute"))):
        fields.put(f"model.quantization.{name}", value, Origin("default"))
    apply_engine(fields, config, companions_of(config.context, config.section.document))
    apply_preparation(fields, config)


def _in_one_dtype(fields: Fields) -> Entailed | None:
    """DeepSpeed gives all parameters one dtype, those that a script's preparation had put in another as well."""
    changes = tuple((name, False) for name in _PREPARED if fields.get(name, False))
    halves = fields.get("precision.compute") in ("bfloat16", "float16")
    return Entailed((("parallelism.engine", "deepspeed"),), changes) if changes and halves else None


def _read_4_bits(config: TrainerConfig, fields: Fields) -> None:
    config = config._replace(section=config.args.section)
    read_quantization(fields, config)
    _STORED.read(fields, config.args, config)
    apply_preparation(fields, config)
