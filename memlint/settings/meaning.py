"""What a schema cannot see in settings: names of rules and cards, versions, sizes, dates, patterns, paths."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Any

from memlint.hardware import find, instance, suggestions
from memlint.rule_selectors import is_selector
from memlint.settings.model import Layer, Mistake, mistake
from memlint.source.document import Path
from memlint.suppressions.dates import is_date

_VERSION = r"[0-9]{1,6}(?:\.[0-9]{1,6}){0,5}"
_SIZE = r"([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([KMGTP]i?)?B?"
_EXPONENTS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}

# What a value of a key has to be: a function that says what is wrong with it.
_Check = Callable[[Layer, str], str]


def version(text: str) -> tuple[int, ...]:
    """ "4.57" as (4, 57)."""
    return tuple(map(int, text.split(".")))


def is_version(text: str) -> bool:
    return bool(re.fullmatch(_VERSION, text))


def size(value: str | int) -> int | None:
    """Bytes of 512, "512GiB" (1024-based) or "512 GB" (1000-based); None where it is no size."""
    if isinstance(value, int):
        return value
    match = re.fullmatch(_SIZE, value.strip(), re.IGNORECASE)
    if match is None:
        return None
    unit = (match[2] or "").lower()
    base = 1024 if unit.endswith("i") else 1000
    return int(float(match[1]) * base ** _EXPONENTS[unit[:1]])


_LEAST_HOST = 1 << 28  # a bare 512 is meant as GiB and means bytes


def strings(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def mistakes_of(layer: Layer) -> list[Mistake]:
    """The mistakes of a file that fits the schema."""
    value = layer.document.value or {}
    sections: list[tuple[Path, Any]] = [((), value)]
    sections += [(("overrides", index), part) for index, part in enumerate(value.get("overrides", ()))]
    for index, part in enumerate(value.get("suppressions", {}).get("files", ())):
        sections.append((("suppressions", "files", index), part))
    return [
        mistake(layer.document, (*path, *pointer), wrong, on_key)
        for path, part in sections
        for pointer, wrong, on_key in _wrong(layer, part)
    ]


def _wrong(layer: Layer, part: dict[str, Any]) -> Iterator[tuple[Path, str, bool]]:
    """(pointer, message, at the key) for each mistake in one section."""
    for key, value in part.items():
        check = _CHECKS.get(key)
        if key in ("severity", "versions", "budgets"):
            yield from _wrong_entries(key, value)
        elif check and isinstance(value, list):
            found = ((index, check(layer, item)) for index, item in enumerate(value))
            yield from (((key, index), wrong, False) for index, wrong in found if wrong)
        elif check and (wrong := check(layer, value)):
            yield (key,), wrong, False


def _wrong_entries(key: str, entries: dict[str, Any]) -> Iterator[tuple[Path, str, bool]]:
    for name, value in entries.items():
        if key == "severity" and (wrong := _selector(None, name)):
            yield (key, name), wrong, True
        elif key == "versions" and not re.fullmatch(_VERSION, value):
            yield (key, name), f'{value!r} is no version; write it like "4.57" or "5.23.0"', False
        elif name == "max_device_memory" and size(value) is None:
            yield (key, name), _no_size(value), False


def _selector(layer: Layer | None, text: str) -> str:
    if is_selector(text):
        return ""
    return f"{text!r} names no rule; write an id (MEM001), a name (memory/over-the-card), a family (memory) or all"


def _gpu(layer: Layer, name: str) -> str:
    if find(name) is not None or instance(name) is not None:
        return ""
    near = suggestions(name)
    hint = f"did you mean {' or '.join(near[:3])}?" if near else "name a card (A100-80GB) or a size (24GiB)"
    return f"unknown GPU {name!r}: {hint}"


def _memory(layer: Layer, value: str | int) -> str:
    return host_memory_mistake(value)


def host_memory_mistake(value: str | int) -> str:
    """Why `value` is no machine's memory, or ""."""
    found = size(value)
    if found is None:
        return _no_size(value)
    return "" if found >= _LEAST_HOST else f"{found} bytes are no machine's memory; write it with its unit, like 512GiB"


def _no_size(value: object) -> str:
    return f"{value!r} is no size; write it like 512GiB"


def _pattern(layer: Layer, text: str) -> str:
    if os.path.isabs(text) and os.path.exists(os.path.dirname(text)):
        return f"{text!r} is an absolute path; patterns count from this file's folder"
    return "a pattern cannot lead out of this file's folder" if ".." in text.split("/") else ""


def _inside(layer: Layer, text: str) -> str:
    target = os.path.realpath(os.path.join(layer.folder, text))
    if "\0" in text or os.path.commonpath([target, layer.root]) != layer.root:
        return f"{text!r} lies outside of {layer.root}"
    return ""


def _until(layer: Layer, text: str) -> str:
    return "" if is_date(text) else f"{text!r} is no date; write YYYY-MM-DD"


def _pointer(layer: Layer, text: str) -> str:
    good = text == "" or text.startswith("/")
    return "" if good else f"{text!r} is no JSON pointer; it begins with /, like /zero_optimization/stage"


_CHECKS: dict[str, _Check] = {
    "select": _selector,
    "ignore": _selector,
    "gpu": _gpu,
    "host_memory": _memory,
    "exclude": _pattern,
    "files": _pattern,
    "path": _pattern,
    "rules_dirs": _inside,
    "baseline": _inside,
    "with": _inside,
    "until": _until,
    "pointer": _pointer,
}
