"""Plain values as YAML or JSON text that reads back as the same value in the file's own dialect."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from memlint.source import load
from memlint.source.scalars import same


class CannotWrite(ValueError):
    """No text in this syntax reads back as the value."""


def yaml_text(value: Any, dialect: str, flow: bool = False, quote: str = "") -> str:
    """`value` on one line of YAML. `quote`: how the text it replaces began; quotes are kept where possible."""
    for text in _candidates(value, quote):
        if _reads_back(text, value, dialect, flow):
            return text
    raise CannotWrite(f"{value!r} has no one-line YAML form in dialect {dialect}")


def yaml_key(key: str, dialect: str) -> str:
    for text in (key, json.dumps(key)):
        read = _read(f"{text}: 0\n", dialect)
        if read is not None and same(read, {key: 0}):
            return text
    raise CannotWrite(f"{key!r} has no one-line YAML form as a key")


def json_text(value: Any) -> str:
    """`value` as JSON on one line. Raises CannotWrite for what JSON lacks (NaN, infinities)."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CannotWrite(str(error)) from None


def _candidates(value: Any, quote: str) -> list[str]:
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if value is None:
        return ["null", "~"]
    if isinstance(value, float):
        return _floats(value)
    if isinstance(value, str):
        return _strings(value, quote)
    return [str(value) if isinstance(value, int) else _flow(value)]


def _floats(value: float) -> list[str]:
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        return [text]
    # YAML 1.1 wants a point and a signed exponent: 1e-05 is a string there, 1.0e-5 a number.
    dotted = mantissa if "." in mantissa else f"{mantissa}.0"
    sign = "-" if exponent.startswith("-") else "+"
    return [f"{dotted}e{sign}{exponent.lstrip('+-0')}", text]


def _strings(value: str, quote: str) -> list[str]:
    single = "'" + value.replace("'", "''") + "'"
    double = json.dumps(value, ensure_ascii=False)
    preferred = {"'": [single], '"': [double]}.get(quote, [value])
    return [*preferred, value, double, single]


def _flow(value: Any) -> str:
    """A list or mapping in flow style: JSON is YAML, but bare words read better where they are safe."""
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow_item, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flow_item(key)}: {_flow_item(item)}" for key, item in value.items()) + "}"
    raise CannotWrite(f"{type(value).__name__} has no YAML form")


def _flow_item(value: Any) -> str:
    if isinstance(value, str):
        return value if value.isidentifier() and value.lower() not in _WORDS else json.dumps(value, ensure_ascii=False)
    return _candidates(value, "")[0]


_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


def _reads_back(text: str, value: Any, dialect: str, flow: bool) -> bool:
    wanted = list(value) if isinstance(value, tuple) else value
    if "\n" in text:
        return False
    source = f"{{k: {text}}}\n" if flow else f"k: {text} # c\n"
    read = _read(source, dialect)
    return read is not None and same(read, {"k": wanted})


@lru_cache(maxsize=1024)
def _read(text: str, dialect: str) -> Any:
    """The value of one line; what is returned is compared, never changed."""
    documents = load(text.encode("utf-8", "surrogatepass"), "snippet.yaml", syntax="yaml", dialect=dialect)
    if len(documents) != 1 or any(problem.fatal for problem in documents[0].problems):
        return None
    return documents[0].value
