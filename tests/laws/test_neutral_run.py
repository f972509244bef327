"""Estimates, fixes and simulations read what a framework does from the fields of a run, never which framework it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent.parent / "memlint"
MODULES = sorted(
    path.relative_to(PACKAGE) for room in ("memory", "fixes", "simulation") for path in (PACKAGE / room).rglob("*.py")
)
# Formats and frameworks. DeepSpeed is no such name here: it is an engine, which several frameworks run.
FRAMEWORKS = {
    "llamafactory",
    "llama_factory",
    "axolotl",
    "trainer",
    "trl",
    "accelerate",
    "torchtune",
    "oumi",
    "autotrain",
    "swift",
    "openrlhf",
    "easyr1",
    "skyrl",
    "slime",
    "areal",
    "torchtitan",
    "nemo_rl",
}


def named(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Lines of code that compare with a framework's name, look one up, or read `stack.framework` or `run.format`.

    Docstrings and comments may cite a framework's source; keys of a dictionary may name a package whose release counts.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "framework":
            yield node.lineno, ast.unparse(node)
        if isinstance(node, ast.Attribute) and node.attr == "format" and "run" in ast.unparse(node.value):
            yield node.lineno, ast.unparse(node)
        for inner in ast.walk(node) if isinstance(node, (ast.Compare, ast.Subscript, ast.pattern, ast.Call)) else ():
            if isinstance(inner, ast.Constant) and inner.value in (*FRAMEWORKS, "stack.framework", "format"):
                yield inner.lineno, repr(inner.value)


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_no_module_asks_which_framework_wrote_the_run(path: Path) -> None:
    assert list(named(ast.parse((PACKAGE / path).read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize(
    "code",
    [
        'run.stack.framework == "x"',
        'run.format == "x"',
        'name in ("trl", "axolotl")',
        'get(run, "stack.framework")',
        'ways["llamafactory"]',
        'stack_name(run).startswith("trl")',
    ],
)
def test_such_code_is_found(code: str) -> None:
    assert list(named(ast.parse(code)))
