"""The shape of the house: which way imports point, and what a start may import."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "memlint"

# A room may import from rooms of a lower level, and from its own.
LEVELS = {
    "_record": -1,
    "_lazy": -1,
    "atomic_files": -1,
    "plugin_registry": -1,
    "errors": -1,
    "run": 0,
    "rule_selectors": 0,
    "findings": 0,
    "shipped_data": 0,
    "source": 1,
    "memory.families": 1,  # rows that import nothing, which formats ask too
    "architectures": 2,
    "hardware": 2,
    "formats": 3,
    "memory": 3,
    "suppressions": 4,
    "expressions": 4,
    "repository": 5,
    "settings": 6,
    "report": 6,
    "crash_report": 7,
    "ruleset": 7,
    "fixes": 8,
    "simulation": 8,
    "plugins": 8,
    "lint": 9,
    "revisions": 10,
    "commands": 11,
    "cli": 12,
    "__main__": 13,
}
LAZY_IMPORTS_ALLOWED = ("cli", "commands", "simulation")
FORBIDDEN_AT_START = {
    *("torch", "transformers", "accelerate", "peft", "jsonschema", "ruamel", "rich", "asyncio", "logging"),
    *("importlib.metadata", "huggingface_hub", "dataclasses", "inspect"),
}


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE).with_suffix("")
        yield ".".join(part for part in relative.parts if part != "__init__"), path


def imports(path: Path, top_level_only: bool) -> Iterator[tuple[str, int]]:
    """Modules of the house that a file imports: `from memlint.source import json` is memlint.source.json."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_level_only else list(ast.walk(tree))
    known = {name for name, _ in modules()}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "memlint":
            package = node.module.partition(".")[2]
            for alias in node.names:
                inner = f"{package}.{alias.name}".strip(".")
                yield (inner if inner in known else package), node.lineno
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("memlint."):
                    yield alias.name.partition(".")[2], node.lineno


def room(module: str) -> str:
    inner = ".".join(module.split(".")[:2])
    return inner if inner in LEVELS else module.split(".")[0]


def test_every_room_has_a_level() -> None:
    assert {room(name) for name, _ in modules() if name} <= set(LEVELS)


def test_arrows_point_one_way() -> None:
    against = [
        f"{path.relative_to(ROOT)}:{line} {room(name)} -> {room(target)}"
        for name, path in modules()
        if name
        for target, line in imports(path, top_level_only=False)
        if target in {n for n, _ in modules()} or room(target) in LEVELS
        if room(target) != room(name) and LEVELS.get(room(target), -1) >= LEVELS[room(name)]
    ]

    assert against == []


def test_run_imports_only_what_makes_records() -> None:
    assert {name for name, _ in imports(PACKAGE / "run.py", top_level_only=False)} == {"_record"}


def test_no_cycles_between_modules() -> None:
    names = dict(modules())
    graph = {
        name: {target for target, _ in imports(path, top_level_only=True) if target in names and target != name}
        for name, path in names.items()
    }
    done: set[str] = set()
    while len(done) < len(graph):
        ready = {name for name, targets in graph.items() if name not in done and targets <= done}
        assert ready, f"cycle among {sorted(set(graph) - done)}"
        done |= ready


def lazy_imports(path: Path) -> Iterator[int]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from (node.lineno for node in ast.walk(function) if isinstance(node, (ast.Import, ast.ImportFrom)))


# Libraries that a room needs only when something is unusual: their import is part of that unusual path.
LAZY_EXCEPTIONS = {
    ("settings", "tomllib"),
    ("formats", "jsonschema_rs"),
    ("architectures", "huggingface_hub"),
}


def test_lazy_imports_stay_in_their_rooms() -> None:
    found = []
    for name, path in modules():
        if room(name) in LAZY_IMPORTS_ALLOWED or not name:
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        for line in lazy_imports(path):
            if not any(room(name) == where and library in lines[line - 1] for where, library in LAZY_EXCEPTIONS):
                found.append(f"{path.relative_to(ROOT)}:{line} {lines[line - 1].strip()}")

    assert found == []


@pytest.mark.parametrize("arguments", [["--version"], ["check", "examples"]])
def test_a_start_imports_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys; from memlint.cli import main; main(sys.argv[1:]); "
        "sys.stderr.write('\\n'.join(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=ROOT, check=False
    )
    bare = subprocess.run(
        [sys.executable, "-c", "import sys; print('\\n'.join(sys.modules))"], capture_output=True, text=True, check=True
    )

    loaded = set(done.stderr.split()) - set(bare.stdout.split())

    assert "memlint.cli" in loaded
    assert loaded & FORBIDDEN_AT_START == set()
