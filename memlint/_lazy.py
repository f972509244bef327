"""Modules that are imported when they are first used."""

from __future__ import annotations

from importlib import import_module


class Lazy:
    """`Lazy("memlint.x")` stands for the module: it has its attributes, and imports it when one is read."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> object:
        found: object = getattr(import_module(self._module), name)
        setattr(self, name, found)
        return found
