"""`memlint run -- COMMAND`: what cannot fit is not started, everything else is the command itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
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
    write(folder, {"job.sh": JOB.format(card="rtx6000")})

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


PROGRAM = """
from trl import SFTConfig, SFTTrainer
args = SFTConfig("out", max_length=2048, per_device_train_batch_size=1, bf16=True)
SFTTrainer("meta-llama/Llama-3.1-8B", args=args, train_dataset=None).train()
"""
FSDP = """
distributed_type: FSDP
fsdp_config:
  fsdp_version: 2
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
mixed_precision: bf16
num_machines: 1
num_processes: 2
"""
COMMANDS = (
    ("sbatch", "srun.sh"),
    ("sbatch", "--partition", "gpu", "srun.sh", "argument"),
    ("sbatch", "--wrap", "torchrun --nproc-per-node 2 train.py"),
    ("sbatch", "--wrap=torchrun --nproc-per-node 2 train.py"),
    ("srun", "--ntasks=1", "accelerate", "launch", "--config_file", "fsdp.yaml", "train.py"),
    ("accelerate", "launch", "--config_file=fsdp.yaml", "train.py"),
    ("deepspeed", "--include", "localhost:0,1", "train.py", "--deepspeed", "zero2.json"),
    ("uv", "run", "torchrun", "--nproc-per-node", "2", "train.py"),
    ("uv", "run", "--with", "trl", "torchrun", "--nproc_per_node=2", "./train.py"),
    ("env", "CUDA_VISIBLE_DEVICES=0,1", "torchrun", "--nproc-per-node", "2", "train.py"),
    ("nohup", "llamafactory-cli", "train", "./sub/../train.yaml"),
    ("timeout", "3600", "llamafactory-cli", "train", "train.yaml"),
    ("bash", "-c", "cd sub && llamafactory-cli train ../train.yaml"),
    ("bash", "srun.sh"),
)


@pytest.fixture
def cluster(folder: Path) -> Path:
    """The folder with a training of 8 B parameters, and stubs of what starts one."""
    (folder / "sub").mkdir()
    write(
        folder,
        {
            "train.py": PROGRAM,
            "fsdp.yaml": FSDP,
            "zero2.json": '{"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": "auto"}',
        },
    )
    launch = "accelerate launch --config_file fsdp.yaml train.py"
    write(folder, {"srun.sh": f"#!/bin/bash\n#SBATCH --nodes=1\nexport A=1\nsrun --ntasks=1 {launch}\n"})
    for name in ("srun", "accelerate", "deepspeed", "uv"):
        write(folder, {f"bin/{name}": STUB})
        (folder / "bin" / name).chmod(0o755)
    return folder


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_what_people_type_is_refused_on_a_small_card_and_started_on_a_large_one(
    command: tuple[str, ...], cluster: Path
) -> None:
    refused = run(cluster, "--gpu", "16GiB", "--", *command, stdin="")
    started = run(cluster, "--gpu", "B200", "--", *command, stdin="")

    assert (refused.code, refused.out) == (1, "")
    assert started.code == 7, started.err
    assert "started" in started.out


def test_an_interrupt_reaches_the_command(tmp_path: Path) -> None:
    """The command has memlint's place: its process, its signals, its exit code."""
    script = "import os, sys, time\nprint(os.getpid(), flush=True)\ntry:\n    time.sleep(60)\n"
    write(tmp_path, {"train.py": script + "except KeyboardInterrupt:\n    sys.exit(9)\n"})
    words = (sys.executable, "-m", "memlint", "run", "--", sys.executable, "train.py")
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as started:
        assert started.stdout is not None
        assert int(started.stdout.readline()) == started.pid
        time.sleep(0.2)  # the program is in its `try` by then
        started.send_signal(signal.SIGINT)
        assert started.wait(30) == 9
