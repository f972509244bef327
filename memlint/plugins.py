"""The programming interface of plug-ins: Python that adds rules, formats, optimizers, outputs and GPUs.

A plug-in is a module, or a file that ends in `.py`, with two names:

    MEMLINT_API = 1

    def register(registry):
        registry.rule(my_rule)

Python runs with the rights of whoever runs memlint, so only that person names plug-ins: `--plugin NAME`, the user's own
settings, or `--allow-plugins` for those that a repository names. Declarative rules (`rules_dirs`) need none of it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import memlint._extensions as extensions
from memlint.checks.rule import Rule, RuleError
from memlint.checks.rule_file import parse_python_rule
from memlint.checks.rule_folder import read_folder
from memlint.formats import FORMATS
from memlint.hardware.model import Gpu
from memlint.memory.optimizer import table
from memlint.report.model import Report
from memlint.report.outputs import OUTPUTS
from memlint.source.document import Document

API_VERSION = 1
_FORMAT_NAMES = ("NAME", "DIALECT", "SCHEMA", "recognise", "parse", "edits")


class PluginError(Exception):
    """A plug-in that cannot be used (exit 2); the message names it."""


class Registry:
    """What a plug-in may add. Each method raises PluginError for what could never work."""

    def __init__(self, plugin: str) -> None:
        self._plugin = plugin

    def rule(self, module: Any) -> None:
        """A rule in Python: `FIELDS` as in a rule file, and `check(facts)` that yields `memlint.checks.rule.Hit`."""
        for name in ("FIELDS", "check"):
            if not hasattr(module, name):
                raise PluginError(f"plug-in {self._plugin}: the rule {module!r} has no `{name}`")
        path = str(getattr(module, "__file__", "") or self._plugin)
        document = Document(path, "", "yaml", "yaml12", module.FIELDS, {})
        self._add(parse_python_rule(document, module.check))

    def rules(self, folder: str) -> None:
        """The declarative rules below `folder`, as with `rules_dirs` in settings."""
        for rule in read_folder(folder):
            self._add(rule)

    def _add(self, rule: Rule) -> None:
        if any(known.id == rule.id for known in extensions.rules):
            raise PluginError(f"plug-in {self._plugin}: rule {rule.id} is there already")
        extensions.rules.append(rule)

    def format(self, module: Any) -> None:
        """A config format: the names of `memlint.formats.base.Format`. Asked after memlint's own formats."""
        missing = [name for name in _FORMAT_NAMES if not hasattr(module, name)]
        if missing:
            raise PluginError(f"plug-in {self._plugin}: the format has no {', '.join(missing)}")
        taken = [one.NAME for one in (*FORMATS, *extensions.formats)]
        if module.NAME in taken:
            raise PluginError(f"plug-in {self._plugin}: a format `{module.NAME}` is there already")
        extensions.formats.append(module)

    def optimizer(self, name: str, entry: Mapping[str, Any]) -> None:
        """What an optimizer holds and allocates, in the words of memory/optimizers.yaml: {"states": ["param"], ...}."""
        known = {state for one in table().values() for state in one.get("states", ())}
        if not isinstance(entry.get("states"), list) or not set(entry["states"]) <= known:
            raise PluginError(
                f"plug-in {self._plugin}: optimizer `{name}`: `states` is a list of {', '.join(sorted(known))}"
            )
        extensions.optimizers[name.lower()] = dict(entry)
        table.cache_clear()

    def output(self, name: str, render: Callable[[Report], str]) -> None:
        """An output for `--format NAME`."""
        if name in OUTPUTS or name in extensions.outputs:
            raise PluginError(f"plug-in {self._plugin}: an output `{name}` is there already")
        extensions.outputs[name] = render

    def gpu(self, gpu: Gpu, aliases: tuple[str, ...] = ()) -> None:
        """A card, by its name and others, in any case."""
        for name in (gpu.name, *aliases):
            extensions.gpus[name.lower()] = gpu


def load(names: tuple[str, ...]) -> None:
    """Loads each plug-in once: a path of a `.py` file, or a module's name. Raises PluginError."""
    for name in names:
        if name in extensions.loaded:
            continue
        try:
            module = _module(name)
            _register(module, name)
        except PluginError:
            raise
        except RuleError as error:
            raise PluginError(f"plug-in {name}: {error}") from error
        except Exception as error:
            raise PluginError(f"plug-in {name}: {type(error).__name__}: {error}{_place(error)}") from error
        extensions.loaded[name] = str(getattr(module, "__file__", ""))


def _register(module: Any, name: str) -> None:
    version = getattr(module, "MEMLINT_API", None)
    if version != API_VERSION:
        said = "says no `MEMLINT_API`" if version is None else f"is for version {version} of the interface"
        raise PluginError(f"plug-in {name} {said}; this memlint has version {API_VERSION}")
    register = getattr(module, "register", None)
    if not callable(register):
        raise PluginError(f"plug-in {name} has no function `register(registry)`")
    register(Registry(name))


def _module(name: str) -> Any:
    if not name.endswith(".py"):
        return importlib.import_module(name)
    if not os.path.isfile(name):
        raise PluginError(f"plug-in {name}: there is no such file")
    title = "memlint_plugin_" + "".join(letter if letter.isalnum() else "_" for letter in os.path.abspath(name))
    spec = importlib.util.spec_from_file_location(title, name)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[title] = module
    spec.loader.exec_module(module)
    return module


def _place(error: Exception) -> str:
    """Where the plug-in's own code failed."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file != __file__ and "importlib" not in file:
            place = f" ({file}:{trace.tb_lineno})"
        trace = trace.tb_next
    return place
