"""LLaMA-Factory: the model, its dtype and its quantisation (src/llamafactory/model/loader.py, patcher.py)."""

from __future__ import annotations

from typing import Any

from memlint.architectures.model import StoredWeights
from memlint.formats.base import named_model
from memlint.formats.fields import Fields
from memlint.formats.llamafactory.config import Config, default_origin
from memlint.run import UNKNOWN, Model, Origin, Quantization

# model_utils/quantization.py:107-127: these checkpoints are dequantised while they load.
_DEQUANTIZED = ("mxfp4", "fp8")


def find_model(config: Config) -> tuple[Config, Origin, str]:
    """`config` with its architecture, where that came from, and the model's name ("" when nobody says it)."""
    name = config.text("model_name_or_path") or config.context.model_name
    if not name or "model_name_or_path" in config.held:
        reason = "`model_name_or_path` is an interpolation" if name else "no `model_name_or_path`"
        return config, Origin("unknown", detail=reason), ""
    architecture, origin = named_model(config.context, name, config.section.document.path)
    return config._replace(architecture=architecture), origin, name


def apply_model(fields: Fields, config: Config, origin: Origin, name: str) -> None:
    """Name, architecture, dtype of the frozen weights, quantisation, added tokens."""
    if name:
        written = "model_name_or_path" in config.section.value
        fields.put("model.name", name, config.own.origin("model_name_or_path") if written else Origin("setting"))
    else:
        fields.put("model.name", UNKNOWN, origin)
    architecture = config.architecture
    fields.put("model.architecture", architecture if architecture is not None else UNKNOWN, origin)
    quantization, place = quantization_of(config, fields)
    fields.put("model.quantization", quantization, place)
    _weights_dtype(fields, config, origin)
    config.put(fields, "model.from_scratch", "train_from_scratch", config.own.flag("train_from_scratch"))
    _tokens(fields, config)


def _weights_dtype(fields: Fields, config: Config, origin: Origin) -> None:
    """`torch_dtype="auto"` since 0.9.4 (model/loader.py:154): the checkpoint's dtype; before, the compute dtype."""
    if not config.since(0, 9, 4) and compute_dtype(config):
        fields.infer("model.weights_dtype", compute_dtype(config), "LLaMA-Factory < 0.9.4 loads in the compute dtype")
    elif config.architecture is None:
        fields.put("model.weights_dtype", UNKNOWN, origin)
    else:
        detail = 'torch_dtype="auto": the checkpoint\'s dtype'
        fields.put("model.weights_dtype", config.architecture.dtype, default_origin(config.versions, detail))


def compute_dtype(config: Config) -> str:
    """hparams/parser.py:641: `bf16` or `pure_bf16`, else `fp16`, else "" (the model's own)."""
    if config.hf.flag("bf16") or config.own.flag("pure_bf16"):
        return "bfloat16"
    return "float16" if config.hf.flag("fp16") else ""


def quantization_of(config: Config, fields: Fields) -> tuple[Quantization, Origin]:
    """Priority (model_utils/quantization.py:86): quantised checkpoint, then `quantization_bit`."""
    stored: StoredWeights = config.architecture.stored if config.architecture is not None else StoredWeights()
    bits = config.own.integer("quantization_bit")
    origin = config.own.origin("quantization_bit")
    if stored.method not in ("none", ""):
        if bits is not None:
            _ignored(
                fields, config, f"the checkpoint is {stored.method}-quantised already: `quantization_bit` is ignored"
            )
        return _prequantized(stored), Origin("catalog", detail=f"the checkpoint is stored as {stored.method}")
    if "quantization_bit" in config.held:
        return Quantization(), Origin("unknown", detail="`quantization_bit` is an interpolation")
    if bits is None:
        return Quantization(), origin
    return _on_the_fly(config, fields, bits), origin


def _prequantized(stored: StoredWeights) -> Quantization:
    if stored.method in _DEQUANTIZED:
        return Quantization()
    return Quantization(
        method=stored.method,
        bits=stored.bits,
        kind=stored.kind,
        double_quant=stored.double_quant,
        prequantized=True,
        group_size=stored.group_size,
    )


def _on_the_fly(config: Config, fields: Fields, bits: int) -> Quantization:
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


def bnb(config: Config, bits: int) -> Quantization:
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


def _ignored(fields: Fields, config: Config, message: str) -> None:
    key = "quantization_method" if "quantization_method" in message else "quantization_bit"
    fields.issues.append(config.section.issue("ignored-key", message, key, severity="warning"))


def _tokens(fields: Fields, config: Config) -> None:
    """`add_tokens`, `add_special_tokens` (`new_special_tokens` up to 0.9.2) grow the vocabulary (patcher.py:333)."""
    keys = ("add_tokens", "add_special_tokens", "new_special_tokens")
    written = [key for key in keys if config.words(key)]
    if written:
        count = sum(len(config.words(key)) for key in written)
        fields.put("model.new_special_tokens", count, config.own.origin(written[0]))


def other_model(config: Config, name: str, bits: int | None) -> Model:
    """A reference or reward model that stands beside the trained one (train/trainer_utils.py:123, 177)."""
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
