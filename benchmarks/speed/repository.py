"""How long a repository of many configs takes, beside other linters of such files, in one run on one machine.

    python benchmarks/speed/repository.py [FILES [REPEATS]]

The files are made here: LLaMA-Factory YAML, Trainer YAML and DeepSpeed JSON as teams write them, no two the same.
yamllint and check-jsonschema see the same files (the latter with memlint's own schema of LLaMA-Factory configs);
neither of them estimates anything, so this is the price of an answer beside the price of none. The fastest of the
repeats counts; start-up is part of it, as in a hook. CPU seconds stand beside wall time: they mean the same on a
machine that does other things.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser

ROOT = Path(__file__).resolve().parents[2]
MODELS = (
    *("meta-llama/Meta-Llama-3-8B-Instruct", "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-1.5B-Instruct"),
    *("mistralai/Mistral-7B-Instruct-v0.3", "google/gemma-2-9b-it", "Qwen/Qwen3-8B"),
)

YAML = """\
### model
model_name_or_path: {model}
trust_remote_code: true

### method
stage: {stage}
do_train: true
finetuning_type: {kind}
{method}
### dataset
dataset: tickets_{number}
template: default
cutoff_len: {length}
overwrite_cache: true
preprocessing_num_workers: 16

### output
output_dir: saves/run-{number}
logging_steps: 10
save_steps: 500
plot_loss: true

### train
per_device_train_batch_size: {batch}
gradient_accumulation_steps: 8
learning_rate: 1.0e-4
num_train_epochs: 3.0
lr_scheduler_type: cosine
warmup_ratio: 0.1
bf16: true
"""


def config(number: int) -> str:
    full = number % 4 == 3
    return YAML.format(
        number=number,
        model=MODELS[number % len(MODELS)],
        stage=("sft", "dpo", "sft", "pt")[number // 7 % 4],
        kind="full" if full else "lora",
        method=f"deepspeed: ds_{number // 50 % 4}.json\n"
        if full
        else f"lora_rank: {2 ** (number % 5 + 2)}\nlora_target: all\n",
        length=(1024, 2048, 4096, 8192)[number // 3 % 4],
        batch=2 ** (number % 4),
    )


def deepspeed(stage: int) -> str:
    auto = dict.fromkeys(("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"), "auto")
    zero = {"stage": min(stage, 3), "overlap_comm": True, "contiguous_gradients": True}
    return json.dumps({**auto, "bf16": {"enabled": "auto"}, "zero_optimization": zero}, indent=2) + "\n"


def make(folder: Path, files: int) -> None:
    for number in range(files):
        path = folder / f"team-{number % 20:02}" / f"run-{number:04}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(config(number), encoding="utf-8")
    for stage in range(4):
        (folder / f"ds_{stage}.json").write_text(deepspeed(stage), encoding="utf-8")
    (folder / "memlint.yaml").write_text("gpu: A100-80GB\ngpus: 8\n", encoding="utf-8")
    (folder / ".yamllint").write_text("extends: default\nrules: {document-start: disable, comments: disable}\n")


def commands(files: int) -> dict[str, list[str]]:
    schema = str(ROOT / "schemas" / "llamafactory.json")
    scripts = Path(sys.executable).parent
    listed = [f"team-{number % 20:02}/run-{number:04}.yaml" for number in range(files)]
    memlint = [sys.executable, "-m", "memlint", "check", ".", "--exit-zero", "--format", "json", "--output", os.devnull]
    wanted = {
        "memlint check (workers by itself)": memlint,
        "memlint check --jobs 1": [*memlint, "--jobs", "1"],
        "memlint check --no-fixes": [*memlint, "--no-fixes"],
        "memlint check --format html": [*memlint[:6], "--format", "html", "--output", os.devnull],
        "memlint --list-files": [sys.executable, "-m", "memlint", "--list-files"],
        "yamllint": [str(scripts / "yamllint"), "."],
        "check-jsonschema": [str(scripts / "check-jsonschema"), "--schemafile", schema, *listed],
    }
    return {name: words for name, words in wanted.items() if words[0] == sys.executable or shutil.which(words[0])}


def fastest(words: list[str], folder: Path, repeats: int) -> tuple[float, float, int]:
    """Wall seconds, CPU seconds, and the exit code of the last run."""
    best, cpu, code = float("inf"), float("inf"), 0
    for _ in range(repeats):
        began, used = time.perf_counter(), _cpu()
        done = subprocess.run(
            words,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        best, cpu, code = min(best, time.perf_counter() - began), min(cpu, _cpu() - used), done.returncode
    return best, cpu, code


def _cpu() -> float:
    told = os.times()
    return told.children_user + told.children_system


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("files", nargs="?", type=int, default=2000)
    arguments.add_argument("repeats", nargs="?", type=int, default=3)
    options = arguments.parse_args()
    files, repeats = options.files, options.repeats
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, files)
        print(f"{files} configs, {len(os.sched_getaffinity(0))} cores, Python {sys.version.split()[0]}")
        for label, words in commands(files).items():
            wall, cpu, code = fastest(words, folder, repeats)
            print(
                f"{label:36}{wall:8.2f} s wall {cpu:8.2f} s CPU {1000 * cpu / files:8.2f} ms a file  exit {code}",
                flush=True,
            )


if __name__ == "__main__":
    main()
