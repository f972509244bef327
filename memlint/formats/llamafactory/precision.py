"""LLaMA-Factory: dtypes of what trains, and mixed precision (model/adapter.py:317-349)."""

from __future__ import annotations

from memlint.formats.fields import Fields
from memlint.formats.keys import FieldChange, Write, Written
from memlint.formats.llamafactory.config import LlamaFactoryConfig
from memlint.formats.llamafactory.model import compute_dtype


def read_precision(fields: Fields, config: LlamaFactoryConfig) -> None:
    """Precision where DeepSpeed, whose engine casts everything itself, takes no part (training_arguments.apply has put
    autocast)."""
    half = compute_dtype(config)
    key = "pure_bf16" if config.own.flag("pure_bf16") else "fp16" if half == "float16" else "bf16"
    dtype = fields.get("model.weights_dtype")
    if half:
        fields.put("precision.compute", half, config.own.origin(key))
    else:
        full = config.tuning == "full" and config.training and upcasts(config)[0]  # not with BAdam
        reason = "no mixed precision: matmuls run in the dtype of the weights"
        fields.infer("precision.compute", "float32" if full else dtype, reason)
    read_trainable_dtypes(fields, config)


def write_pure_bf16(change: FieldChange) -> Written | None:
    """`pure_bf16` on one GPU or DDP; with `bf16: true` beside it autocast would stay. Autocast and the adapters' dtype
    follow from it: alone there is no key for them."""
    if change.field != "precision.trainable_dtype":
        return {} if "precision.trainable_dtype" in change.changes else None
    run = change.run
    alone = run.parallelism.engine in ("single", "ddp")
    if change.value != "bfloat16" or not alone or run.model.weights_dtype != "bfloat16":
        return None
    return {"pure_bf16": True, "bf16": None, "fp16": None}


_HALF = {"bf16": "bfloat16", "fp16": "float16"}


def write_mixed_precision(key: str) -> Write:
    """`bf16: true` or `fp16: true` says the autocast, its dtype and the outputs' dtype at once."""

    def write(change: FieldChange) -> Written | None:
        wanted = change.changes
        mixed = wanted.get("precision.autocast") is True and wanted.get("precision.compute") == _HALF[key]
        return {key: True} if mixed else None

    return write


def upcasts(config: LlamaFactoryConfig, zero_stage: object = 0) -> tuple[bool, str]:
    """Whether trainable parameters become fp32, and the key that prevents it (model/adapter.py:336-349)."""
    for key in ("pure_bf16", "use_badam"):
        if config.own.flag(key):
            return False, key
    if zero_stage == 3 and config.own.integer("quantization_bit") is None:
        return False, "deepspeed"
    return True, ""


def read_trainable_dtypes(fields: Fields, config: LlamaFactoryConfig) -> None:
    """Dtypes of what trains, below no engine."""
    if not config.training:
        return
    upcast, key = upcasts(config)
    if upcast:
        fields.infer("precision.trainable_dtype", "float32", "LLaMA-Factory upcasts trainable parameters")
    else:
        fields.put("precision.trainable_dtype", fields.get("model.weights_dtype"), config.own.origin(key))
    if config.tuning in ("lora", "oft"):
        # peft 0.18 get_peft_model(autocast_adapter_dtype=True): adapters are fp32 even with `pure_bf16`.
        fields.infer("method.adapter_dtype", "float32", "PEFT makes half-precision adapters fp32")


def read_fp8(fields: Fields, config: LlamaFactoryConfig) -> None:
    if not config.own.flag("fp8"):
        return
    backend = config.own.word("fp8_backend")
    engine = {"te": "te", "msamp": "msamp", "auto": "torchao", "torchao": "torchao"}.get(backend, "torchao")
    fields.put("precision.fp8", engine, config.own.origin("fp8"))
