"""`memlint fix`: choosing a plan, answering in a terminal, files that share another one, and what is never written."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.history import FULL, deepspeed
from tests.commands.running import ROOT, memlint, write

LONG = (ROOT / "examples" / "llamafactory" / "qwen2_5_1_5b_eager_long.yaml").read_text(encoding="utf-8")
CARD = ("--gpu", "A100-80GB", "--gpus", "1", "--isolated")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, {"long.yaml": LONG})
    return tmp_path


def fixed(folder: Path, *arguments: str) -> str:
    done = memlint(folder, "fix", "long.yaml", *CARD, *arguments)
    assert done.code in (0, 1), done.err
    return (folder / "long.yaml").read_text(encoding="utf-8")


def test_each_plan_is_its_own_change(folder: Path) -> None:
    texts = []
    for number in ("1", "2"):
        write(folder, {"long.yaml": LONG})
        texts.append(fixed(folder, "--unsafe", "--rule", "MEM010", "--plan", number))
    assert len({LONG, *texts}) == 3


def test_a_plan_that_is_not_there_changes_nothing(folder: Path) -> None:
    assert fixed(folder, "--unsafe", "--rule", "MEM010", "--plan", "9") == LONG


def answered(folder: Path, answers: str) -> tuple[int, str]:
    """`memlint fix --interactive` with a terminal as its input."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "memlint", "fix", "long.yaml", "--interactive", "--unsafe", *CARD],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    os.write(ours, answers.encode())
    out, _ = process.communicate(timeout=120)
    os.close(ours)
    os.close(theirs)
    return process.returncode, out.decode()


def test_no_means_no_and_yes_means_yes(folder: Path) -> None:
    answered(folder, "n\n" * 12)
    assert (folder / "long.yaml").read_text(encoding="utf-8") == LONG

    code, out = answered(folder, "y\n" * 12)
    assert code in (0, 1), out
    assert "flash_attn: sdpa" in (folder / "long.yaml").read_text(encoding="utf-8")


def test_interactive_wants_a_terminal(folder: Path) -> None:
    done = memlint(folder, "fix", "long.yaml", "--interactive", *CARD)
    assert done.code == 2 and "terminal" in done.err


def test_two_configs_that_share_a_file_get_its_fix_once(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": FULL, "b.yaml": FULL, "configs/deepspeed/shared.json": deepspeed(3)})
    arguments = ("fix", ".", "--unsafe", "--rule", "PAR001", "--gpus", "1", "--isolated")
    first = memlint(tmp_path, *arguments)
    assert "1 fixed in 1 file" in first.err, first.err
    assert '"stage": 0' in (tmp_path / "configs/deepspeed/shared.json").read_text(encoding="utf-8")
    assert "0 fixed" in memlint(tmp_path, *arguments).err


def test_a_link_and_a_file_without_permission_are_not_written(folder: Path) -> None:
    write(folder, {"elsewhere/long.yaml": LONG})
    (folder / "link.yaml").symlink_to(folder / "elsewhere" / "long.yaml")
    done = memlint(folder, "fix", "link.yaml", "--unsafe", *CARD)
    assert (folder / "elsewhere" / "long.yaml").read_text(encoding="utf-8") == LONG
    assert done.code != 0


# Values that are others' too, by an anchor: a change would reach further than a fix says.
ANCHORED = """\
model_name_or_path: Qwen/Qwen2.5-7B
stage: sft
do_train: true
finetuning_type: lora
dataset: alpaca_en_demo
template: qwen
cutoff_len: &length 4096
save_steps: *length
output_dir: out
per_device_train_batch_size: &size 16
per_device_eval_batch_size: *size
bf16: true
flash_attn: &attention disabled
run_name: *attention
"""


@pytest.mark.parametrize("rule", ["ATT001", "MEM001"])
@pytest.mark.parametrize("unsafe", [(), ("--unsafe",)])
def test_who_refuses_a_fix_says_the_same_reason_as_the_check(rule: str, unsafe: tuple[str, ...], folder: Path) -> None:
    write(folder, {"long.yaml": ANCHORED})
    small = ("--gpu", "RTX4090", "--gpus", "1", "--isolated")
    reason = "the change would reach other values of the file"
    assert f"not written: {reason}" in memlint(folder, "check", "long.yaml", "--select", rule, *small).out
    said = memlint(folder, "fix", "long.yaml", "--rule", rule, *unsafe, *small)
    assert reason in said.out + said.err
