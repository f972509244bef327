"""One verb a file, each with `run(program, arguments) -> exit code`. The only rooms that print, besides cli.py."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module


def load(module: str) -> Callable[[str, list[str]], int]:
    """The `run` of memlint.commands.<module>, imported now and not before."""
    run: Callable[[str, list[str]], int] = import_module(f"memlint.commands.{module}").run
    return run
