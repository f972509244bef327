"""`memlint run -- COMMAND`: what cannot fit is not started, everything else is the command itself."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.commands.running import Done, memlint, write

CONFIG = """
model_name_or_path: meta-llama/Llama-3.1-8B
stage: sft
do_train: true
finetuning_type: full
template: llama3
dataset: alpaca_en_demo
cutoff_len: {length}
per_device_train_batch_size: 1
pure_bf16: true
gradient_checkpointing: true
output_dir: saves
"""
JOB = """#!/bin/bash
#SBATCH --gres=gpu:{card}:1
#SBATCH --nodes=1
llamafactory-cli train train.yaml
"""
STUB = """#!/bin/sh
echo "started $0 $*"
cat
exit 7
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, {"train.yaml": CONFIG.format(length=2048), "job.sh": JOB.format(card="h200")})
    for name in ("sbatch", "llamafactory-cli", "torchrun"):
        write(tmp_path, {f"bin/{name}": STUB})
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def run(folder: Path, *words: str, stdin: str | None = None) -> Done:
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return memlint(folder, "run", *words, stdin=stdin, environment={"PATH": path})


def test_a_job_that_fits_is_handed_over_unchanged(folder: Path) -> None:
    done = run(folder, "--", "sbatch", "--time=1:00", "job.sh", "--not an option of memlint", stdin="the input\n")

    assert done.code == 7, done.err
    assert done.out.startswith("started ") and done.out.endswith("the input\n")
    assert "sbatch --time=1:00 job.sh --not an option of memlint" in done.out
    assert "H200" in done.err


def test_a_job_that_does_not_fit_the_card_it_asks_for_is_refused(folder: Path) -> None:
    write(folder, {"job.sh": JOB.format(card="rtx4090")})

    done = run(folder, "--", "sbatch", "job.sh")

    assert (done.code, done.out) == (1, "")
    assert "out of memory" in done.err
    assert "RTX 4090" in done.err
    assert done.err.endswith("not started (--force starts it all the same)\n")


def test_the_command_line_is_heard_before_the_header(folder: Path) -> None:
    assert run(folder, "--", "sbatch", "--gres=gpu:rtx4090:1", "job.sh").code == 1
    assert run(folder, "--gpu", "RTX4090", "--", "sbatch", "job.sh").code == 1
    assert run(folder, "--gpu", "RTX4090", "--force", "--", "sbatch", "job.sh").code == 7
    assert run(folder, "--gpu", "H200", "--dry-run", "--", "sbatch", "job.sh")[:2] == (0, "")


@pytest.mark.parametrize(("card", "code"), [("RTX4090", 1), ("H200", 7)])
def test_a_config_is_what_a_command_names(card: str, code: int, folder: Path) -> None:
    assert run(folder, "--gpu", card, "--gpus", "1", "--", "llamafactory-cli", "train", "train.yaml").code == code


def test_a_command_without_a_training_is_handed_over(folder: Path) -> None:
    done = run(
        folder, "--gpu", "RTX4090", "--", sys.executable, "-c", "import sys; print(sys.argv); sys.exit(3)", "$HOME"
    )

    assert (done.code, done.out) == (3, "['-c', '$HOME']\n")
    assert "no training" in done.err


def test_a_card_that_is_not_known_is_said_and_nothing_is_refused(folder: Path) -> None:
    write(folder, {"job.sh": JOB.format(card="a100")})

    done = run(folder, "--", "sbatch", "job.sh")

    assert done.code == 7
    assert "name it with --gpu" in done.err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--",), 2, "wants a command"),
        ((), 2, "wants a command"),
        (("--", "no-such-command"), 127, "command not found"),
    ],
)
def test_what_cannot_be_started_says_so(words: tuple[str, ...], code: int, told: str, folder: Path) -> None:
    done = run(folder, *words)

    assert (done.code, done.out) == (code, "")
    assert told in done.err


def test_a_real_torchrun_starts_its_ranks(tmp_path: Path) -> None:
    script = "import os\nfrom pathlib import Path\nPath(f\"rank{os.environ['RANK']}\").touch()\n"
    write(tmp_path, {"train.py": script})
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")

    done = memlint(tmp_path, "run", "--gpu", "H100", "--", *torchrun, "train.py")

    assert done.code == 0, done.err
    assert sorted(path.name for path in tmp_path.glob("rank*")) == ["rank0", "rank1"]


def test_a_real_torchrun_of_what_cannot_fit_is_not_started(tmp_path: Path) -> None:
    script = (
        "from pathlib import Path\nfrom trl import SFTConfig, SFTTrainer\nPath('started').touch()\n"
        "SFTTrainer('meta-llama/Llama-3.1-70B', args=SFTConfig('out', max_length=4096), train_dataset=None).train()\n"
    )
    write(tmp_path, {"train.py": script})
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")

    done = memlint(tmp_path, "run", "--gpu", "A100-80GB", "--", *torchrun, "train.py")

    assert done.code == 1, done.err
    assert not (tmp_path / "started").exists()
