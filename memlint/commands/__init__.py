"""The verbs, one per module, each with `run(program, arguments) -> exit code`. Only they and cli.py print."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module


def load(module: str) -> Callable[..., int]:
    """Imports memlint.commands.<module> and returns its `run`."""
    run: Callable[..., int] = import_module(f"memlint.commands.{module}").run
    return run
