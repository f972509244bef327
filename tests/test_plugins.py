"""Plug-ins from outside of the package: a rule, a format, an optimizer, an output and a card, by the command line."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "commands"))
from history import LLAMA
from running import ROOT, memlint, write

TOY = '''
"""A toy of each kind."""
import types

from memlint.checks.rule import Hit
from memlint.formats.base import Parsed, Recognition
from memlint.hardware.model import Gpu
from memlint.run import Attention, Batch, Checkpointing, Hardware, Loss, Method, Model
from memlint.run import Optimizer, Origin, Parallelism, Precision, Run, Sequence

MEMLINT_API = 1
WHERE = Origin("file", "", 1, 1)

FIELDS = {
    "id": "TOY001", "name": "toy/small-batch", "title": "A batch of one", "severity": "warning",
    "at": ["batch.micro_batch_size"], "why": "A batch of one leaves the card idle most of the time.",
    "sources": ["nowhere 1.0"],
    "examples": [{"fails": "a: 1\\n"}, {"passes": "a: 2\\n"}],
}


def check(facts):
    if facts.run.batch.micro_batch_size == 1:
        yield Hit("a batch of one", at="batch.micro_batch_size")


def recognise(document):
    known = isinstance(document.value, dict) and "toy_model" in document.value
    return Recognition("certain" if known else "no", reason="toy_model")


def parse(document, context):
    value = document.value
    found = context.find_model(value["toy_model"], document.path)
    run = Run(
        "toy", document.path,
        model=Model(value["toy_model"], found.architecture, weights_dtype="float32"),
        method=Method("full", stage="sft"),
        precision=Precision("float32", False, "float32", False, outputs_to_fp32=False),
        batch=Batch(value.get("batch", 1), 1),
        sequence=Sequence(64),
        optimizer=Optimizer(value.get("optimizer", "adamw_torch")),
        parallelism=Parallelism(1, 1, 1),
        hardware=Hardware(context.gpu),
        checkpointing=Checkpointing("none"),
        attention=Attention("sdpa"),
        loss=Loss("plain"),
        origins={"batch.micro_batch_size": WHERE._replace(path=document.path, pointer=("batch",))},
    )
    return Parsed("toy", (run,), (), (document,), {"config": value}, {"config": (document.path, ())})


def edits(parsed, run, changes):
    return None


def render(report):
    return "".join(f"{file.path}={len(file.findings)};" for file in report.files) + "\\n"


def register(registry):
    here = types.SimpleNamespace(
        NAME="toy", DIALECT="yaml12", SCHEMA="toy.json", recognise=recognise, parse=parse, edits=edits
    )
    registry.rule(types.SimpleNamespace(FIELDS=FIELDS, check=check))
    registry.format(here)
    registry.optimizer("toy_state_of_three", {"states": ["param", "param", "param"]})
    registry.output("toy", render)
    registry.gpu(Gpu("Toy-1GB", 1 << 30, 1 << 30, (9, 0), "nvidia", 1 << 20, True, 2, False), ("toy",))
'''
CONFIG = "toy_model: Qwen/Qwen2.5-0.5B\nbatch: {}\noptimizer: {}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {f"configs/{index}.yaml": CONFIG.format(1, "toy_state_of_three") for index in range(4)}
    write(tmp_path, {"outside/toy.py": TOY, **files, "configs/other.yaml": LLAMA})
    return tmp_path


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_plugin_adds_one_of_each(folder: Path, jobs: str) -> None:
    arguments = ("check", "configs", "--plugin", "outside/toy.py", "--gpu", "toy", "--jobs", jobs, "--no-fixes")
    found = json.loads(memlint(folder, *arguments, "--format", "json").out)

    toy = [item for item in found["findings"] if item["rule"] == "TOY001"]
    expected = [*(f"configs/{index}.yaml" for index in range(4)), "configs/other.yaml"]
    assert [item["location"]["path"] for item in toy] == expected
    runs = {run["path"]: run for run in found["runs"]}
    assert runs["configs/0.yaml"]["format"] == "toy"
    assert runs["configs/0.yaml"]["hardware"]["gpu"] == "Toy-1GB"
    assert runs["configs/0.yaml"]["verdict"] == "out_of_memory"
    states = runs["configs/0.yaml"]["phases"][-1]["components"]["optimizer_states"]
    assert states >= 3 * 4 * runs["configs/0.yaml"]["model"]["parameters"]

    shown = memlint(folder, *arguments, "--format", "toy").out
    assert shown.startswith("configs/0.yaml=") and shown.count(";") == 5
    assert "TOY001" in memlint(folder, "rules", "--plugin", "outside/toy.py").out


def test_nothing_is_there_without_it(folder: Path) -> None:
    found = json.loads(memlint(folder, "check", "configs", "--format", "json", "--no-fixes").out)
    assert not any(item["rule"] == "TOY001" for item in found["findings"])
    assert memlint(folder, "check", "configs", "--format", "toy").code == 2
    assert memlint(folder, "check", "configs", "--gpu", "toy").code == 2


def test_a_repository_cannot_make_its_plugins_run(folder: Path) -> None:
    write(folder, {"memlint.yaml": "plugins: [outside/toy.py]\n"})
    told = memlint(folder, "check", "configs", "--format", "concise")
    assert "outside/toy.py" in told.err and "--allow-plugins" in told.err
    assert "TOY001" not in told.out and told.code in (0, 1)

    allowed = memlint(folder, "check", "configs", "--format", "concise", "--allow-plugins")
    assert "TOY001" in allowed.out and allowed.err == ""


def test_the_users_own_settings_may_name_plugins(folder: Path) -> None:
    write(folder, {"home/memlint/memlint.yaml": "plugins: [../../outside/toy.py]\n"})
    home = {"XDG_CONFIG_HOME": str(folder / "home")}
    assert "TOY001" in memlint(folder, "check", "configs", "--format", "concise", environment=home).out
    isolated = memlint(folder, "check", "configs", "--format", "concise", "--isolated", environment=home)
    assert "TOY001" not in isolated.out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("MEMLINT_API = 1\ndef register(registry):\n    1 / 0\n", "ZeroDivisionError: division by zero"),
        ("this is no Python", "SyntaxError"),
        ("def register(registry): pass\n", "says no `MEMLINT_API`"),
        ("MEMLINT_API = 99\ndef register(registry): pass\n", "is for version 99"),
        ("MEMLINT_API = 1\n", "no function `register(registry)`"),
        ("MEMLINT_API = 1\ndef register(registry):\n    registry.format(object())\n", "has no NAME"),
        ("MEMLINT_API = 1\ndef register(registry):\n    registry.output('json', str)\n", "`json` is there already"),
        ("MEMLINT_API = 1\ndef register(registry):\n    registry.optimizer('x', {'states': ['odd']})\n", "`states`"),
        ("MEMLINT_API = 1\ndef register(registry):\n    registry.rule(object())\n", "has no `FIELDS`"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_named(folder: Path, text: str, said: str) -> None:
    write(folder, {"bad.py": text})
    done = memlint(folder, "check", "configs", "--plugin", "bad.py")
    assert (done.code, done.out) == (2, "")
    assert "bad.py" in done.err and said in done.err
    assert "Traceback" not in done.err and "bug in memlint" not in done.err


def test_a_missing_plugin_is_told(folder: Path) -> None:
    assert "there is no such file" in memlint(folder, "check", "configs", "--plugin", "none.py").err
    assert "none_such_module" in memlint(folder, "check", "configs", "--plugin", "none_such_module").err


def test_a_check_that_fails_is_the_plugins_fault(folder: Path) -> None:
    write(folder, {"outside/toy.py": TOY.replace('yield Hit("a batch', '1 / 0; yield Hit("a batch')})
    done = memlint(folder, "check", "configs/0.yaml", "--plugin", "outside/toy.py", "--format", "concise")
    assert "TOY001" in done.out and "MEM000" in done.out and "a bug in memlint" not in done.out


def test_there_is_one_registry() -> None:
    """Nothing looks for plug-ins among installed packages, and one module alone fills what rooms read."""
    registries = []
    for path in sorted((ROOT / "memlint").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("entry_points", "iter_modules")
            for node in ast.walk(tree)
        ):
            registries.append(path.name)
    assert registries == []
    users = [path for path in (ROOT / "memlint").rglob("*.py") if "extensions.formats.append" in path.read_text()]
    assert [path.name for path in users] == ["plugins.py"]
