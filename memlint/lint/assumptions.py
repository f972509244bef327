"""What an estimate rests on: each value with the place, default or inference that it came from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memlint.memory.card.interval import may_have_kernels
from memlint.memory.values import Assumption
from memlint.run import UNKNOWN, Origin, Run

_VERSIONS = ("framework_version", "transformers", "trl", "peft", "torch", "deepspeed", "accelerate", "unsloth")

_NO_KERNELS = "default of transformers without flash-linear-attention and mamba_ssm; with them the interval's lower end"
_RELEASE = "stack.unsloth"
_NOT_ASSUMED = ("unknown", "framework")  # no value; what the framework's code does, whatever a config says
_UNSLOTH = (
    "its releases differ, and go by what memory is free: checkpoints on the host or the card, the loss in chunks or "
    "over whole logits, a 4-bit copy with layers in 16 bits are between the interval's ends"
)


def assumptions(run: Run) -> tuple[Assumption, ...]:
    """Every known value that a config could decide, by field; origins as `file:line:column`, or what else said it."""
    return tuple(_assumed(run))


def _assumed(run: Run) -> Iterator[Assumption]:
    for field, origin in sorted(run.origins.items()):
        value = _at(run, field)
        if value is not UNKNOWN and origin.kind not in _NOT_ASSUMED and field != _RELEASE:
            yield Assumption(field, _plain(field, value), told(origin))
    if run.model.architecture and not run.stack.linear_attention and may_have_kernels(run):
        yield Assumption("stack.linear_attention", "torch", _NO_KERNELS)
    if run.stack.use_unsloth:
        said = f"{told(run.origins[_RELEASE])}; " if _RELEASE in run.origins else ""
        yield Assumption(_RELEASE, _dotted(run.stack.unsloth) or "any release", said + _UNSLOTH)


def versions(run: Run) -> tuple[tuple[str, str, str], ...]:
    """Framework versions that somebody stated or a key gave away: package, version, origin."""
    found = []
    for name in _VERSIONS:
        origin = run.origins.get(f"stack.{name}")
        version = getattr(run.stack, name)
        if origin is not None and origin.kind != "default" and version:
            package = run.stack.framework if name == "framework_version" else name
            found.append((package, _dotted(version), _short(origin)))
    return tuple(found)


def told(origin: Origin) -> str:
    """`train.yaml:14:13`, `default of trl 1.16`, `inferred: ...`."""
    if origin.path:
        place = f"{origin.path}:{origin.line}:{origin.column}" if origin.line else origin.path
        return f"{place} ({origin.detail})" if origin.detail else place
    word = "default of" if origin.kind == "default" else origin.kind.replace("_", " ") + (":" if origin.detail else "")
    if origin.detail.startswith(word):  # catalog: Qwen/Qwen2.5-0.5B
        return origin.detail
    return f"{word} {origin.detail}" if origin.detail else word


def _short(origin: Origin) -> str:
    """`requirements.txt:3`; with the reason where a key gave the version away."""
    place = f"{origin.path}:{origin.line}" if origin.path else origin.kind.replace("_", " ")
    return f"{origin.detail}, {place}" if origin.kind == "inferred" else place


def _at(run: Run, field: str) -> Any:
    value: Any = run
    for part in field.split("."):
        value = getattr(value, part, UNKNOWN)
    return value


def _plain(field: str, value: Any) -> Any:
    """Values that are no text, number or list by their names."""
    if field == "model.architecture":
        return getattr(value, "class_name", None)
    if field == "method.extra_models":
        return [model.name for model in value]
    if field == "hardware.gpu":
        return getattr(value, "name", None)
    if field.startswith("stack.") and isinstance(value, tuple):
        return _dotted(value)
    return value if isinstance(value, (str, int, float, bool, list, dict, tuple, type(None))) else str(value)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
