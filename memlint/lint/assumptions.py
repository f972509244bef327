"""Lists the assumptions of an estimate: each value with the place, default or inference that it came from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memlint.memory.card.interval import may_have_kernels
from memlint.memory.values import Assumption
from memlint.run import UNKNOWN, Amount, Origin, Run

_VERSIONS = ("framework_version", "transformers", "trl", "peft", "torch", "deepspeed", "accelerate", "unsloth")

_NO_KERNELS_NOTE = (
    "default of transformers without flash-linear-attention and mamba_ssm; with them the interval's lower end"
)
_UNSLOTH_RELEASE = "stack.unsloth"
_NOT_ASSUMED = ("unknown", "framework")  # kinds of origins: there is no value; the framework's code fixes the value
_UNSLOTH_NOTE = (
    "its releases differ, and go by what memory is free: checkpoints on the host or the card, the loss in chunks or "
    "over whole logits, a 4-bit copy with layers in 16 bits are between the interval's ends"
)


def assumptions(run: Run) -> tuple[Assumption, ...]:
    """Every known value that a config could set, ordered by field, each with its origin (see `describe_origin`)."""
    return tuple(_assumed(run))


def _assumed(run: Run) -> Iterator[Assumption]:
    for field, origin in sorted(run.origins.items()):
        value = _field_value(run, field)
        if value is not UNKNOWN and origin.kind not in _NOT_ASSUMED and field != _UNSLOTH_RELEASE:
            yield Assumption(field, _plain_value(field, value), describe_origin(origin))
    if run.model.architecture and not run.stack.linear_attention and may_have_kernels(run):
        yield Assumption("stack.linear_attention", "torch", _NO_KERNELS_NOTE)
    if run.stack.use_unsloth:
        written = f"{describe_origin(run.origins[_UNSLOTH_RELEASE])}; " if _UNSLOTH_RELEASE in run.origins else ""
        yield Assumption(_UNSLOTH_RELEASE, _dotted(run.stack.unsloth) or "any release", written + _UNSLOTH_NOTE)


def versions(run: Run) -> tuple[tuple[str, str, str], ...]:
    """(package, version, origin) of each framework version that was stated, pinned or inferred from a key."""
    found = []
    for name in _VERSIONS:
        origin = run.origins.get(f"stack.{name}")
        version = getattr(run.stack, name)
        if origin is not None and origin.kind != "default" and version:
            package = run.stack.framework if name == "framework_version" else name
            found.append((package, _dotted(version), _version_origin(origin)))
    return tuple(found)


def describe_origin(origin: Origin) -> str:
    """An origin in words: `train.yaml:14:13`, `default of trl 1.16`, `inferred: ...`."""
    if origin.path:
        place = f"{origin.path}:{origin.line}:{origin.column}" if origin.line else origin.path
        return f"{place} ({origin.detail})" if origin.detail else place
    kind = "default of" if origin.kind == "default" else origin.kind.replace("_", " ") + (":" if origin.detail else "")
    if origin.detail.startswith(kind):  # catalog: Qwen/Qwen2.5-0.5B
        return origin.detail
    return f"{kind} {origin.detail}" if origin.detail else kind


def _version_origin(origin: Origin) -> str:
    """The origin of a version: `requirements.txt:3`, with the reason if a key implied it."""
    place = f"{origin.path}:{origin.line}" if origin.path else origin.kind.replace("_", " ")
    return f"{origin.detail}, {place}" if origin.kind == "inferred" else place


def _field_value(run: Run, field: str) -> Any:
    value: Any = run
    for part in field.split("."):
        value = getattr(value, part, UNKNOWN)
    return value


def _plain_value(field: str, value: Any) -> Any:
    """The value in a type that JSON has: the name of an architecture or a GPU, a version as text ("2.4.0")."""
    if field == "model.architecture":
        return getattr(value, "class_name", None)
    if field == "method.extra_models":
        return [model.name for model in value]
    if field == "hardware.gpu":
        return getattr(value, "name", None)
    if isinstance(value, Amount):
        return str(value)
    if field.startswith("stack.") and isinstance(value, tuple):
        return _dotted(value)
    return value if isinstance(value, (str, int, float, bool, list, dict, tuple, type(None))) else str(value)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
