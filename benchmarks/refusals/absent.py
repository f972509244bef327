"""Packages that only training needs, where they are missing: every name in them exists and does nothing."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
from types import ModuleType
from typing import Any
from unittest import mock


@functools.cache
def stand_in(packages: tuple[str, ...]) -> None:
    missing = {name for name in packages if importlib.util.find_spec(name) is None}
    sys.meta_path.append(_Finder(missing))
    known = importlib.metadata.version
    importlib.metadata.version = lambda distribution_name: (
        "0.18.0" if distribution_name in missing else known(distribution_name)
    )


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, packages: set[str]) -> None:
        self.packages = packages

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        found = name.partition(".")[0] in self.packages
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if found else None

    def create_module(self, spec: Any) -> ModuleType:
        return _Anything(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__version__ = "0.0"  # type: ignore[attr-defined]


class _Anything(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return mock.MagicMock()
