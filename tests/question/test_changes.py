"""What if: the variant of a file is the estimate of that file with the change written into it."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.errors import UsageError
from memlint.hardware.named import named_gpu
from memlint.lint.linter import Linter
from memlint.lint.request import LintRequest, StatedFacts
from memlint.question import files_of, question_of
from memlint.question.changes import FileWhatIf, QuestionWhatIf, Variant, changes_of, is_field
from memlint.question.compare import compare_lines, sweep_lines
from memlint.question.plot import plot
from memlint.question.sweep import sweep_of
from memlint.question.write import write_files
from memlint.report.terminal import PLAIN

ASKED = {"model": "llama-3-8b", "method": "lora", "length": 2048, "zero": 2, "gpus": 2, "gpu": "A100-40GB"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_files(files_of(question_of(ASKED)), str(tmp_path))
    return tmp_path


def what_if(folder: Path) -> FileWhatIf:
    return FileWhatIf(LintRequest(StatedFacts(isolated=True), cwd=str(folder)), "train.yaml")


def tried(folder: Path, *words: str) -> Variant:
    return what_if(folder).variant(" ".join(words), changes_of(words, "--set"))


def test_a_key_is_as_if_it_were_written(folder: Path) -> None:
    found = tried(folder, "per_device_train_batch_size=4", "optim=adamw_8bit").run.estimate
    text = (folder / "train.yaml").read_text(encoding="utf-8")
    text = text.replace("per_device_train_batch_size: 1", "per_device_train_batch_size: 4")
    (folder / "train.yaml").write_text(text.replace("optim: adamw_torch", "optim: adamw_8bit"), encoding="utf-8")
    again = Linter(LintRequest(StatedFacts(isolated=True), cwd=str(folder))).report_file("train.yaml").runs[0].estimate
    assert found.phases == again.phases


def test_nothing_is_written(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    tried(folder, "cutoff_len=64", "zero_optimization.stage=3")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_key_of_a_companion_a_field_and_a_card(folder: Path) -> None:
    base = tried(folder).run
    assert tried(folder, "zero_optimization.stage=3").run.summary.endswith("ZeRO-3")
    assert "4 x 2048" in tried(folder, "batch.micro_batch_size=4").run.summary
    other = tried(folder, "gpu=H100", "gpus=8").run
    assert (other.hardware.gpu, other.hardware.gpus) == ("H100-80GB", 8)
    assert base.hardware.gpu == "A100-40GB"


def test_null_takes_a_key_away(folder: Path) -> None:
    assert "x 2048 tokens" in tried(folder, "cutoff_len=null").run.summary


def test_a_change_is_not_blamed_for_what_was_wrong_before(folder: Path) -> None:
    path = folder / "train.yaml"
    path.write_text(path.read_text() + "fp16: true\n")
    found = tried(folder, "lora_rank=16")
    assert found.refused == ()
    assert found.run.stopped_by == ("PRE011",)
    assert tried(folder, "lora_rank=abc").refused == ("`lora_rank` wants an integer, got the string 'abc'",)


def test_what_the_framework_refuses_is_told(folder: Path) -> None:
    assert any("GaLore" in reason for reason in tried(folder, "use_galore=true").refused)
    assert tried(folder, "lora_rank=16").refused == ()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cutof_len=3"], "did you mean `cutoff_len`"),
        (["cutoff_len"], "wants KEY=VALUE"),
        (["gpu=RTX4099"], "RTX 4090"),
        (["gpus=0"], "whole number of GPUs"),
        (["zero_optimization.stge=3"], "stge"),
    ],
)
def test_a_mistyped_change_is_refused_by_its_word(folder: Path, words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tried(folder, *words)


def test_a_file_without_a_run_has_no_variants(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("a: 1\n", encoding="utf-8")
    with pytest.raises(UsageError, match="holds 0 runs"):
        FileWhatIf(LintRequest(StatedFacts(isolated=True), cwd=str(tmp_path)), "other.yaml")


def test_what_is_a_field_of_a_run() -> None:
    assert is_field("batch.micro_batch_size") and is_field("parallelism.zero.stage")
    assert not any(map(is_field, ("batch", "batch.size", "cutoff_len", "")))


def test_the_comparison_names_the_difference_of_each_component(folder: Path) -> None:
    base = tried(folder).run
    lines = list(compare_lines(base, (tried(folder, "per_device_train_batch_size=2"),), PLAIN))
    before, after = base.estimate, tried(folder, "per_device_train_batch_size=2").run.estimate
    assert before.allocated_bytes is not None and after.allocated_bytes is not None
    row = next(line for line in lines if line.lstrip().startswith("allocated"))
    assert f"(+{(after.allocated_bytes - before.allocated_bytes) / 2**30:.2f})" in row
    same = next(line for line in lines if line.lstrip().startswith("optimizer states"))
    assert "(" not in same


def test_a_sweep_doubles_steps_and_lists(folder: Path) -> None:
    target = what_if(folder)
    doubled = sweep_of(target, "cutoff_len=256..4096")
    assert [one.label for one in doubled.variants] == ["256", "512", "1024", "2048", "4096"]
    sizes = [one.run.estimate.allocated_bytes or 0 for one in doubled.variants]
    assert sizes == sorted(sizes)
    assert [one.label for one in sweep_of(target, "lora_rank=8..32:8").variants] == ["8", "16", "24", "32"]
    assert [one.label for one in sweep_of(target, "optim=sgd,adafactor").variants] == ["sgd", "adafactor"]
    assert len(list(sweep_lines(tried(folder).run, doubled, PLAIN))) == 7


@pytest.mark.parametrize("text", ["cutoff_len", "cutoff_len=9..1", "cutoff_len=a..b", "lora_rank=1..9:0", "x=1..999:1"])
def test_slips_in_a_sweep(folder: Path, text: str) -> None:
    with pytest.raises(UsageError, match="--sweep"):
        sweep_of(what_if(folder), text)


def test_a_picture_of_a_sweep(folder: Path, tmp_path: Path) -> None:
    found = sweep_of(what_if(folder), "cutoff_len=512,1024")
    for name in ("a.svg", "b.svg", "c.png"):
        plot(found, str(tmp_path / name))
    drawn = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "<svg" in drawn and drawn == (tmp_path / "b.svg").read_text(encoding="utf-8")
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UsageError, match="ends in"):
        plot(found, str(tmp_path / "a.txt"))


def test_the_variants_of_a_question_change_its_fields() -> None:
    target = QuestionWhatIf(question_of({"model": "phi-2", "gpu": "T4"}), StatedFacts(isolated=True))
    base, more = target.variant("", ()), target.variant("", changes_of(["batch=2", "gpu=L4"], "--set"))
    assert (base.run.hardware.gpu, more.run.hardware.gpu) == (named_gpu("T4")[0].name, "L4")  # type: ignore[union-attr]
    with pytest.raises(UsageError, match="did you mean --zero"):
        target.variant("", changes_of(["zro=2"], "--set"))
