"""A repository with the history of a small team: configs that grow, move, break and are mended."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

LLAMA = """\
### model
model_name_or_path: meta-llama/Meta-Llama-3-8B
template: llama3

### method
stage: sft
do_train: true
finetuning_type: lora
lora_rank: 8
lora_target: all

### dataset
dataset: our_support_tickets
cutoff_len: 2048

### train
output_dir: saves/support
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
learning_rate: 1.0e-4
num_train_epochs: 3.0
bf16: true
"""

FULL = """\
# Full fine-tuning on one node; memory is sharded by the JSON below.
model_name_or_path: Qwen/Qwen2.5-7B-Instruct
template: qwen
stage: sft
do_train: true
finetuning_type: full
deepspeed: configs/deepspeed/shared.json
dataset: our_support_tickets
cutoff_len: 4096
output_dir: saves/full
per_device_train_batch_size: 1
gradient_accumulation_steps: 4
learning_rate: 1.0e-5
bf16: true
"""

DPO = """\
model_name_or_path: Qwen/Qwen2.5-1.5B-Instruct
template: qwen
stage: dpo
do_train: true
finetuning_type: lora
lora_target: all
pref_beta: 0.1
dataset: our_preferences
cutoff_len: 1024
output_dir: saves/dpo
per_device_train_batch_size: 2
gradient_accumulation_steps: 8
learning_rate: 5.0e-6
bf16: true
"""

SETTINGS = """\
gpu: A100-80GB
gpus: 8
overrides:
  - files: ["configs/dpo/**"]
    gpu: RTX4090
    gpus: 1
"""


def deepspeed(stage: int, **more: object) -> str:
    zero: dict[str, object] = {"stage": stage, "overlap_comm": True, "contiguous_gradients": True, **more}
    if stage == 3:
        zero["stage3_gather_16bit_weights_on_model_save"] = True
    value = {
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "bf16": {"enabled": "auto"},
        "zero_optimization": zero,
    }
    return json.dumps(value, indent=2) + "\n"


class Repository:
    """A git repository below a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str) -> str:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "Team"),
            **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "team@example.org"),
            **dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2026-01-05T12:00:00+00:00"),
        }
        done = subprocess.run(
            ["git", *arguments], cwd=self.folder, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def edit(self, name: str, change: Callable[[str], str]) -> None:
        path = self.folder / name
        old = path.read_text(encoding="utf-8")
        new = change(old)
        assert new != old
        path.write_text(new, encoding="utf-8")

    def commit(self, message: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")


def team(folder: Path) -> tuple[Repository, list[str]]:
    """The repository and its commits, the oldest first; the message of each says what it does."""
    repository = Repository(folder)
    lora, full, dpo, shared = (
        "configs/lora/support.yaml",
        "configs/full/support.yaml",
        "configs/dpo/preferences.yaml",
        "configs/deepspeed/shared.json",
    )
    commits: list[str] = []

    def commit(message: str) -> None:
        commits.append(repository.commit(message))

    repository.write({"README.md": "# Training\n", "memlint.yaml": SETTINGS, lora: LLAMA})
    commit("LoRA for the support model")
    repository.write({full: FULL, shared: deepspeed(3)})
    commit("Full fine-tuning with ZeRO-3")
    repository.write({dpo: DPO})
    commit("Preferences on the workstation's card")
    repository.edit(lora, lambda text: text.replace("cutoff_len: 2048", "cutoff_len: 8192"))
    commit("Longer tickets")
    repository.edit(lora, lambda text: text.replace("batch_size: 1", "batch_size: 8"))
    commit("Bigger batches")
    repository.edit(shared, lambda _: deepspeed(2))
    commit("ZeRO-2 is faster")
    repository.edit(full, lambda text: text.replace("bf16: true", "pure_bf16: true\nbf16: true"))
    commit("Train in pure bfloat16")
    repository.git("mv", dpo, "configs/dpo/tickets.yaml")
    repository.edit("configs/dpo/tickets.yaml", lambda text: text.replace("cutoff_len: 1024", "cutoff_len: 2048"))
    commit("Name the preferences after their data, and let them be longer")
    repository.edit(lora, lambda text: text.replace("lora_rank", "lora_rnak"))
    commit("Tidy the LoRA config")
    repository.edit("memlint.yaml", lambda text: text.replace("A100-80GB", "A100-40GB"))
    commit("We move to smaller cards")
    repository.edit(lora, lambda text: text.replace("lora_rnak", "lora_rank").replace("batch_size: 8", "batch_size: 1"))
    commit("Mend the LoRA config")
    repository.edit("README.md", lambda text: text + "\nNothing about configs.\n")
    commit("Words")
    return repository, commits
