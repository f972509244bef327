"""Dtypes under DeepSpeed: half weights, fp32 master copies, gradients (deepspeed 0.19.8 runtime/engine.py)."""

from __future__ import annotations

from memlint.formats.deepspeed.config import DeepSpeedConfig, dtype_of
from memlint.formats.fields import Fields, as_bool, interpolated
from memlint.formats.training_arguments import Arguments
from memlint.run import Origin

_HALVES = (("bf16", "bfloat16"), ("fp16", "float16"))


def enabled_half(fields: Fields, view: DeepSpeedConfig) -> tuple[str, Origin]:
    """The half-precision dtype that applies, and its origin; "" for fp32.

    Under Hugging Face `auto` follows the training arguments, and a section that is missing is added when they ask for
    half precision (accelerate 1.15 DeepSpeedPlugin.set_mixed_precision).
    """
    for key, dtype in _HALVES:
        enabled = f"{key}.enabled"
        if view.is_auto(enabled) or (view.raw(key) is None and view.arguments is not None):
            if view.arguments is not None and _is_requested(view, key):
                return dtype, view.arguments.origin(key)
        elif view.flag(enabled):
            return dtype, view.origin(enabled)
    return "", view.origin("bf16")


def _is_requested(view: DeepSpeedConfig, key: str) -> bool:
    return view.arguments is not None and _asks_for(view.arguments, key)


def _asks_for(arguments: Arguments, key: str) -> bool:
    """`bf16: auto` becomes `bf16 or bf16_full_eval` (transformers 5.23 integrations/deepspeed.py:172)."""
    return arguments.flag(key) or arguments.flag(f"{key}_full_eval")


def requested_half(arguments: Arguments) -> str:
    """The half-precision dtype of a configuration that leaves it to the training arguments; "" for fp32."""
    return next((dtype for key, dtype in _HALVES if _asks_for(arguments, key)), "")


def apply_precision(fields: Fields, view: DeepSpeedConfig) -> None:
    half, origin = enabled_half(fields, view)
    if not half and _undecided(view):
        _unknown(fields, view)
    elif half:
        _half(fields, half, origin)
    else:
        _single(fields, origin)
    fields.put("precision.outputs_to_fp32", False, Origin("inferred", detail="accelerate wraps no DeepSpeed forward"))
    _autocast(fields, view)
    _master(fields, view, half)
    _gradients(fields, view, half)
    _contradictions(fields, view)


def _undecided(view: DeepSpeedConfig) -> bool:
    """Whether half precision follows training arguments that are not known."""
    if view.arguments is None:
        return any(view.is_auto(f"{key}.enabled") for key, _ in _HALVES)
    follows = (key for key, _ in _HALVES if view.is_auto(f"{key}.enabled") or view.raw(key) is None)
    return any(_is_elsewhere(view.arguments, key) for key in follows)


def _is_elsewhere(arguments: Arguments, key: str) -> bool:
    """Whether a file or a program that is not here says the argument."""
    return interpolated(arguments.section.value.get(key)) or arguments.is_open(key)


def _unknown(fields: Fields, view: DeepSpeedConfig) -> None:
    """A lone file says nothing of the weights, which DeepSpeed casts to what the arguments say."""
    cast = () if view.arguments is None else ("model.weights_dtype", "method.adapter_dtype")
    for name in ("precision.compute", "precision.trainable_dtype", *cast):
        fields.unknown(name, "half precision follows training arguments that are not known")


def _half(fields: Fields, half: str, origin: Origin) -> None:
    """engine.py:2085 casts every floating parameter, adapters included; frozen ones as well."""
    for name in ("precision.compute", "precision.trainable_dtype", "method.adapter_dtype", "model.weights_dtype"):
        fields.put(name, half, origin)
    fields.put("precision.autocast", False, Origin("inferred", detail="DeepSpeed casts the module instead"))


def _single(fields: Fields, origin: Origin) -> None:
    """The engine casts nothing (engine.py:2089): weights that another format loaded in half precision compute in it.

    Under stage 3 zero.Init makes what it loads fp32 (partition_parameters.py:407); transformers enters it unless the
    model is quantised (5.23 modeling_utils.py:3815, `not is_quantized and not _is_ds_init_called`).
    """
    stage_3 = fields.get("parallelism.zero.stage") == 3
    if stage_3 or fields.get("precision.autocast", None) is not False or "precision.compute" not in fields.values:
        fields.put("precision.compute", "float32", origin)
    fields.put("precision.autocast", False, origin)
    if stage_3 and "model.weights_dtype" in fields.values and not _quantized(fields):
        for name in ("model.weights_dtype", "precision.trainable_dtype"):
            fields.infer(name, "float32", "neither bf16 nor fp16: deepspeed.zero.Init makes parameters fp32")


def _quantized(fields: Fields) -> bool:
    whole = fields.get("model.quantization", None)
    return bool(getattr(whole, "method", fields.get("model.quantization.method", "none")) != "none")


def _autocast(fields: Fields, view: DeepSpeedConfig) -> None:
    """`torch_autocast`: parameters keep their dtype and matmuls run in `dtype`."""
    if not view.flag("torch_autocast.enabled"):
        return
    fields.put("precision.autocast", True, view.origin("torch_autocast.enabled"))
    dtype = dtype_of(view.raw("torch_autocast.dtype"))
    if dtype:
        fields.put("precision.compute", dtype, view.origin("torch_autocast.dtype"))


def _master(fields: Fields, view: DeepSpeedConfig, half: str) -> None:
    """ZeRO copies its partition even of fp32 weights (stage_1_and_2.py, single_partition_of_fp32_groups)."""
    sharded = fields.get("parallelism.zero.stage") in (1, 2, 3)
    fields.infer("precision.master_weights", bool(half) or sharded, "DeepSpeed's optimizers hold master weights")
    for key, dtype in _HALVES:
        option = f"{key}.{key}_master_weights_and_grads"
        if half == dtype and view.flag(option):
            fields.put("precision.master_dtype", half, view.origin(option))


def _gradients(fields: Fields, view: DeepSpeedConfig, half: str) -> None:
    """The dtype in which gradients accumulate. Without ZeRO it is the model's dtype; under bf16 in float32 too before
    0.18.5."""
    key = "data_types.grad_accum_dtype"
    dtype = dtype_of(view.raw(key))
    is_mixed = (half, dtype) == ("bfloat16", "float32")
    if is_mixed and () < tuple(fields.get("stack.deepspeed", ())) < (0, 18, 5):
        return
    if dtype and half and dtype != half and fields.get("parallelism.zero.stage") == 0:
        where = "engine._do_optimizer_sanity_check" + (", from deepspeed 0.18.5 on" if is_mixed else "")
        message = f"without ZeRO gradients cannot accumulate in {dtype} under {half} ({where})"
        fields.issues.append(view.section.issue("conflict", message, *view.path(key)))


def _contradictions(fields: Fields, view: DeepSpeedConfig) -> None:
    if all(view.flag(f"{key}.enabled") for key, _ in _HALVES):
        message = "`fp16` and `bf16` cannot both be enabled (runtime/config.py asserts it)"
        fields.issues.append(view.section.issue("conflict", message, "fp16", "enabled"))
    args = view.arguments if view.is_compared else None
    for key, _ in _HALVES:
        enabled = f"{key}.enabled"
        enabled_here = as_bool(view.raw(enabled)) if view.written(enabled) == enabled else None
        if args is None or enabled_here is None or enabled_here == _is_requested(view, key):
            continue
        if _is_elsewhere(args, key):
            continue
        word, requested = str(enabled_here).lower(), str(not enabled_here).lower()
        theirs = f"`{key}: {requested}` in the training arguments"
        message = f"`{key}.enabled: {word}` here and {theirs}: transformers refuses both"
        place = (args.section.document.path, (*args.section.pointer, args.written(key) or key), f"`{key}`: {requested}")
        related = (place,) if args.written(key) else ()
        fields.issues.append(view.section.issue("conflict", message, key, "enabled", related=related))
