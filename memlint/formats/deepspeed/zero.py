"""`zero_optimization` as neutral fields: what the table cannot read by itself (deepspeed 0.19.8 zero/config.py).

Every function here belongs to a row of `keys.py`, or fills what `auto` leaves open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from memlint._record import NamedTuple
from memlint.formats.deepspeed.config import DeepSpeedConfig
from memlint.formats.fields import Fields, Section, as_bool, as_number
from memlint.formats.keys import FieldChange, Written
from memlint.run import Origin

ZERO = "zero_optimization"
STAGE = f"{ZERO}.stage"
DEVICES = ("none", "cpu", "nvme")


class Filled(NamedTuple):
    """The value of `auto`: a formula of the model's hidden size, in words and as a function."""

    formula: str
    elements: Callable[[int], int]


def _square(hidden: int) -> int:
    return hidden * hidden


def _nine_tenths(hidden: int) -> int:
    return int(0.9 * hidden * hidden)


def _ten_rows(hidden: int) -> int:
    return 10 * hidden


# transformers 5.23 integrations/deepspeed.py:186 (trainer_config_finalize) and accelerate 1.15 _prepare_deepspeed. They
# know the keys by their newest name alone.
FILLED: Mapping[str, Filled] = {
    f"{ZERO}.reduce_bucket_size": Filled("hidden_size * hidden_size", _square),
    f"{ZERO}.stage3_prefetch_bucket_size": Filled("int(0.9 * hidden_size * hidden_size)", _nine_tenths),
    f"{ZERO}.stage3_param_persistence_threshold": Filled("10 * hidden_size", _ten_rows),
}


def fill_auto(fields: Fields, view: DeepSpeedConfig) -> None:
    """Element counts of `auto` that follow the model's width."""
    hidden = getattr(view.architecture, "hidden_size", None)
    for name, filled in FILLED.items():
        field = view.keys[name].field
        if view.written(name) != name or not view.is_auto(name):
            continue
        if isinstance(hidden, int) and hidden > 0:
            detail = f"`auto`: {filled.formula} (transformers 5.23 integrations/deepspeed.py)"
            fields.infer(field, filled.elements(hidden), detail)
        else:
            fields.unknown(field, f"`auto` becomes {filled.formula} of a model that is not known")


def stage_of(view: DeepSpeedConfig) -> int | None:
    """The ZeRO stage, None where it cannot be known. `zero_optimization: true` is the old way to say 1."""
    zero = view.raw(ZERO)
    if isinstance(zero, bool):
        return int(zero)
    if view.is_auto(STAGE):
        # accelerate's DeepSpeedPlugin fills 2 (dataclasses.py, ACCELERATE_DEEPSPEED_ZERO_STAGE); pydantic drops "auto"
        return 2 if view.arguments is not None else 0
    if view.raw(STAGE) is None:
        return 0
    stage = view.integer(STAGE)
    return stage if stage in (0, 1, 2, 3) else None


def read_stage(fields: Fields, view: DeepSpeedConfig) -> None:
    stage = stage_of(view)
    if stage is None:
        fields.unknown("parallelism.zero.stage", f"`stage: {view.raw(STAGE)!r}` is no ZeRO stage")
    else:
        key = ZERO if isinstance(view.raw(ZERO), bool) else STAGE
        fields.put("parallelism.zero.stage", stage, view.origin(key))


def read_tensor_parallel(fields: Fields, view: DeepSpeedConfig) -> None:
    """AutoTP divides the linear layers over `autotp_size` GPUs (deepspeed 0.19.8 runtime/tensor_parallel/config.py)."""
    size = view.integer("tensor_parallel.autotp_size")
    if size is not None and size > 1:
        fields.put("parallelism.tensor_parallel_size", size, view.origin("tensor_parallel.autotp_size"))


def read_overlap(fields: Fields, view: DeepSpeedConfig) -> None:
    """`overlap_comm` unset means on at stage 3 only (zero/config.py, overlap_comm_valid)."""
    key = f"{ZERO}.overlap_comm"
    written = as_bool(view.raw(key))
    on = fields.get("parallelism.zero.stage") == 3 if written is None else written
    fields.put("parallelism.zero.overlap_comm", on, view.origin(key))


def _device(view: DeepSpeedConfig, part: str, *deprecated: str) -> tuple[str, str]:
    """The device of a part of the model state, and the key that sets it. `cpu_offload: true` is the deprecated key."""
    key = f"{ZERO}.{part}.device"
    device = view.raw(key)
    if isinstance(device, str) and device in DEVICES:
        return device, key
    found = next((name for name in deprecated if view.flag(f"{ZERO}.{name}")), None)
    return ("none", key) if found is None else ("cpu", f"{ZERO}.{found}")


def read_optimizer_device(fields: Fields, view: DeepSpeedConfig) -> None:
    deprecated = () if view.raw(f"{ZERO}.offload_optimizer") else ("cpu_offload",)
    device, key = _device(view, "offload_optimizer", *deprecated)
    fields.put("offload.optimizer", device, view.origin(key))


def read_parameters_device(fields: Fields, view: DeepSpeedConfig) -> None:
    section = view.raw(f"{ZERO}.offload_param")
    deprecated = ("cpu_offload_param",) if section else ("cpu_offload_params", "cpu_offload_param")
    device, key = _device(view, "offload_param", *deprecated)
    stage = fields.get("parallelism.zero.stage")
    if device != "none" and stage in (0, 1, 2):
        message = f"`offload_param` needs ZeRO stage 3; at stage {stage} parameters stay on the GPU"
        fields.issues.append(view.section.issue("ignored-key", message, *view.path(key), severity="warning"))
        device = "none"
    fields.put("offload.parameters", device, view.origin(key))


def read_optimizer_pinned(fields: Fields, view: DeepSpeedConfig) -> None:
    _pinned(fields, view, "offload.optimizer", f"{ZERO}.offload_optimizer.pin_memory")


def read_parameters_pinned(fields: Fields, view: DeepSpeedConfig) -> None:
    _pinned(fields, view, "offload.parameters", f"{ZERO}.offload_param.pin_memory")


def _pinned(fields: Fields, view: DeepSpeedConfig, part: str, key: str) -> None:
    """Pinned by default since 0.19.5 (pull request 8207); only a part that is offloaded pins anything."""
    fields.put(f"{part}_pinned", fields.get(part) != "none" and view.flag(key), view.origin(key))


def read_ratio(fields: Fields, view: DeepSpeedConfig) -> None:
    key = f"{ZERO}.offload_optimizer.ratio"
    ratio = as_number(view.raw(key))
    if ratio is not None and 0 <= ratio <= 1:
        fields.put("offload.optimizer_ratio", float(ratio), view.origin(key))


def write_optimizer_device(change: FieldChange) -> Written | None:
    return _device_written(change, "offload_optimizer")


def write_parameters_device(change: FieldChange) -> Written | None:
    return _device_written(change, "offload_param")


def _device_written(change: FieldChange, part: str) -> Written | None:
    """A device "none" needs a key only where the file offloads something, with today's keys or those before 0.5."""
    if change.value not in DEVICES:
        return None
    zero = change.section.get(ZERO)
    mentions_device = isinstance(zero, dict) and any(key in zero for key in (part, "cpu_offload", "cpu_offload_params"))
    return {f"{ZERO}.{part}.device": change.value} if change.value != "none" or mentions_device else {}


_SEQUENCES = "seq_parallel_communication_data_type"
_REDUCED_IN = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


def read_sequence_communication(fields: Fields, sections: Iterable[Section]) -> None:
    """Where DeepSpeed itself divides sequences it reduces gradients in fp32 unless one of `sections` says another dtype
    (deepspeed 0.19.8 runtime/engine.py, self.communication_data_type; runtime/constants.py:236)."""
    if fields.get("parallelism.engine", "") != "deepspeed" or fields.get("parallelism.sequence_parallel_size", 1) == 1:
        return
    within = [inner for one in sections for inner in (one, one.below("deepspeed_config"))]
    stated = next((one for one in within if one.value.get(_SEQUENCES) in _REDUCED_IN), None)
    origin = stated.origin(_SEQUENCES) if stated else Origin("default", detail=f"DeepSpeed: {_SEQUENCES}")
    name = stated.value[_SEQUENCES] if stated else "fp32"
    fields.put("parallelism.zero.communication_dtype", _REDUCED_IN[name], origin)
