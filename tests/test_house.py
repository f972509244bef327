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
    "_stages": -1,
    "_pattern": -1,
    "_garbage": -1,
    "_importing": -1,
    "_lazy": -1,
    "atomic_files": -1,
    "plugin_registry": -1,
    "errors": -1,
    "run": 0,
    "rule_selectors": 0,
    "findings": 0,
    "shipped_data": 0,
    "source": 1,
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
    return module.split(".")[0]


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


def test_flat_files_and_their_json_need_no_yaml_parser() -> None:
    """PyYAML and what it imports take a tenth of the time of checking one file."""
    code = (
        "import sys; import memlint.commands.check, memlint.lint.linter; from memlint.source import load; "
        "assert load(b'a: 1\\n', 'a.yaml')[0].value == {'a': 1}; assert load(b'{}', 'a.json')[0].value == {}; "
        "assert not {'yaml', 'datetime'} & set(sys.modules); load(b'a: [1]', 'a.yaml'); assert 'yaml' in sys.modules"
    )

    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


# What one flat file on one card does not ask for; each of them costs every start half a per cent.
NOT_FOR_ONE_FLAT_FILE = {
    *(
        "formats.accelerate",
        "formats.accelerate_fsdp",
        "formats.accelerate_edits",
        "formats.axolotl",
        "formats.trainer",
    ),
    *("formats.deepspeed", "formats.deepspeed_zero", "formats.llamafactory_v1", "formats.schema_messages"),
    *("memory.layers.delta", "memory.layers.latent", "memory.layers.mamba2", "memory.layers.moe", "memory.images"),
    *("memory.fsdp_plan", "memory.towers", "memory.zero", "memory.zero_layout", "memory.generation"),
    *("fixes.hardware_advice", "fixes.json_edits", "fixes.moves", "fixes.planner", "checks.baseline", "settings.toml"),
    *("source.json", "architectures.exact", "architectures.hub", "report.html", "simulation", "plugins"),
}


def test_a_start_imports_what_its_file_asks_for(tmp_path: Path) -> None:
    config = tmp_path / "train.yaml"
    config.write_text(
        "# memlint: gpu=A100-80GB gpus=1\nmodel_name_or_path: Qwen/Qwen2.5-7B\nstage: sft\ndo_train: true\n"
        "finetuning_type: lora\ncutoff_len: 2048\nlr_scheduler_type: constant\nwarmup_ratio: 0.1\n"
    )
    code = "import sys; from memlint.cli import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    command = [sys.executable, "-c", code, "check", config.name]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, check=False, env={"PYTHONPATH": str(ROOT)}
    )

    loaded = set(done.stderr.split())
    assert "memlint.memory.estimate" in loaded
    assert "warning" in done.stdout
    assert {f"memlint.{name}" for name in NOT_FOR_ONE_FLAT_FILE} & loaded == set()
    assert {name for name, _ in modules()} >= NOT_FOR_ONE_FLAT_FILE
