"""What is said of a run that has no figure: by `check`, and by each field."""

from __future__ import annotations

from pathlib import Path

from memlint.memory.values import UnknownField
from memlint.report import unknowns
from tests.commands.history import LLAMA
from tests.commands.running import memlint, write

SCRIPT = "swift sft --model Qwen/Qwen2.5-7B-Instruct --tuner_type lora --per_device_train_batch_size 1\n"
WHY = "not estimated, because sequence.length is unknown: `max_length` is not set"


def test_check_says_why_a_run_has_no_figure(tmp_path: Path) -> None:
    write(tmp_path, {"train.sh": SCRIPT})
    assert f"train.sh: {WHY}" in memlint(tmp_path, "check", "train.sh").out
    assert f"- train.sh: {WHY}" in memlint(tmp_path, "check", "train.sh", "--format", "markdown").out
    assert "not estimated" not in memlint(tmp_path, "check", "train.sh", "--quiet").out


def test_of_many_runs_only_the_first_are_told(tmp_path: Path) -> None:
    write(tmp_path, {f"{number}.sh": SCRIPT for number in range(8)})
    told = memlint(tmp_path, "check", ".").out
    assert told.count("not estimated, because") == 5
    assert "3 more runs not estimated: `memlint estimate` says why" in told


def test_what_a_finding_says_is_not_said_again(tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": LLAMA.replace("meta-llama/Meta-Llama-3-8B", "us/our-own")})
    told = memlint(tmp_path, "check", "train.yaml").out
    assert "MOD001" in told and "not estimated, because" not in told


def test_a_model_can_be_named() -> None:
    assert unknowns.words(UnknownField("model.name", "no name")) == (
        "no name (--model NAME sizes it with a model that you name)"
    )


def test_a_program_s_own_option_is_no_word_on_how_to_name_a_model() -> None:
    said = unknowns.words(UnknownField("model.architecture", "the commands of the repository differ in `--model_path`"))
    assert said.endswith(" (--model NAME sizes it with a model that you name)")
    assert unknowns.words(UnknownField("model.name", "a placeholder: give --model")) == "a placeholder: give --model"
