"""Plug-ins from outside of the package: a rule, a format, an optimizer, an output and a card, by the command line."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path

import pytest

from tests.commands.history import LLAMA
from tests.commands.running import ROOT, memlint, write

TOY = '''
"""A toy of each kind."""
import types

from memlint.ruleset.rule import Hit
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
        ("MEMLINT_API = 1\ndef register(registry):\n    registry.format(object())\n", "has no `NAME`"),
        ("MEMLINT_API = 1\ndef register(registry):\n    registry.output('json', str)\n", "`json` is there already"),
        ("MEMLINT_API = 1\ndef register(registry):\n    registry.optimizer('x', {'states': ['odd']})\n", "`states`"),
        ("MEMLINT_API = 1\ndef register(registry):\n    registry.rule(object())\n", "has no `FIELDS`"),
        ("MEMLINT_API = 1\ndef register(registry):\n    registry.rules('rules/')\n", "is no folder"),
        ("MEMLINT_API = 1\ndef register(registry):\n    registry.rules('configs')\n", "configs/0.yaml:1:1"),
        ("MEMLINT_API = 1\ndef register(registry):\n    registry.optimizer('x', ['param'])\n", "wants a name"),
        (
            "MEMLINT_API = 1\ndef register(registry):\n    registry.optimizer('x', {'states': [], 'singel': 2})\n",
            "no `singel` is known",
        ),
        ("MEMLINT_API = 1\ndef register(registry):\n    registry.output('x', 3)\n", "wants a name and a function"),
        ("MEMLINT_API = 1\ndef register(registry):\n    registry.gpu('A100')\n", "wants a memlint.hardware.model.Gpu"),
        (
            "from memlint.hardware.model import Gpu\nMEMLINT_API = 1\n"
            "def register(registry):\n    registry.gpu(Gpu('X', 1, 1), 'mine')\n",
            "`aliases` is a tuple of texts",
        ),
        ("import sys\nsys.exit(0)\n", "sys.exit(0)"),
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
    assert "can be imported" in memlint(folder, "check", "configs", "--plugin", "outside/toy").err


def test_a_check_that_fails_is_the_plugins_fault(folder: Path) -> None:
    write(folder, {"outside/toy.py": TOY.replace('yield Hit("a batch', '1 / 0; yield Hit("a batch')})
    done = memlint(folder, "check", "configs/0.yaml", "--plugin", "outside/toy.py", "--format", "concise")
    assert "TOY001" in done.out and "MEM000" in done.out and "a bug in memlint" not in done.out


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize(
    ("yields", "said"),
    [
        ("import sys; sys.exit(0)", "it ends Python: sys.exit(0)"),
        ('yield "a batch of one"', "not memlint.ruleset.rule.Hit"),
        ('yield Hit(1, at="batch.micro_batch_size")', "not a Hit of texts"),
        ("return None", "TypeError"),
    ],
)
def test_a_check_that_answers_oddly_is_the_plugins_fault(folder: Path, yields: str, said: str, jobs: str) -> None:
    odd = TOY.replace(
        "    if facts.run.batch.micro_batch_size == 1:\n        yield Hit",
        f"    {yields}\n    if 0:\n        yield Hit",
    )
    write(
        folder,
        {"odd.py": odd.replace('    if 0:\n        yield Hit("a batch of one", at="batch.micro_batch_size")\n', "")},
    )
    done = memlint(folder, "check", "configs", "--plugin", "odd.py", "--format", "concise", "--jobs", jobs)
    assert done.code == 2 and said in done.out and "a bug in a plug-in" in done.out


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("    known = ", "    1 / 0\n    known = ", "`recognise`: ZeroDivisionError"),
        ('"certain" if known', '"sure" if known', "not a Recognition that is certain"),
        ("    value = document.value\n", "    return None\n    value = document.value\n", "not a Parsed"),
        ('return Parsed("toy"', 'return Parsed("tot"', "not a Parsed of format 'toy'"),
        ('{"config": value}', '{"config": value["nowhere"]}', "`parse`: KeyError"),
    ],
)
def test_a_format_that_answers_oddly_is_the_plugins_fault(folder: Path, old: str, new: str, said: str) -> None:
    assert old in TOY
    write(folder, {"odd.py": TOY.replace(old, new, 1)})
    done = memlint(folder, "check", "configs/0.yaml", "--plugin", "odd.py", "--format", "concise")
    assert done.code == 2 and said in done.out and "a bug in a plug-in" in done.out


@pytest.mark.parametrize("answer", ["1 / 0", "None", "3"])
def test_an_output_that_fails_is_the_plugins_fault(folder: Path, answer: str) -> None:
    write(folder, {"odd.py": f"MEMLINT_API = 1\ndef register(r):\n    r.output('odd', lambda report: {answer})\n"})
    done = memlint(folder, "check", "configs", "--plugin", "odd.py", "--format", "odd")
    assert (done.code, done.out) == (2, "")
    assert "odd.py, `render`" in done.err and "Traceback" not in done.err


def test_what_a_plugin_prints_stays_out_of_the_report(folder: Path) -> None:
    loud = 'print("loading")\n' + TOY.replace("def check(facts):\n", 'def check(facts):\n    print("looking")\n')
    write(folder, {"loud.py": loud})
    done = memlint(folder, "check", "configs/0.yaml", "--plugin", "loud.py", "--format", "json")
    assert json.loads(done.out)["findings"]
    assert "loading" in done.err and "looking" in done.err


RULE = """\
id: TOY002
name: toy/large-batch
title: A batch over eight
severity: warning
formats: [toy]
when: batch.micro_batch_size > 8
at: [batch.micro_batch_size]
message: micro batch {batch.micro_batch_size}
why: A toy does not hold more than eight of them.
sources: [nowhere 1.0]
fix:
  - {title: eight, set_key: {config.batch: 8}}
examples:
  - fails: "toy_model: Qwen/Qwen2.5-0.5B\\nbatch: 9\\n"
    fixed: "toy_model: Qwen/Qwen2.5-0.5B\\nbatch: 8\\n"
  - passes: "toy_model: Qwen/Qwen2.5-0.5B\\nbatch: 1\\n"
"""
HELD = 'def register(registry):\n    registry.rules("rules/")\n'
EXAMPLES = '[{"fails": "a: 1\\n"}, {"passes": "a: 2\\n"}]'
BATCHES = '"formats": ["toy"], "examples": '
BATCHES += '[{"fails": "toy_model: Qwen/Qwen2.5-0.5B\\n"}, {"passes": "toy_model: x\\nbatch: 2\\n"}]'


@pytest.fixture
def shelf(folder: Path) -> Path:
    """A plug-in with a folder of rules beside it, and a rule in Python whose examples are of its own format."""
    toy = TOY.replace("def register(registry):\n", HELD).replace(f'"examples": {EXAMPLES}', BATCHES)
    write(folder, {"outside/toy.py": toy, "outside/rules/toy/TOY002.yaml": RULE})
    return folder


def test_a_folder_of_rules_is_named_from_the_plugins_own_file(shelf: Path) -> None:
    write(shelf, {"many.yaml": CONFIG.format(9, "adamw_torch")})
    told = memlint(shelf, "check", "many.yaml", "--plugin", "outside/toy.py", "--format", "concise")
    assert "TOY002 micro batch 9" in told.out


def test_the_examples_of_a_plugins_rules_can_be_run(shelf: Path) -> None:
    done = memlint(shelf, "test", "--plugin", "outside/toy.py")
    assert (done.code, done.out) == (0, "4 examples, 0 broken\n")
    alone = memlint(shelf, "test", "outside/rules", "--plugin", "outside/toy.py")
    assert (alone.code, alone.out) == (0, "2 examples, 0 broken\n")

    toy = (shelf / "outside/toy.py").read_text().replace("micro_batch_size == 1", "micro_batch_size == 7")
    write(shelf, {"outside/toy.py": toy})
    broken = memlint(shelf, "test", "--plugin", "outside/toy.py")
    assert broken.code == 1 and "TOY001 example 1 must fail, but the rule is silent" in broken.out


def test_a_plugin_that_changed_within_its_second_is_read_anew(shelf: Path) -> None:
    path = shelf / "outside/toy.py"
    assert memlint(shelf, "test", "--plugin", "outside/toy.py").code == 0
    stamp = path.stat()
    path.write_text(path.read_text().replace("micro_batch_size == 1", "micro_batch_size == 7"))
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))

    assert memlint(shelf, "test", "--plugin", "outside/toy.py").code == 1


def test_explain_shows_what_a_plugins_rule_in_python_says(shelf: Path) -> None:
    page = memlint(shelf, "explain", "TOY001", "--plugin", "outside/toy.py").out
    assert "toy_model: Qwen/Qwen2.5-0.5B" in page and "Passes" in page


def test_estimate_and_diff_know_plugins(folder: Path) -> None:
    table = memlint(folder, "estimate", "configs/0.yaml", "--plugin", "outside/toy.py", "--gpu", "toy")
    assert table.code == 0 and "Toy-1GB" in table.out
    assert "--plugin" in memlint(folder, "diff", "--help").out


def test_plugins_that_are_left_out_are_told_once(folder: Path) -> None:
    write(folder, {"memlint.yaml": "plugins: [outside/toy.py]\n"})
    assert memlint(folder, "estimate", "configs").err.count("not loaded") == 1
    assert memlint(folder, "check", "configs", "--format", "concise").err.count("not loaded") == 1


def test_the_pages_example_works_as_it_stands(tmp_path: Path) -> None:
    page = (ROOT / "docs/plugins.md").read_text(encoding="utf-8")
    example = page.partition("```python\n# corp.py\n")[2].partition("```")[0]
    write(tmp_path, {"corp.py": example, "train.yaml": LLAMA + "\nwarmup_ratio: 0.5\n"})
    assert memlint(tmp_path, "test", "--plugin", "corp.py").out == "2 examples, 0 broken\n"
    told = memlint(tmp_path, "check", "train.yaml", "--plugin", "corp.py", "--gpu", "x1", "--format", "concise")
    assert "COR001 half of the run warms up" in told.out and told.err == ""
    counts = memlint(tmp_path, "check", "train.yaml", "--plugin", "corp.py", "--format", "counts")
    assert counts.out.startswith("train.yaml ")


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
    assert [path.parent.name for path in users] == ["plugins"]
