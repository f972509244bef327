"""What people see: one small set of files in every output, word for word."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from memlint import __version__
from memlint.report.outputs import OUTPUTS

ROOT = Path(__file__).parents[2]
FILES = {
    "train.yaml": """\
# memlint: gpu=RTX4090 gpus=1
model_name_or_path: Qwen/Qwen2.5-1.5B-Instruct
template: qwen
stage: sft
do_train: true
finetuning_type: full
deepspeed: ds_z2.json
dataset: tickets
cutoff_len: 2048
output_dir: out
per_device_train_batch_size: 1
gradient_accumulation_step: 8
learning_rate: 1.0e-5
bf16: true
""",
    "ds_z2.json": """\
{
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": "auto",
  "bf16": {"enabled": "auto"},
  "zero_optimization": {"stage": 2, "reduce_bucket_sizes": 5e8}
}
""",
    "notes.yaml": "title: not a training config\n",
}
# Figures move when the model of memory gets better; what is said with them should not move by accident.
NUMBER = re.compile(r"(?<![\w.:-])\d+\.\d+(?![\w.])|\d+(?= (%25|%))")
COUNTS = re.compile(r'("[a-z_]*bytes": |"[a-z_]*parameters": )\d+')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def told(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "memlint", *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.stderr == ""
    return COUNTS.sub(r"\g<1>0", NUMBER.sub("0.0", done.stdout.replace(__version__, "VERSION")))


@pytest.mark.parametrize("name", [name for name in OUTPUTS if name not in ("html", "sarif", "json")])
def test_outputs(folder: Path, name: str, snapshot: SnapshotAssertion) -> None:
    assert told(folder, "check", ".", "--format", name, "--select", "CFG,MEM001") == snapshot


def test_text_with_statistics(folder: Path, snapshot: SnapshotAssertion) -> None:
    shutil.copy(folder / "train.yaml", folder / "again.yaml")

    assert told(folder, "check", ".", "--statistics", "--select", "CFG001") == snapshot


def test_settings_with_their_origins(folder: Path, snapshot: SnapshotAssertion) -> None:
    text = "gpu: A100-80GB\nprofile: strict\nignore: [MEM003]\nversions:\n  transformers: '4.57'\n"
    (folder / "memlint.yaml").write_text(text, encoding="utf-8")

    assert told(folder, "--show-settings", "train.yaml") == snapshot
