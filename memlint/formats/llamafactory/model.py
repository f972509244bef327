"""LLaMA-Factory: the model, its dtype and its quantisation (src/llamafactory/model/loader.py, patcher.py)."""

from __future__ import annotations

from typing import Any

from memlint.architectures.model import StoredWeights
from memlint.formats.base import named_model
from memlint.formats.fields import STATED_MODEL, Fields
from memlint.formats.keys import FieldChange, Written
from memlint.formats.llamafactory.config import LlamaFactoryConfig, default_origin
from memlint.formats.llamafactory.inference import has_server
from memlint.run import UNKNOWN, Model, Origin, Quantization

# model_utils/quantization.py:107-127: these checkpoints are dequantised while they load.
_DEQUANTIZED = ("mxfp4", "fp8")


def find_model(config: LlamaFactoryConfig) -> LlamaFactoryConfig:
    """`config` with the model's name, its architecture, and the origin of both."""
    name = config.text("model_name_or_path") or config.context.model_name
    if not name:
        is_open = "model_name_or_path" in config.unresolved
        reason = "`model_name_or_path` is an interpolation" if is_open else "no `model_name_or_path`"
        return config._replace(model_origin=Origin("unknown", detail=reason))
    architecture, origin = named_model(config.context, name, config.section.document.path)
    return config._replace(model=name, architecture=architecture, model_origin=origin)


def read_model(fields: Fields, config: LlamaFactoryConfig) -> None:
    """Name, architecture, and dtype of the frozen weights."""
    if config.model:
        written = "model_name_or_path" in config.section.value
        place = config.own.origin("model_name_or_path") if written else STATED_MODEL
        fields.put("model.name", config.model, place)
    else:
        fields.put("model.name", UNKNOWN, config.model_origin)
    architecture = config.architecture
    fields.put("model.architecture", architecture if architecture is not None else UNKNOWN, config.model_origin)
    _weights_dtype(fields, config)


def _weights_dtype(fields: Fields, config: LlamaFactoryConfig) -> None:
    """`torch_dtype="auto"` since 0.9.4 (model/loader.py:154): the checkpoint's dtype; before, the compute dtype, which
    without training is `infer_dtype` (0.9.3 model/patcher.py:99-103 and 144)."""
    asked = "" if config.training or config.own.word("infer_dtype") == "auto" else config.own.word("infer_dtype")
    dtype = compute_dtype(config) or asked
    if not config.since(0, 9, 4) and dtype in ("bfloat16", "float16", "float32"):
        fields.infer("model.weights_dtype", dtype, "LLaMA-Factory < 0.9.4 loads in the compute dtype")
    elif config.architecture is None:
        fields.put("model.weights_dtype", UNKNOWN, config.model_origin)
    else:
        detail = 'torch_dtype="auto": the checkpoint\'s dtype'
        fields.put("model.weights_dtype", config.architecture.dtype, default_origin(config.versions, detail))


def compute_dtype(config: LlamaFactoryConfig) -> str:
    """hparams/parser.py:641: `bf16` or `pure_bf16`, else `fp16`, else "" (the model's own)."""
    if config.hf.flag("bf16") or config.own.flag("pure_bf16"):
        return "bfloat16"
    return "float16" if config.hf.flag("fp16") else ""


def read_quantization(fields: Fields, config: LlamaFactoryConfig) -> None:
    """Priority (model_utils/quantization.py:86): quantised checkpoint, then `quantization_bit`."""
    quantization, origin = _quantization(config, fields)
    fields.put("model.quantization", quantization, origin)


def _quantization(config: LlamaFactoryConfig, fields: Fields) -> tuple[Quantization, Origin]:
    stored: StoredWeights = config.architecture.stored if config.architecture is not None else StoredWeights()
    bits = config.own.integer("quantization_bit")
    origin = config.own.origin("quantization_bit")
    if stored.method not in ("none", ""):
        if bits is not None:
            _ignored(
                fields, config, f"the checkpoint is {stored.method}-quantised already: `quantization_bit` is ignored"
            )
        return _prequantized(stored, has_server(config)), Origin(
            "catalog", detail=f"the checkpoint is stored as {stored.method}"
        )
    if "quantization_bit" in config.unresolved:
        return Quantization(), Origin("unknown", detail="`quantization_bit` is an interpolation")
    if bits is None:
        return Quantization(), origin
    return _on_the_fly(config, fields, bits), origin


def _prequantized(stored: StoredWeights, served: bool = False) -> Quantization:
    """The quantisation that the checkpoint is stored in; of LLaMA-Factory's own loader
    (model_utils/quantization.py:101), not of a server, some methods are dequantised."""
    if stored.method in _DEQUANTIZED and not served:
        return Quantization()
    return Quantization(
        method=stored.method,
        bits=stored.bits,
        kind=stored.kind,
        double_quant=stored.double_quant,
        prequantized=True,
        group_size=stored.group_size,
    )


def _on_the_fly(config: LlamaFactoryConfig, fields: Fields, bits: int) -> Quantization:
    method = config.own.word("quantization_method")
    if method == "bitsandbytes":  # its name up to 0.9.2
        if config.context.versions.get("llamafactory", (0,)) >= (0, 9, 3):
            return Quantization()
        method = "bnb"
    if method == "bnb":
        return bnb(config, bits)
    if method in ("hqq", "eetq"):
        return Quantization(method=method, bits=bits, kind=f"int{bits}")
    _ignored(fields, config, f"`quantization_method: {method}` quantises nothing on load: the model stays unquantised")
    return Quantization()


def bnb(config: LlamaFactoryConfig, bits: int) -> Quantization:
    """BitsAndBytesConfig of model_utils/quantization.py:178-190; the storage dtype is the compute dtype."""
    if bits == 8:
        return Quantization(method="bnb", bits=8, kind="int8")
    if bits != 4:
        return Quantization()  # refused by LLaMA-Factory; the schema or the conflicts say so
    return Quantization(
        method="bnb",
        bits=4,
        kind=config.own.word("quantization_type") or "nf4",
        double_quant=config.own.flag("double_quantization"),
        storage_dtype=compute_dtype(config) or "bfloat16",
    )


def write_quantization(change: FieldChange) -> Written | None:
    """The keys of bitsandbytes. A change of one part of `model.quantization` keeps the other parts."""
    before = change.run.model.quantization
    wanted = change.value
    if change.field != "model.quantization":
        parts = {name: value for name, value in change.changes.items() if name.startswith("model.quantization.")}
        try:
            wanted = before._replace(**{name.rpartition(".")[2]: value for name, value in parts.items()})
        except ValueError:
            return None
    if not isinstance(wanted, Quantization) or before.prequantized:
        return None
    if wanted.method == "none":
        return {"quantization_bit": None, "quantization_method": None}
    return _written_bits(wanted) if _can_quantize(wanted, change) else None


def _can_quantize(wanted: Quantization, change: FieldChange) -> bool:
    """hparams/parser.py:237; ZeRO-3 and FSDP take 4 bits alone (model_utils/quantization.py:199)."""
    kind = change.changes.get("method.kind", change.run.method.kind)
    sharded = change.run.parallelism.zero.stage == 3 or change.run.parallelism.engine == "fsdp"
    bits = (4,) if sharded else (4, 8)
    return kind in ("lora", "oft") and wanted.method == "bnb" and wanted.bits in bits


def _written_bits(wanted: Quantization) -> Written:
    keys: dict[str, Any] = {"quantization_bit": int(wanted.bits), "quantization_method": "bnb"}
    if wanted.bits == 4:
        keys.update({"quantization_type": wanted.kind or "nf4", "double_quantization": wanted.double_quant})
    return keys


def _ignored(fields: Fields, config: LlamaFactoryConfig, message: str) -> None:
    key = "quantization_method" if "quantization_method" in message else "quantization_bit"
    fields.issues.append(config.section.issue("ignored-key", message, key, severity="warning"))


def read_added_tokens(fields: Fields, config: LlamaFactoryConfig) -> None:
    """`add_tokens`, `add_special_tokens` (`new_special_tokens` up to 0.9.2) grow the vocabulary (patcher.py:333)."""
    keys = ("add_tokens", "add_special_tokens", "new_special_tokens")
    written = [key for key in keys if config.words(key)]
    if written:
        count = sum(len(config.words(key)) for key in written)
        fields.put("model.new_special_tokens", count, config.own.origin(written[0]))


def other_model(config: LlamaFactoryConfig, name: str, bits: int | None) -> Model:
    """A reference or reward model, loaded in addition to the trained one (train/trainer_utils.py:123, 177)."""
    found = config.context.find_model(name, config.section.document.path).architecture
    architecture: Any = found or config.architecture or UNKNOWN  # a folder of its own: most hold a trained policy
    stored: StoredWeights = architecture.stored if architecture else StoredWeights()
    dtype: Any = architecture.dtype if architecture else UNKNOWN
    if not config.since(0, 9, 4):
        dtype = compute_dtype(config) or dtype
    if stored.method not in ("none", ""):
        quantization = _prequantized(stored)
    else:
        quantization = bnb(config, bits) if bits in (4, 8) else Quantization()
    return Model(name=name, architecture=architecture, weights_dtype=dtype, quantization=quantization)
