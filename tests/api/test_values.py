"""Results as values: copied, compared, sent to other processes, and written as JSON."""

from __future__ import annotations

import asyncio
import copy
import json
import multiprocessing
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memlint
from tests.api.test_calls import TEXT

GPU = "RTX4090"
RESULTS: dict[str, Callable[[], Any]] = {
    "estimate": lambda: memlint.estimate(TEXT, gpu=GPU, gpus=1),
    "check": lambda: memlint.check(TEXT, gpu=GPU, gpus=1),
    "plan": lambda: memlint.plan(TEXT, gpu=GPU, gpus=1),
    "fix": lambda: memlint.fix(TEXT, gpu=GPU, gpus=1, unsafe=True),
}
# What a program that is type-checked strictly may write.
TYPED = """
from pathlib import Path
import memlint
from memlint import CheckResult, Error, Estimate, Finding, FixResult, PlanResult, Run

def main(path: Path) -> float:
    one: Estimate = memlint.estimate(path, gpu="A100-80GB", gpus=8, versions={"trl": "0.19"})
    many: tuple[Estimate, ...] = memlint.estimates("a: 1", files={"z.json": {"a": 1}})
    run: Run = one.run
    other = memlint.estimate(run._replace(batch=run.batch._replace(micro_batch_size=2)))
    result: CheckResult = memlint.check([path, "folder"], select=["MEM001"])
    finding: Finding = result.findings[0]
    plan: PlanResult = memlint.plan({"a": 1}, goal="batch")
    fixed: FixResult = memlint.fix(path, unsafe=True)
    print(finding.rule, finding.location.line, plan.to_dict(), fixed.diff(), many, other.fits)
    try:
        return (one.gib or 0.0) + one.components["weights"] + one.phases[0].components["weights"]
    except Error as error:
        return float(error.line)
"""


def asked(gpu: str) -> memlint.Estimate:
    return memlint.estimate(TEXT, gpu=gpu, gpus=1)


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_a_value(name: str) -> None:
    found = RESULTS[name]()

    assert found == RESULTS[name](), "the same question has an equal answer"
    assert pickle.loads(pickle.dumps(found)) == found
    assert copy.copy(found) == copy.deepcopy(found) == found
    told = found.to_dict()
    assert json.loads(json.dumps(told)) == told
    assert len(repr(found)) < 300 or name == "plan", "an interactive session shows one line"
    assert str(found)
    assert found._repr_html_()


@pytest.mark.parametrize("name", ["verdict", "run", "gib", "anything"])
def test_a_result_cannot_be_changed(name: str) -> None:
    found = asked(GPU)
    with pytest.raises(AttributeError):
        setattr(found, name, None)


def test_figures_at_hand() -> None:
    found = asked("H200")

    assert found.gib is not None and found.device_bytes is not None
    assert found.gib == found.device_bytes / 2**30
    assert sum(found.components.values()) == found.allocated_bytes
    assert repr(found).startswith("<memlint.Estimate 'config.yaml': ")
    nothing = memlint.estimate(re.sub("model_name_or_path: .*", "model_name_or_path: our/model", TEXT))
    assert nothing.gib is None
    assert dict(nothing.components) == {}


def test_an_error_is_a_value() -> None:
    error = pickle.loads(pickle.dumps(memlint.Error("words", "a.yaml", 2, 3)))

    assert (str(error), error.path, error.line, error.column) == ("words", "a.yaml", 2, 3)


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_processes_answer_alike(method: str) -> None:
    cards = ["A100-80GB", "RTX4090", "H200"]
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.map(asked, cards)

    assert found == [asked(card) for card in cards]


def test_an_event_loop_may_ask_from_its_threads() -> None:
    async def ask() -> list[memlint.Estimate]:
        return await asyncio.gather(*(asyncio.to_thread(asked, card) for card in ("A100-80GB", "RTX4090") * 4))

    assert asyncio.run(ask()) == [asked("A100-80GB"), asked("RTX4090")] * 4


def test_a_user_is_type_checked_strictly(tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text(TYPED, encoding="utf-8")
    words = ("--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path / "cache"), "use.py")
    root = str(Path(__file__).parents[2])

    done = subprocess.run(
        [sys.executable, "-m", "mypy", *words],
        cwd=tmp_path,
        env={"MYPYPATH": root, "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
