"""examples/scale: what an engine calls for each row, and what is asked before a job is submitted."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

import memlint
from benchmarks.speed.make_configs import configs
from tests.commands.history import LLAMA
from tests.commands.running import write

SCALE = Path(__file__).parents[2] / "examples/scale"
TASK = """
resources:
  accelerators: {card}:1
run: |
  trl sft --model_name_or_path Qwen/Qwen2.5-7B --dataset_name x --output_dir out --max_length 4096 --bf16
"""


def example(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, SCALE / f"{name}.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_a_row_is_what_check_says_of_it() -> None:
    rows = example("rows")
    texts = dict(configs(20))

    found = rows.check_batch({"path": list(texts), "text": list(texts.values())})

    assert found["path"] == list(texts)
    for index, (path, text) in enumerate(texts.items()):
        alone = memlint.check(text, path=path, gpu=rows.GPU, fixes=False)
        assert found["verdict"][index] == alone.runs[0].verdict
        assert found["device_bytes"][index] == alone.runs[0].device_bytes
        assert len(json.loads(found["findings"][index])) == len(alone.findings)


@pytest.mark.parametrize("text", ["", "a: 1", "a: [", "\0", "just words", "{}", "- 1\n- 2", "é\ud800"])
def test_a_row_that_is_no_config_is_a_row_all_the_same(text: str) -> None:
    row = example("rows").check_row("x.yaml", text)

    assert row["verdict"] == "no training config"
    assert row["device_bytes"] is None


@pytest.mark.parametrize(("card", "code"), [("RTX4090", 1), ("H200", 0)])
def test_a_submission_is_checked_first(
    card: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"train.yaml": LLAMA.replace("cutoff_len: ", "cutoff_len: 1"), "task.yaml": TASK.format(card=card)})
    stub = (sys.executable, "-c", "print('submitted')")

    assert example("ray_submit").submit("train.yaml", card, 1, stub) == code
    assert ("submitted" in capfd.readouterr().out) == (code == 0)
    assert example("sky_launch").launch("task.yaml", stub) == code
    assert ("submitted" in capfd.readouterr().out) == (code == 0)
