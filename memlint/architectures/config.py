"""Reading a `config.json` that may hold anything: typed getters, class defaults, bounded sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LARGEST_EXTENT = 1 << 32  # no dimension of a real model comes near; keeps garbage from making huge numbers
MOST_LAYERS = 2048


class UnsupportedConfig(Exception):
    """This configuration cannot be turned into parameter tensors; `str()` says what is missing."""


class ModelConfig:
    """A model configuration, with the defaults of its transformers class for keys that it leaves out.

    `values`: the file's. A key that is absent takes its value from `defaults`, a key that is null does
    not (as in transformers). `aliases` are the class's other names for a key.
    """

    __slots__ = ("aliases", "defaults", "family", "values")

    def __init__(
        self,
        values: Mapping[str, Any],
        family: str,
        defaults: Mapping[str, Any] | None = None,
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self.values = values
        self.family = family
        self.defaults = defaults or {}
        self.aliases = aliases or {}

    def get(self, name: str, otherwise: Any = None) -> Any:
        """The value of `name`, under any of its names; `otherwise` where it is absent or null."""
        for key in self._names(name):
            if key in self.values:
                value = self.values[key]
                return otherwise if value is None else value
        for key in self._names(name):
            if key in self.defaults:
                value = self.defaults[key]
                return otherwise if value is None else value
        return otherwise

    def has(self, name: str) -> bool:
        """Whether the file itself has `name`, with a value other than null."""
        return any(self.values.get(key) is not None for key in self._names(name))

    def _names(self, name: str) -> tuple[str, ...]:
        alias = self.aliases.get(name)
        return (name,) if alias is None else (name, alias)

    def integer(self, name: str, otherwise: int | None = None, least: int = 1) -> int:
        """A whole number >= `least`. Raises UnsupportedConfig when there is none."""
        value = self.get(name, otherwise)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST_EXTENT:
            raise UnsupportedConfig(f"`{name}` of this {self.family} config is {_abbreviated(value)}, not a size")
        return value

    def number(self, name: str, otherwise: float = 0.0) -> float:
        value = self.get(name, otherwise)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return float(value) if is_number and abs(value) <= LARGEST_EXTENT else otherwise  # no NaN, no infinity

    def flag(self, name: str, otherwise: bool = False) -> bool:
        value = self.get(name, otherwise)
        return bool(value) if isinstance(value, (bool, int)) else otherwise

    def text(self, name: str, otherwise: str = "") -> str:
        value = self.get(name, otherwise)
        return value if isinstance(value, str) else otherwise

    def items(self, name: str) -> list[Any]:
        """A list value, [] where it is absent or of another type; at most MOST_LAYERS items."""
        value = self.get(name)
        return list(value[:MOST_LAYERS]) if isinstance(value, (list, tuple)) else []

    def mapping(self, name: str) -> Mapping[str, Any]:
        value = self.get(name)
        return value if isinstance(value, Mapping) else {}

    def layers(self, name: str = "num_hidden_layers") -> int:
        count = self.integer(name)
        if count > MOST_LAYERS:
            raise UnsupportedConfig(f"`{name}` of this {self.family} config is {count}, more than any real model has")
        return count


def _abbreviated(value: Any) -> str:
    if value is None:
        return "missing"
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
