"""Checks of settings that JSON Schema cannot express: rule names, GPUs, versions, sizes, dates, patterns, paths."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import memlint.file_access as file_access
from memlint.hardware import find, instance
from memlint.hardware.named import unknown_gpu
from memlint.rule_selectors import is_selector
from memlint.run import Amount
from memlint.settings.model import Mistake, SettingsFile, mistake
from memlint.source.document import Path
from memlint.suppressions.dates import is_date

_VERSION = r"[0-9]{1,6}(?:\.[0-9]{1,6}){0,5}"
_SIZE = r"([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([KMGTP]i?)?B?"
_EXPONENTS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}

# Checks one value of a settings file and gives the error message, "" for a good value.
_Check = Callable[[SettingsFile, str], str]


def version(text: str) -> tuple[int, ...]:
    """ "4.57" as (4, 57)."""
    return tuple(map(int, text.split(".")))


def is_version(text: str) -> bool:
    """Whether `text` is a version: up to six numbers, separated by dots."""
    return bool(re.fullmatch(_VERSION, text))


def size(value: str | int) -> int | None:
    """A size in bytes: 512, "512GiB" (1024-based) or "512 GB" (1000-based); None if it is not a size."""
    if isinstance(value, int):
        return value
    match = re.fullmatch(_SIZE, value.strip(), re.IGNORECASE)
    if match is None:
        return None
    unit = (match[2] or "").lower()
    base = 1024 if unit.endswith("i") else 1000
    return int(float(match[1]) * base ** _EXPONENTS[unit[:1]])


_PERCENT = r"([0-9]{1,3}(?:\.[0-9]{1,6})?)\s*%"


def amount(value: str | int) -> Amount | None:
    """The amount "600MiB" or "8 %" (of the card); None if it is neither."""
    match = re.fullmatch(_PERCENT, value.strip()) if isinstance(value, str) else None
    if match is not None:
        return Amount(share=float(match[1]) / 100) if float(match[1]) <= 100 else None
    found = size(value)
    return None if found is None else Amount(found)


def _amount_mistake(value: str | int) -> str:
    """The error message for an implausible amount of the card's memory; "" for a good one."""
    found = amount(value)
    if found is None:
        return f"{value!r} is neither a size nor a percentage up to 100; write it like 600MiB or 8%"
    if 0 < found.size < _LEAST_AMOUNT:
        return f"{found.size} bytes are less than 1 MiB; write it with its unit, like 2GiB"
    return ""


_LEAST_AMOUNT = 1 << 20
_LEAST_HOST = 1 << 28  # bytes; less is refused, since a plain 512 was surely meant in GiB


def strings(value: Any) -> list[str]:
    """A list as it is, a single string as a list of one."""
    return [value] if isinstance(value, str) else list(value)


def mistakes_of(file: SettingsFile) -> list[Mistake]:
    """The mistakes in the values of a file that is valid against the schema."""
    value = file.document.value or {}
    sections: list[tuple[Path, Any]] = [((), value)]
    sections += [(("overrides", index), part) for index, part in enumerate(value.get("overrides", ()))]
    for index, part in enumerate(value.get("suppressions", {}).get("files", ())):
        sections.append((("suppressions", "files", index), part))
    return [
        mistake(file.document, (*path, *pointer), wrong, on_key)
        for path, part in sections
        for pointer, wrong, on_key in _wrong_values(file, part)
    ]


def _wrong_values(file: SettingsFile, part: dict[str, Any]) -> Iterator[tuple[Path, str, bool]]:
    """(pointer, message, whether the mistake is the key itself) for each mistake in one section."""
    for key, value in part.items():
        check = _CHECKS.get(key)
        if key == "keys":
            yield from _wrong_keys(file, value)
        elif key in ("severity", "versions", "budgets", "memory"):
            yield from _wrong_entries(key, value)
        elif check and isinstance(value, list):
            found = ((index, check(file, item)) for index, item in enumerate(value))
            yield from (((key, index), wrong, False) for index, wrong in found if wrong)
        elif check and (wrong := check(file, value)):
            yield (key,), wrong, False


def _wrong_entries(key: str, entries: dict[str, Any]) -> Iterator[tuple[Path, str, bool]]:
    for name, value in entries.items():
        if key == "severity" and (wrong := _selector(None, name)):
            yield (key, name), wrong, True
        elif key == "versions" and not re.fullmatch(_VERSION, value):
            yield (key, name), f'{value!r} is no version; write it like "4.57" or "5.23.0"', False
        elif key == "memory" and (wrong := _amount_mistake(value)):
            yield (key, name), wrong, False
        elif name == "max_device_memory" and size(value) is None:
            yield (key, name), _no_size(value), False


def _wrong_keys(file: SettingsFile, entries: list[dict[str, Any]]) -> Iterator[tuple[Path, str, bool]]:
    from memlint.settings.arguments import wrong_arguments  # late: few settings have `keys`

    for index, entry in enumerate(entries):
        for pointer, wrong, on_key in (*_wrong_values(file, {"files": entry["files"]}), *wrong_arguments(entry)):
            yield ("keys", index, *pointer), wrong, on_key


def _selector(file: SettingsFile | None, text: str) -> str:
    if is_selector(text):
        return ""
    return f"{text!r} names no rule; write an id (MEM001), a name (memory/over-the-card), a family (memory) or all"


def _gpu(file: SettingsFile, name: str) -> str:
    if find(name) is not None or instance(name) is not None:
        return ""
    return unknown_gpu(name)


def _memory(file: SettingsFile, value: str | int) -> str:
    return host_memory_mistake(value)


def host_memory_mistake(value: str | int) -> str:
    """The error message for a `host_memory` that cannot be a machine's memory; "" for a good one."""
    found = size(value)
    if found is None:
        return _no_size(value)
    return "" if found >= _LEAST_HOST else f"{found} bytes are no machine's memory; write it with its unit, like 512GiB"


def _no_size(value: object) -> str:
    return f"{value!r} is no size; write it like 512GiB"


def _pattern(file: SettingsFile, text: str) -> str:
    if os.path.isabs(text) and file_access.exists(os.path.dirname(text)):
        return f"{text!r} is an absolute path; patterns count from this file's folder"
    return "a pattern cannot lead out of this file's folder" if ".." in text.split("/") else ""


def _inside(file: SettingsFile, text: str) -> str:
    target = file_access.realpath(os.path.join(file.folder, text))
    if "\0" in text or os.path.commonpath([target, file.root]) != file.root:
        return f"{text!r} lies outside of {file.root}"
    return ""


def _until(file: SettingsFile, text: str) -> str:
    return "" if is_date(text) else f"{text!r} is no date; write YYYY-MM-DD"


def _pointer(file: SettingsFile, text: str) -> str:
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
