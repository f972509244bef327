"""What programs wrote, and what only a command gives, is no mistake of a config."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memlint.cli import main

LOGGED = "config: !!python/object:argparse.Namespace\n  learning_rate: 1.0e-5\n  per_device_train_batch_size: 4\n"
SCRIPT = """
from argparse import ArgumentParser
from transformers import Trainer, TrainingArguments
parser = ArgumentParser()
parser.add_argument("--learning_rate", type=float)
options = parser.parse_args()
arguments = TrainingArguments("out", learning_rate=%s, per_device_train_batch_size=2)
Trainer("Qwen/Qwen2.5-0.5B", arguments).train()
"""


def _rules(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    main(["check", str(folder), "--no-fixes", "--format", "json"])
    return [one["rule"] for one in json.loads(capsys.readouterr().out)["findings"] if one["severity"] == "error"]


def test_a_dump_of_objects_is_no_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hparams.yaml").write_text(LOGGED)
    assert _rules(tmp_path, capsys) == []


@pytest.mark.parametrize(("value", "found"), [("options.learning_rate", []), ("None", ["CFG002"])])
def test_an_option_without_a_default(
    value: str, found: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT % value)
    assert _rules(tmp_path, capsys) == found
