"""The library's functions: the command line's answers, as values, from any thread."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memlint
from tests.commands.running import memlint as command
from tests.commands.running import write

ROOT = Path(__file__).parents[2]
LLAMA = ROOT / "examples/llamafactory/qwen2_5_1_5b_eager_long.yaml"
LINES = LLAMA.read_text(encoding="utf-8").splitlines(keepends=True)
TEXT = "".join(line for line in LINES if not line.startswith("# memlint:"))
BATCH = "per_device_train_batch_size: 4"
FACTS = "gpu gpus gpus_per_node model images longest_sample versions settings isolated"

# What is public, and cannot change without a word to those who call it.
SIGNATURES = {
    "estimate": f"source path files {FACTS} question",
    "estimates": f"source path files {FACTS}",
    "check": f"source path files {FACTS} select ignore fixes",
    "plan": f"source path files {FACTS} goal keep most_cards",
    "fix": f"source path files {FACTS} unsafe rules number",
}
MEMBERS = {
    "Estimate": (
        "allocated_bytes budget_bytes components device_bytes device_high_bytes device_low_bytes fits fits_on gib "
        "parameters path peak_phase phases report reserved_bytes run to_dict trainable_parameters unknown verdict "
        "verdict_words"
    ),
    "CheckResult": "estimates findings report runs to_dict worst",
    "PlanResult": "runs to_dict",
    "FixResult": "applied before changed contents diff not_applied on_disk originals to_dict write",
}


def test_the_public_names_are_these() -> None:
    names = {*SIGNATURES, *MEMBERS, "Error", "Finding", "Run", "__version__"}
    assert set(memlint.__all__) == names
    assert names <= set(dir(memlint))
    assert all(getattr(memlint, name) is not None for name in names)
    with pytest.raises(AttributeError, match="estimat"):
        memlint.estimat  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_functions_parameters_are_these(name: str) -> None:
    signature = inspect.signature(getattr(memlint, name))

    assert " ".join(signature.parameters) == SIGNATURES[name]
    first, *rest = signature.parameters.values()
    assert first.kind is inspect.Parameter.POSITIONAL_ONLY
    named = [one for one in rest if one.kind is not inspect.Parameter.VAR_KEYWORD]
    assert len(rest) - len(named) == (name == "estimate"), "the fields of a question"
    assert all(one.kind is inspect.Parameter.KEYWORD_ONLY for one in named)
    assert all(one.default is not inspect.Parameter.empty for one in named)


@pytest.mark.parametrize("name", MEMBERS)
def test_a_results_members_are_these(name: str) -> None:
    members = {each for each in dir(getattr(memlint, name)) if not each.startswith("_")} - {"count", "index"}

    assert members == set(MEMBERS[name].split())


def test_an_import_imports_nothing() -> None:
    code = "import sys; before = set(sys.modules); import memlint; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)

    assert done.stdout.split() == ["memlint"]


def test_an_estimate_imports_no_pytorch() -> None:
    code = (
        "import sys, memlint; memlint.check('examples/trainer', gpu='H100', gpus=8)\n"
        "print({'torch', 'transformers', 'accelerate', 'peft'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)

    assert done.stdout == "set()\n"


def test_results_are_what_the_command_line_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"train.yaml": TEXT})
    words = ("train.yaml", "--gpu", "A100-80GB", "--gpus", "1")
    card = {"gpu": "A100-80GB", "gpus": 1}

    estimate = memlint.estimate("train.yaml", **card)
    assert json.loads(command(tmp_path, "estimate", *words, "--format", "json").out)["runs"] == [estimate.to_dict()]
    assert command(tmp_path, "estimate", *words, "--no-color").out.rstrip("\n") == str(estimate)
    found = memlint.check("train.yaml", **card)
    assert json.loads(command(tmp_path, *words, "--format", "json").out)["findings"] == found.to_dict()["findings"]
    assert command(tmp_path, *words, "--no-color").out.rstrip("\n") == str(found)
    plan = memlint.plan("train.yaml", **card)
    assert json.loads(command(tmp_path, "plan", *words, "--format", "json").out) == plan.to_dict()
    printed, _, hint = command(tmp_path, "plan", *words).out.rstrip("\n").rpartition("\n\n")
    assert printed == str(plan) and hint.startswith("to write plan 1: memlint fix --plan 1 train.yaml")
    fixed = memlint.fix("train.yaml", **card)
    assert command(tmp_path, "fix", *words, "--diff").out == fixed.diff() != ""


def test_a_path_a_text_and_a_dict_of_the_same_config_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml

    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"train.yaml": TEXT})
    sources: tuple[Any, ...] = ("train.yaml", Path("train.yaml"), TEXT, yaml.safe_load(TEXT))

    found = [memlint.estimate(source, gpu="A100-80GB", gpus=1) for source in sources]

    assert len({(one.device_low_bytes, one.device_bytes, one.device_high_bytes, one.verdict) for one in found}) == 1
    assert found[0].device_bytes is not None
    again = memlint.estimate(found[0].run)
    assert again.device_bytes == found[0].device_bytes


def test_a_file_that_changes_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"train.yaml": TEXT})
    first = memlint.estimate("train.yaml")
    write(tmp_path, {"train.yaml": TEXT.replace(BATCH, BATCH.replace("4", "1"))})
    second = memlint.estimate("train.yaml")
    write(tmp_path, {"memlint.yaml": "gpu: RTX4090\n"})
    third = memlint.estimate("train.yaml")
    write(tmp_path, {"memlint.yaml": "gpu: H200\n# another size\n"})
    fourth = memlint.estimate("train.yaml")

    assert first.device_bytes and second.device_bytes and second.device_bytes < first.device_bytes
    assert first.budget_bytes is None
    assert third.report.hardware.gpu == "RTX 4090"
    assert fourth.report.hardware.gpu == "H200"


def test_eight_threads_get_their_own_answers() -> None:
    batches = range(1, 9)
    texts = {number: TEXT.replace(BATCH, f"per_device_train_batch_size: {number}") for number in batches}
    cards = ("A100-80GB", "RTX4090")
    alone = {(each, card): memlint.estimate(texts[each], gpu=card).to_dict() for each in batches for card in cards}
    wrong: list[object] = []
    start = threading.Barrier(len(batches))

    def ask(number: int) -> None:
        start.wait()
        for _ in range(6):
            for card in cards:
                if memlint.estimate(texts[number], gpu=card).to_dict() != alone[number, card]:
                    wrong.append((number, card))

    threads = [threading.Thread(target=ask, args=(number,)) for number in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []
    assert len({json.dumps(told["peak"]) for told in alone.values()}) == len(alone)


@pytest.mark.parametrize(
    ("call", "words", "place"),
    [
        (lambda: memlint.estimate("nowhere.yaml"), "No such file", ("nowhere.yaml", 1)),
        (lambda: memlint.estimate("a: 1\nb: [", path="x.yaml"), "closed", ("x.yaml", 2)),
        (lambda: memlint.estimate("a: 1\n"), "no training config", ("config.yaml", 0)),
        (lambda: memlint.estimate({}), "no training config", ("config.json", 0)),
        (lambda: memlint.estimate(str(ROOT / "examples")), "a folder", None),
        (lambda: memlint.estimate(TEXT, gpu="nothing"), "unknown GPU", ("", 0)),
        (lambda: memlint.estimate(TEXT, gpus=0), "whole number", ("", 0)),
        (lambda: memlint.estimate(TEXT, versions={"torhc": "2"}), "unknown package", ("", 0)),
        (lambda: memlint.estimate(TEXT, versions={"torch": "new"}), "no version", ("", 0)),
        (lambda: memlint.plan(TEXT, goal="more"), "goal", ("", 0)),
        (lambda: memlint.check("nowhere.yaml"), "no such file", ("", 0)),
        (lambda: memlint.check(TEXT, select=["NOPE99"]), "NOPE99", ("", 0)),
    ],
)
def test_what_cannot_be_judged_is_an_error_with_its_place(
    call: Callable[[], object], words: str, place: tuple[str, int] | None, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(memlint.Error, match=words) as told:
        call()

    assert place is None or (told.value.path, told.value.line) == place
    assert capfd.readouterr() == ("", "")


def test_several_runs_are_asked_for_by_their_own_name() -> None:
    several = f"{TEXT}---\n{TEXT}"

    assert len(memlint.estimates(several)) == 2
    with pytest.raises(memlint.Error, match="2 runs"):
        memlint.estimate(several)


def test_a_folder_is_checked_like_the_command_does() -> None:
    found = memlint.check(ROOT / "examples/trainer", gpu="A100-80GB", gpus=8, fixes=False)

    assert len(found.runs) == len(found.to_dict()["runs"]) > 1
    assert {run.report.hardware.gpu for run in found.runs} == {"A100-80GB"}


def test_fixes_are_written_when_told_and_never_over_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"train.yaml": TEXT})
    fixed = memlint.fix("train.yaml", gpu="A100-80GB", gpus=1)
    assert Path("train.yaml").read_text(encoding="utf-8") == TEXT

    fixed.write()

    assert Path("train.yaml").read_text(encoding="utf-8") == fixed.contents["train.yaml"] != TEXT
    assert memlint.estimate("train.yaml", gpu="A100-80GB", gpus=1).fits
    with pytest.raises(memlint.Error):
        fixed.write()
    with pytest.raises(memlint.Error, match="in memory"):
        memlint.fix(TEXT, gpu="A100-80GB", gpus=1).write()


def test_html_escapes_what_a_config_says() -> None:
    hostile = TEXT.replace("Qwen/Qwen2.5-1.5B-Instruct", "'<script>alert(1)</script>'")
    for result in (memlint.estimate(hostile), memlint.check(hostile), memlint.plan(hostile), memlint.fix(hostile)):
        html = result._repr_html_()
        assert "<script" not in html
        assert html.startswith(("<div", "<pre"))
    assert "&lt;script" in memlint.estimate(hostile)._repr_html_()


def test_keywords_alone_ask_what_the_command_line_asks(tmp_path: Path) -> None:
    asked = ["--model", "llama-3-8b", "--method", "qlora", "--length", "4096", "--gpu", "RTX4090", "--zero", "2"]
    told = json.loads(command(tmp_path, "estimate", *asked, "--gpus", "2", "--format", "json").out)["runs"][0]

    found = memlint.estimate(model="llama-3-8b", method="qlora", length=4096, gpu="RTX4090", gpus=2, zero=2)

    assert found.to_dict() == told
    assert (found.run.sequence.length, found.run.parallelism.world_size) == (4096, 2)
    assert memlint.estimate(layers=32, hidden=4096, method="full", gpu="24GiB").parameters == 6_738_415_616


@pytest.mark.parametrize(
    ("keywords", "reason"),
    [
        ({}, "no model: name one"),
        ({"model": "phi-2", "lenght": 4096}, "did you mean --length"),
        ({"model": "llama-3-8bb"}, "did you mean meta-llama"),
        ({"model": "phi-2", "zero": 5}, "one of 0, 1, 2, 3"),
        ({"model": "phi-2", "length": "4096"}, "wants a whole number"),
        ({"model": "phi-2", "gpu": "A100-80TB"}, "unknown GPU"),
        ({"model": "phi-2", "gpus": 0}, "--gpus 0"),
        ({"model": "phi-2", "images": 3}, "images=: is about a file"),
        ({"model": "phi-2", "files": {}}, "files=: is about a file"),
        ({"model": "phi-2", "versions": {"trll": "1.0"}}, "unknown package"),
    ],
)
def test_keywords_that_ask_nothing_are_errors(keywords: dict[str, Any], reason: str) -> None:
    with pytest.raises(memlint.Error, match=reason):
        memlint.estimate(**keywords)


def test_a_source_answers_for_itself() -> None:
    with pytest.raises(memlint.Error, match="method=: asks about a run without a file"):
        memlint.estimate(TEXT, method="qlora")
