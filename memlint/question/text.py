"""Settings as the text of a YAML file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_PLAIN = re.compile(r"[A-Za-z_./][A-Za-z0-9_./@-]*")
_WORDS_OF_YAML = frozenset(("true", "false", "yes", "no", "on", "off", "null", "y", "n", "none"))


def yaml_text(values: Mapping[str, object], indent: str = "") -> str:
    """One line per key; the keys of a mapping are indented. Values: str, int, float, bool, None, lists, mappings."""
    return "".join(_entry(key, value, indent) for key, value in values.items())


def _entry(key: str, value: object, indent: str) -> str:
    if isinstance(value, Mapping):
        return f"{indent}{key}:\n" + yaml_text(value, indent + "  ")
    return f"{indent}{key}: {_scalar(value)}\n"


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "null"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_scalar, value))}]"
    if not isinstance(value, str):
        return repr(value)
    plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS_OF_YAML
    return value if plain else json.dumps(value)
