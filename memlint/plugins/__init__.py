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
from contextlib import redirect_stdout
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any

import memlint.plugin_registry as extensions
from memlint.formats import FORMATS
from memlint.hardware.model import Gpu
from memlint.memory.state.optimizers import table
from memlint.plugins.calls import check_of, describe_error, format_of, output_of
from memlint.report.model import Report
from memlint.report.outputs import OUTPUTS
from memlint.ruleset.folder import read_document, rule_files
from memlint.ruleset.rule import Rule, RuleError
from memlint.ruleset.rule_file import parse_python_rule, parse_rule
from memlint.source.document import Document

API_VERSION = 1
_FORMAT_NAMES = ("NAME", "DIALECT", "SCHEMA")
_FORMAT_FUNCTIONS = ("recognise", "parse", "edits")


class PluginError(Exception):
    """A plug-in that cannot be used (exit 2); the message names it."""


class Registry:
    """The methods by which a plug-in adds things. Each raises PluginError for an invalid argument."""

    def __init__(self, plugin: str, folder: str = "") -> None:
        self._plugin = plugin
        self._folder = folder  # of the plug-in's own file

    def rule(self, module: Any) -> None:
        """A rule in Python: `FIELDS` as in a rule file, and `check(facts)` that yields `memlint.ruleset.rule.Hit`."""
        self._wants(module, ("FIELDS",), ("check",), f"the rule {module!r}")
        path = str(getattr(module, "__file__", "") or self._plugin)
        document = Document(path, "", "yaml", "yaml12", module.FIELDS, {})
        self._add(parse_python_rule(document, check_of(self._plugin, module.check)), document)

    def rules(self, folder: str) -> None:
        """The declarative rules below `folder`, as with `rules_dirs` in settings; named from the plug-in's own file."""
        full = os.path.join(self._folder, folder)
        names = rule_files(full)
        if not names:
            said = "holds no rule files" if os.path.isdir(full) else "is no folder"
            raise self._error(f"`rules`: {full} {said}")
        for name in names:
            document = read_document(os.path.join(full, name), os.path.join(full, name))
            self._add(parse_rule(document), document)

    def _add(self, rule: Rule, document: Document) -> None:
        if rule.id in extensions.documents:
            raise self._error(f"rule {rule.id} is there already, from {extensions.documents[rule.id].path}")
        extensions.rules.append(rule)
        extensions.documents[rule.id] = document

    def format(self, module: Any) -> None:
        """A config format: the names of `memlint.formats.base.Format`. Asked after memlint's own formats."""
        self._wants(module, _FORMAT_NAMES, _FORMAT_FUNCTIONS, "the format")
        taken = [one.NAME for one in (*FORMATS, *extensions.formats)]
        if module.NAME in taken:
            raise self._error(f"a format `{module.NAME}` is there already")
        extensions.formats.append(format_of(self._plugin, module))

    def optimizer(self, name: str, entry: Mapping[str, Any]) -> None:
        """What an optimizer holds and allocates, as in memory/state/optimizers.json: {"states": ["param"], ...}."""
        if not isinstance(name, str) or not isinstance(entry, Mapping):
            raise self._error("`optimizer` wants a name and a mapping")
        known = {state for one in table().values() for state in one.get("states", ())}
        if not isinstance(entry.get("states"), list) or not set(entry["states"]) <= known:
            raise self._error(f"optimizer `{name}`: `states` is a list of {', '.join(sorted(known))}")
        words = {word for one in table().values() for word in one}
        odd = sorted(entry.keys() - words)
        if odd:
            raise self._error(f"optimizer `{name}`: no `{odd[0]}` is known, only {', '.join(sorted(words))}")
        extensions.optimizers[name.lower()] = dict(entry)
        table.cache_clear()

    def output(self, name: str, render: Callable[[Report], str]) -> None:
        """An output for `--format NAME`."""
        if not isinstance(name, str) or not callable(render):
            raise self._error("`output` wants a name and a function")
        if name in OUTPUTS or name in extensions.outputs:
            raise self._error(f"an output `{name}` is there already")
        extensions.outputs[name] = output_of(self._plugin, render)

    def gpu(self, gpu: Gpu, aliases: tuple[str, ...] = ()) -> None:
        """A card, by its name and others, in any case."""
        if not isinstance(gpu, Gpu):
            raise self._error(f"`gpu` wants a memlint.hardware.model.Gpu, not {gpu!r}")
        if isinstance(aliases, str) or not all(isinstance(name, str) for name in aliases):
            raise self._error(f"gpu `{gpu.name}`: `aliases` is a tuple of texts, not {aliases!r}")
        for name in (gpu.name, *aliases):
            extensions.gpus[name.lower()] = gpu

    def _wants(self, module: Any, names: tuple[str, ...], functions: tuple[str, ...], what: str) -> None:
        missing = [name for name in (*names, *functions) if not hasattr(module, name)]
        if missing:
            raise self._error(f"{what[:80]} has no {', '.join(f'`{name}`' for name in missing)}")
        values = [name for name in functions if not callable(getattr(module, name))]
        if values:
            raise self._error(f"{what[:80]}: `{values[0]}` is no function")

    def _error(self, message: str) -> PluginError:
        return PluginError(f"plug-in {self._plugin}: {message}")


def load(names: tuple[str, ...]) -> None:
    """Loads each plug-in once: a path of a `.py` file, or a module's name. Raises PluginError.

    What a plug-in prints goes to standard error: standard output is the report's.
    """
    for name in names:
        if name in extensions.loaded:
            continue
        try:
            with redirect_stdout(sys.stderr):
                module = _module(name)
                _register(module, name)
        except PluginError:
            raise
        except RuleError as error:
            raise PluginError(f"plug-in {name}: {error}") from error
        except (Exception, SystemExit) as error:
            raise PluginError(f"plug-in {name}: {describe_error(error)}") from error
        extensions.loaded[name] = str(getattr(module, "__file__", ""))


def _register(module: Any, name: str) -> None:
    version = getattr(module, "MEMLINT_API", None)
    if version != API_VERSION:
        said = "says no `MEMLINT_API`" if version is None else f"is for version {version} of the interface"
        raise PluginError(f"plug-in {name} {said}; this memlint has version {API_VERSION}")
    register = getattr(module, "register", None)
    if not callable(register):
        raise PluginError(f"plug-in {name} has no function `register(registry)`")
    register(Registry(name, os.path.dirname(os.path.abspath(getattr(module, "__file__", None) or "."))))


class _FreshSource(SourceFileLoader):
    """Compiles a file from its current source: Python reuses byte code if size and modification second are equal."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        found: CodeType = self.source_to_code(self.get_data(path), path)
        return found


def _module(name: str) -> Any:
    if not name.endswith(".py"):
        if not all(part.isidentifier() for part in name.split(".")):
            raise PluginError(f"plug-in {name!r}: name a module that can be imported, or a file that ends in .py")
        return importlib.import_module(name)
    if not os.path.isfile(name):
        raise PluginError(f"plug-in {name}: there is no such file")
    title = "memlint_plugin_" + "".join(letter if letter.isalnum() else "_" for letter in os.path.abspath(name))
    spec = importlib.util.spec_from_file_location(title, name, loader=_FreshSource(title, name))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[title] = module
    spec.loader.exec_module(module)
    return module
