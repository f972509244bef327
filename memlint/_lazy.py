"""Modules that are imported when they are first used."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


class Lazy:
    """A proxy of a module: `Lazy("memlint.x")` imports memlint.x when the first attribute is read."""

    def __init__(self, module: str) -> None:
        self._name = module
        self._module: ModuleType | None = None

    def __getattr__(self, name: str) -> object:
        if self._module is None:
            self._module = import_module(self._name)
        found: object = getattr(self._module, name)
        setattr(self, name, found)
        return found
