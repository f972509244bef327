"""Rules are chosen by words that name some; profiles change what they set and nothing that people wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.cli import main

CONFIG = """\
model_name_or_path: Qwen/Qwen2.5-7B
stage: sft
do_train: true
finetuning_type: full
dataset: d
template: qwen
output_dir: o
per_device_train_batch_size: 1
bf16: true
cutoff_len: 1024
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "train.yaml"
    path.write_text(CONFIG)
    return str(path)


@pytest.mark.parametrize("option", ["--select", "--ignore"])
def test_a_word_that_names_no_rule_is_an_error(config: str, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", config, option, "MEM0O1"]) == 2
    assert "no rule is called 'MEM0O1'" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["MEM001", "MEM", "memory", "memory/over-the-card", "all"])
def test_rules_are_chosen_by_id_family_and_name(config: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", config, "--select", word, "--gpu", "T4", "--gpus", "1", "--format", "concise"]) == 1
    assert "MEM001" in capsys.readouterr().out


def test_a_rule_that_is_not_chosen_is_silent(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", config, "--ignore", "memory,OPT", "--gpu", "T4", "--gpus", "1", "--format", "concise"]) in (
        0,
        1,
    )
    assert "MEM001" not in capsys.readouterr().out


def test_settings_severity_is_in_force_and_listed(
    config: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(config).parent
    (folder / "memlint.yaml").write_text("gpu: T4\ngpus: 1\nseverity:\n  MEM001: info\n  OPT: info\n")
    monkeypatch.chdir(folder)

    main(["check", "train.yaml", "--format", "concise"])
    assert "info MEM001" in capsys.readouterr().out
    main(["rules", "--select", "MEM001"])
    assert "info" in capsys.readouterr().out


def test_a_profile_of_the_command_line_brings_its_threshold(config: str) -> None:
    folder = Path(config).parent
    (folder / "memlint.yaml").write_text("gpu: T4\ngpus: 1\nseverity: {all: warning}\n")

    assert main(["check", config, "--profile", "ci"]) == 0
    assert main(["check", config, "--profile", "default"]) == 1
