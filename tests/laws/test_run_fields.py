"""Every field of a run is written by something that reads files or machines, and read by something that judges it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from memlint import run as schema

ROOT = Path(__file__).parent.parent.parent
WRITERS = ("formats", "hardware", "repository", "lint")
READERS = ("memory", "fixes", "simulation", "expressions", "ruleset", "report", "lint", "commands", "revisions")
GROUPS = {
    **{name: getattr(schema, name.title()) for name in schema.Run._fields if hasattr(schema, name.title())},
    "model.quantization": schema.Quantization,
    "parallelism.zero": schema.Zero,
    "parallelism.fsdp": schema.Fsdp,
}
FIELDS = sorted(
    f"{group}.{field}"
    for group, values in GROUPS.items()
    for field in values._fields
    if f"{group}.{field}" not in GROUPS
)
UNREAD: set[str] = set()
# No key says them, but a script of one's own does; benchmarks/ holds the figures for them against measured steps.
UNWRITTEN = {"parallelism.ddp_bucket_view"}


@cache
def trees(rooms: tuple[str, ...]) -> tuple[ast.Module, ...]:
    paths = (path for room in rooms for path in sorted((ROOT / "memlint" / room).rglob("*.py")))
    return tuple(ast.parse(path.read_text(encoding="utf-8")) for path in paths)


@cache
def attributes() -> dict[str, set[str]]:
    """Names of attributes that readers look up, each with what they are looked up on: `run.batch`, `checkpoint`."""
    found = defaultdict(set)
    for tree in trees(READERS):
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found[node.attr].add(ast.unparse(node.value))
    return found


@cache
def names_in_rules() -> str:
    """What rule files say but for `at:`, which only places a finding."""
    texts = (path.read_text(encoding="utf-8") for path in sorted((ROOT / "rules").rglob("*.yaml")))
    return "\n".join(line for text in texts for line in text.splitlines() if not line.startswith("at:"))


def constants(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        if isinstance(node, ast.keyword) and node.arg:
            yield node.arg


@cache
def written() -> tuple[set[str], dict[str, set[str]]]:
    """Dotted names that writers say, and by group the words of modules that build such a name or such a value."""
    whole: set[str] = set()
    by_group: dict[str, set[str]] = defaultdict(set)
    for tree in trees(WRITERS):
        words = set(constants(tree))
        whole |= words
        for node in ast.walk(tree):
            for group in groups_built(node):
                by_group[group] |= words
    return whole, by_group


def groups_built(node: ast.AST) -> Iterator[str]:
    """`f"stack.{name}"` builds names of the group stack, `Quantization(...)` a value of model.quantization."""
    if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
        yield str(node.values[0].value).rstrip(".")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        yield from (group for group, values in GROUPS.items() if values.__name__ == node.func.id)


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_is_written(name: str) -> None:
    group, _, field = name.rpartition(".")
    whole, by_group = written()
    assert (name in whole or field in by_group[group]) != (name in UNWRITTEN)


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_is_read(name: str) -> None:
    field = name.rpartition(".")[2]
    named = re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", names_in_rules()) is not None
    assert (named or field in attributes()) != (name in UNREAD)


def test_exceptions_stay_few() -> None:
    assert len(UNREAD) + len(UNWRITTEN) <= 3


def test_fields_are_set_together_as_one_by_one() -> None:
    run = one_by_one = schema.Run("format", "path")
    changes = {name: f"new {name}" for name in FIELDS if name not in GROUPS}
    for name, value in changes.items():
        one_by_one = schema.replace(one_by_one, {name: value})
    together = schema.replace(run, changes)
    assert together == one_by_one and all(schema.get(together, name) == value for name, value in changes.items())


def test_fields_are_set_in_a_part_that_is_set_as_well() -> None:
    zero = schema.Zero(stage=3, reduce_bucket_size=1)
    run = schema.replace(schema.Run("format", "path"), {"parallelism.zero.stage": 2, "parallelism.zero": zero})
    assert run.parallelism.zero == zero._replace(stage=2)
