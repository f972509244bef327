"""What the verbs say of names: cards, rules in any case, files of the checked folder, rules of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memlint.cli import main

TRAINING = """
model_name_or_path: Qwen/Qwen2.5-1.5B
output_dir: out
per_device_train_batch_size: 2
gradient_accumulation_steps: 4
learning_rate: 1.0e-5
num_train_epochs: 1
bf16: true
"""
LAUNCH = """
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
mixed_precision: bf16
num_machines: 1
num_processes: 8
fsdp_config:
  fsdp_version: 2
"""
RULE = """
id: OWN001
name: own/long-sequences
title: Sequences of our own
severity: warning
formats: [trainer]
when: batch.micro_batch_size == 2
at: [batch.micro_batch_size]
message: the house takes one sequence
why: The house decided so when it bought its first card.
sources: [our handbook]
examples:
  - fails: |
{fails}
  - passes: |
{passes}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.yaml").write_text(TRAINING)
    (tmp_path / "launch.yaml").write_text(LAUNCH)
    return tmp_path


def test_a_launch_file_of_the_checked_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", ".", "--with", "launch.yaml", "--exit-zero"]) == 0
    (folder / "memlint.yaml").write_text("with: launch.yaml\n")
    assert main(["check", ".", "--exit-zero"]) == 0
    capsys.readouterr()


def test_a_launch_file_that_is_not_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", ".", "--with", "lunch.yaml"]) == 2
    assert "lunch.yaml" in capsys.readouterr().err


def test_a_file_that_launches_nothing_is_no_launch_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", ".", "--with", "train.yaml"]) == 2
    told = "memlint: --with train.yaml: neither a launch file of accelerate nor a file of DeepSpeed\n"
    assert capsys.readouterr().err == told


def test_a_broken_link_is_not_suggested_for_itself(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "dead.yaml").symlink_to("nowhere.yaml")
    assert main(["check", "dead.yaml"]) == 2
    assert capsys.readouterr().err == "memlint: dead.yaml: a symbolic link that leads nowhere\n"


@pytest.mark.parametrize("selector", ["PRE010", "pre010", "Precision/Half-Weights-Without-Master", "pre"])
def test_rules_are_named_in_any_case(folder: Path, selector: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "train.yaml", "--select", selector, "--exit-zero", "--format", "json"])
    rules = {finding["rule"] for finding in json.loads(capsys.readouterr().out)["findings"]}
    assert rules == {"PRE010"}


def test_an_unknown_card_gets_suggestions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "train.yaml", "--gpu", "H1000"]) == 2
    assert "did you mean H100-80GB" in capsys.readouterr().err


def test_cards_are_listed_with_their_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("A100-80GB ") and "p4de.24xlarge (8)" in line for line in lines)
    assert main(["cards", "--format", "json"]) == 0
    cards = json.loads(capsys.readouterr().out)["cards"]
    assert {"name", "vendor", "nominal_bytes", "usable_bytes", "machines"} == cards[0].keys()


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("4090",), {"RTX 4090", "RTX 4090 48GB", "RTX 4090 Laptop"}),
        (("a100", "80"), {"A100-80GB"}),
        (("p4de.24xlarge",), {"A100-80GB"}),
    ],
)
def test_cards_are_found_by_words(words: tuple[str, ...], names: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards", *words, "--format", "json"]) == 0
    found = {card["name"] for card in json.loads(capsys.readouterr().out)["cards"]}
    assert {name for name in found if "MIG" not in name} == names


def test_a_card_that_is_not_there_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards", "H1000"]) == 2
    assert "did you mean H100-80GB" in capsys.readouterr().err


def test_a_path_without_a_config_fails_where_that_is_asked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "notes.yaml").write_text("a: 1\n")
    assert main(["check", "notes.yaml"]) == 0
    assert main(["check", "notes.yaml", "train.yaml", "--strict-files", "--exit-zero"]) == 2
    assert "notes.yaml: no config that memlint knows" in capsys.readouterr().err
    assert main(["check", ".", "--strict-files", "--exit-zero"]) == 0


def test_an_estimate_of_nothing_fails(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "notes.yaml").write_text("a: 1\n")
    assert main(["estimate", "notes.yaml"]) == 2
    assert main(["estimate", "train.yaml"]) == 0
    assert "nothing to estimate" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--total_steps 9", "`pretrain.py`, which"),
        (
            "--tensor-model-parallel-size 8 --num-layers 48 --hidden-size 5120",
            "`pretrain.py` with Megatron-LM's arguments, which",
        ),
    ],
)
def test_a_script_of_which_nothing_is_estimated_says_what_it_starts(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: str, said: str
) -> None:
    (folder / "run.sh").write_text(f"torchrun --nproc_per_node 8 pretrain.py --lr 1e-5 {arguments}\n")
    assert main(["estimate", "run.sh"]) == 2
    assert capsys.readouterr().out == f"nothing to estimate: run.sh starts {said} memlint does not read\n"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("SFTTrainer(model=load(), args=made()).train()", "train.py may train, and its code could not be followed to"),
        ("print(1)", "no training config among these files"),
    ],
)
def test_a_python_file_of_which_nothing_is_estimated_says_that_it_may_train(
    folder: Path, capsys: pytest.CaptureFixture[str], code: str, said: str
) -> None:
    (folder / "train.py").write_text(f"from elsewhere import SFTTrainer, load, made\n{code}\n")
    assert main(["estimate", "train.py"]) == 2
    assert capsys.readouterr().out.startswith(f"nothing to estimate: {said}")


def test_rules_of_ones_own_are_explained_and_tested(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "rules").mkdir()
    fails = "".join(f"      {line}\n" for line in TRAINING.strip().splitlines())
    passes = fails.replace("batch_size: 2", "batch_size: 1")
    (folder / "rules" / "OWN001.yaml").write_text(RULE.format(fails=fails, passes=passes))
    (folder / "memlint.yaml").write_text("rules_dirs: [rules]\n")
    assert main(["explain", "own001"]) == 0
    assert "Sequences of our own" in capsys.readouterr().out
    assert main(["test"]) == 0
    assert capsys.readouterr().out == "2 examples, 0 broken\n"


def test_a_fix_that_is_passed_over_says_why(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "train.yaml").write_text(TRAINING.replace("gradient_accumulation_steps", "gradient_accumulation_step"))
    main(["fix", "train.yaml", "--diff"])
    said = capsys.readouterr().err
    assert "CFG001 not fixed: its fix may change the training result, `--unsafe` applies it" in said


REFERENCE = """
model_name_or_path: Qwen/Qwen2.5-1.5B
ref_model: meta-llama/Meta-Llama-3-8B
stage: dpo
do_train: true
finetuning_type: full
dataset: dpo_en_demo
template: qwen
cutoff_len: 1024
per_device_train_batch_size: 1
bf16: true
output_dir: out
"""


def test_why_a_fix_is_not_written_is_one_reason_with_and_without_unsafe(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An adapter is its own reference, but the file would still name another: nothing is promised of --unsafe."""
    (folder / "train.yaml").write_text(REFERENCE)
    said = []
    for more in ([], ["--unsafe"]):
        main(["fix", "train.yaml", "--rule", "PRF001", "--gpu", "T4", "--gpus", "1", "--diff", *more])
        said.append(capsys.readouterr().err.splitlines()[0])
    assert all(line.endswith("PRF001 would still be there") for line in said)


WIDE = """
model_name_or_path: Qwen/Qwen2.5-7B
output_dir: out
per_device_train_batch_size: 4
gradient_accumulation_steps: 4
max_length: 4096
learning_rate: 1.0e-5
bf16: true
"""


def test_a_fix_that_writes_a_key_has_the_figures_of_the_changed_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`sync_each_batch` leaves a share of the gradients between micro batches: the peak falls by what it no longer
    keeps whole."""
    (folder / "train.yaml").write_text(WIDE)
    main(["check", "train.yaml", "--with", "launch.yaml", "--gpu", "A100-80GB", "--format", "json", "--exit-zero"])
    found = {one["rule"]: one["fixes"] for one in json.loads(capsys.readouterr().out)["findings"]}
    fix = found["PAR012"][0]
    assert fix["title"] == "reduce after each micro batch"
    assert fix["after"]["device_bytes"] < fix["before"]["device_bytes"] - 2**33


UNKNOWN_MODEL = """model_name_or_path: {0}
output_dir: out
learning_rate: 1.0e-5
per_device_train_batch_size: 1
max_length: 512
dataset_text_field: text
"""


@pytest.mark.parametrize("name", ["./checkpoints/merged", "YOUR_BASE_MODEL", "${MODEL}"])
@pytest.mark.parametrize("verb", ["estimate", "check", "plan"])
def test_a_model_for_a_name_that_nobody_knows(
    folder: Path, name: str, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "own.yaml").write_text(UNKNOWN_MODEL.format(name), encoding="utf-8")
    arguments = [verb, "own.yaml", "--gpu", "A100-80GB", "--gpus", "1", "--isolated"]

    assert main([*arguments, "--model", "Qwen/Qwen2.5-0.5B"]) == 0
    assert "not estimated" not in capsys.readouterr().out
