"""A repository that shows how its configs are launched, as its users see it."""

from __future__ import annotations

import json
import re
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from memlint.repository.launch.apply import with_launch_command
from memlint.repository.workspace import in_memory
from tests.commands.running import memlint, write

CONFIG = """\
model_name_or_path: meta-llama/Meta-Llama-3-8B
output_dir: out
learning_rate: 1.0e-5
max_length: 2048
per_device_train_batch_size: 1
dataset_text_field: text
bf16: true
"""
LAUNCH = "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config: {zero_stage: 3}\n"
PAGE = "# Training\n\n    accelerate launch --config_file acc/zero3.yaml run.py --config recipes/sft.yaml\n"


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    files = {"recipes/sft.yaml": CONFIG, "recipes/dpo.yaml": CONFIG, "acc/zero3.yaml": LAUNCH, "README.md": PAGE}
    write(tmp_path, files)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def test_the_text_says_what_was_read_and_what_to_name(repository: Path) -> None:
    told = memlint(repository, "check", ".", "--gpu", "A100-80GB", "--no-fixes").out

    assert "recipes/dpo.yaml:5:30: info MEM005" in told
    assert "A100-80GB; --gpus says how many there are; --with acc/zero3.yaml says what launches it\n" in told
    assert "recipes/sft.yaml:5" not in told
    assert "the run is read as commands in the repository launch it (README.md:3); --with, or `with:` in" in told
    assert "`with: [acc/zero3.yaml]` in memlint.yaml would say for good" in told


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (PAGE.replace("run.py", "--num_processes 2 run.py"), "out of memory *, launched as in README.md:3: *"),
        (
            "torchrun --nproc_per_node 2 run.py recipes/sft.yaml",
            "out of memory *, with the whole model on each of the 2 GPUs, launched as in README.md:1: *",
        ),
        (
            PAGE + PAGE.replace("run.py", "--num_processes 2 run.py"),
            "launcher not known, so no verdict: *; launched with acc/zero3.yaml in README.md:3 and "
            "with acc/zero3.yaml on 2 GPUs in README.md:6; --with FILE says which holds",
        ),
        (
            PAGE + PAGE.replace("run.py", "--use_fsdp run.py"),
            "launcher not known, so no verdict: *; launched with acc/zero3.yaml in README.md:3; --with that file says*",
        ),
    ],
)
def test_how_a_run_that_does_not_fit_is_launched(repository: Path, page: str, said: str) -> None:
    write(repository, {"README.md": page})
    told = memlint(repository, "check", "recipes/sft.yaml", "--gpu", "RTX4090", "--no-fixes", "--format", "json").out
    (message,) = (one["message"] for one in json.loads(told)["findings"] if one["rule"] in ("MEM001", "MEM005"))

    assert fnmatchcase(message, said), message
    assert "UNKNOWN" not in message


@pytest.mark.parametrize(("number", "agrees"), [(8, True), (2, False)])
def test_a_number_that_one_command_says_and_the_launch_file_of_another(
    repository: Path, number: int, agrees: bool
) -> None:
    write(repository, {"README.md": PAGE + PAGE.replace("run.py", f"--num_processes {number} run.py")})
    (run,) = json.loads(memlint(repository, "estimate", "recipes/sft.yaml", "--format", "json").out)["runs"]

    assert (run["hardware"]["gpus"] == 8) is agrees


def test_what_was_read_is_an_assumption(repository: Path) -> None:
    (run,) = json.loads(memlint(repository, "estimate", "recipes/sft.yaml", "--format", "json").out)["runs"]
    launch = {
        "field": "launch",
        "value": "acc/zero3.yaml",
        "origin": "README.md:3:1 (the repository launches it there)",
    }

    assert run["hardware"]["gpus"] == 8
    assert launch in run["assumptions"]
    assert "\n  launched as in README.md:3\n" in memlint(repository, "estimate", "recipes/sft.yaml").out


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--max_length 4096", ", without its `max_length`"),
        ("--max_length 2048", ""),
        ("--run_name first --use_peft true", ", without its `use_peft`"),
        ("--run_name first", ""),
    ],
)
def test_what_a_page_says_over_the_config_is_told(repository: Path, option: str, said: str) -> None:
    write(repository, {"README.md": PAGE.rstrip() + f" {option}\n"})
    assert f"\n  launched as in README.md:3{said}\n" in memlint(repository, "estimate", "recipes/sft.yaml").out


@pytest.mark.parametrize("settings", ["with: []\n", "overrides: [{files: recipes/sft.yaml, with: []}]\n"])
def test_settings_can_say_that_no_launch_file_takes_part(repository: Path, settings: str) -> None:
    write(repository, {"memlint.yaml": settings})
    told = memlint(repository, "check", "recipes/sft.yaml", "--gpu", "A100-80GB", "--no-fixes").out

    assert "MEM005" in told
    assert "zero3" not in told


def test_what_settings_name_needs_no_command(repository: Path) -> None:
    write(repository, {"memlint.yaml": "overrides: [{files: recipes/*.yaml, with: acc/zero3.yaml}]\n"})
    told = memlint(repository, "check", ".", "--gpu", "A100-80GB", "--no-fixes").out

    assert "MEM005" not in told
    assert "launch" not in told


def test_isolated_runs_do_not_ask_the_repository(repository: Path) -> None:
    told = memlint(repository, "check", "recipes", "--isolated", "--gpu", "A100-80GB", "--no-fixes").out

    assert told.count("MEM005") == 2
    assert "zero3" not in told


def test_a_comparison_reads_each_side_s_own_pages(repository: Path) -> None:
    write(repository, {"README.md": "nothing\n", "recipes/sft.yaml": CONFIG.replace("2048", "1024")})
    told = memlint(repository, "diff", "HEAD", "--gpu", "A100-80GB").out

    assert "fits -> unknown" in told.replace("\N{RIGHTWARDS ARROW}", "->")


COMMENTED = "# accelerate launch --config_file acc/zero3.yaml run.py --config sft.yaml\n" + CONFIG


def test_without_git_the_working_folder_s_pages_are_read(tmp_path: Path) -> None:
    write(tmp_path, {"recipes/sft.yaml": CONFIG, "acc/zero3.yaml": LAUNCH, "README.md": PAGE})
    told = memlint(tmp_path, "check", "recipes", "--gpu", "A100-80GB", "--no-fixes").out

    assert "commands in the repository launch it (README.md:3)" in told


@pytest.mark.parametrize("option", ["", "--isolated"])
def test_a_launch_file_that_is_missing_leaves_the_launcher_open(tmp_path: Path, option: str) -> None:
    llamafactory = "stage: sft\ndo_train: true\nfinetuning_type: full\ndataset: a\ntemplate: llama3\n"
    text = COMMENTED.replace("dataset_text_field: text\n", llamafactory).replace("max_length", "cutoff_len")
    write(tmp_path, {"sft.yaml": text, "plain.yaml": text.partition("\n")[2]})
    told = memlint(tmp_path, "check", ".", "--gpu", "A100-80GB", "--gpus", "2", "--no-fixes", *option.split()).out

    verdicts = [line.split(" ", 3)[:3] for line in told.splitlines() if ": " in line and " MEM00" in line]
    assert verdicts == [["plain.yaml:5:30:", "error", "MEM001"], ["sft.yaml:6:30:", "info", "MEM005"]]


LLAMAFACTORY = """\
model_name_or_path: meta-llama/Llama-3.1-8B-Instruct
stage: sft
do_train: true
finetuning_type: full
dataset: alpaca
template: llama3
cutoff_len: 4096
output_dir: out
per_device_train_batch_size: 2
learning_rate: 1.0e-5
bf16: true
"""
JOB = "#!/bin/bash\n#SBATCH --gres=gpu:a100_80gb:4\nsrun llamafactory-cli train sft.yaml\n"


SKY = """\
resources:
  accelerators: A100-80GB:4
num_nodes: 1
run: |
  llamafactory-cli train sft.yaml
"""
POD = """\
apiVersion: batch/v1
kind: Job
spec:
  template:
    spec:
      nodeSelector:
        cloud.google.com/gke-accelerator: nvidia-a100-80gb
      containers:
        - name: train
          command: ["llamafactory-cli", "train", "sft.yaml"]
          resources:
            limits:
              nvidia.com/gpu: 4
"""
PYTORCH_JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template: &pod
        spec:
          nodeSelector:
            nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3
          containers:
            - name: pytorch
              command: ["torchrun", "train.py", "--config", "sft.yaml"]
              resources:
                limits:
                  nvidia.com/gpu: 4
    Worker:
      replicas: 1
      template: *pod
"""
TRAIN_JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
spec:
  trainer:
    numNodes: 2
    command: ["torchrun", "train.py", "--config", "sft.yaml"]
    resourcesPerNode:
      requests:
        nvidia.com/gpu: 8
"""


def headline(folder: Path, *more: str, path: str = "sft.yaml") -> str:
    """How the run of a file is read when it is asked for alone."""
    return memlint(folder, "estimate", path, *more).out.partition("\n\n")[0]


@pytest.mark.parametrize(
    ("files", "card"),
    [
        ({"job.sh": JOB}, "4 x A100-80GB\n  launched as in job.sh:3"),
        (
            {"job.sh": JOB, "README.md": "    llamafactory-cli train sft.yaml\n"},
            "4 x A100-80GB\n  launched as in job.sh:3",
        ),
        ({"job.sh": JOB, "two.sh": JOB.replace("a100_80gb", "h100")}, "no GPU named\n  launched as in job.sh:3"),
        ({"job.sh": JOB, "two.sh": JOB.replace(":4", ":8")}, "? x A100-80GB\n  launched as in job.sh:3"),
        ({"job.sh": JOB.replace(":4", ":2") + "# and more\n"}, "2 x A100-80GB\n  launched as in job.sh:3"),
        ({"README.md": f"```bash\n{JOB}```\n"}, "no GPU named"),
    ],
)
def test_the_card_and_the_gpus_of_the_job_that_starts_a_config(
    tmp_path: Path, files: dict[str, str], card: str
) -> None:
    write(tmp_path, {"sft.yaml": LLAMAFACTORY, **files})

    assert headline(tmp_path).endswith(f"; {card}")


@pytest.mark.parametrize(
    ("name", "job", "card"),
    [
        ("sky.yaml", SKY, "4 x A100-80GB\n  launched as in sky.yaml:5"),
        ("sky.yaml", SKY.replace("num_nodes: 1", "num_nodes: 2"), "8 x A100-80GB\n  launched as in sky.yaml:5"),
        ("k8s/job.yaml", POD, "4 x A100-80GB\n  launched as in k8s/job.yaml:10"),
        (
            "k8s/job.yaml",
            POD.replace("gke-accelerator: nvidia", "zone: nvidia"),
            "no GPU named\n  launched as in k8s/job.yaml:10",
        ),
        ("other.yaml", SKY, "no GPU named"),  # no name of a job
    ],
)
def test_a_task_or_a_job_in_yaml_says_the_card_and_the_gpus_of_what_it_starts(
    tmp_path: Path, name: str, job: str, card: str
) -> None:
    write(tmp_path, {"sft.yaml": LLAMAFACTORY, name: job})

    assert headline(tmp_path).endswith(f"; {card}")


@pytest.mark.parametrize(
    ("job", "card"),
    [
        (PYTORCH_JOB, "8 x H100-80GB"),
        (PYTORCH_JOB.replace("spec:\n  pytorch", "spec:\n  nprocPerNode: 2\n  pytorch", 1), "4 x H100-80GB"),
        (TRAIN_JOB, "16 x H100-80GB"),
    ],
)
def test_torchrun_in_a_job_of_kubeflow_starts_a_process_for_each_gpu(tmp_path: Path, job: str, card: str) -> None:
    write(tmp_path, {"sft.yaml": CONFIG, "train.py": "", "job.yaml": job})

    assert f"; {card}" in headline(tmp_path, "--gpu", "H100-80GB")


def test_a_job_that_asks_for_gpus_is_no_word_on_what_the_caller_names(tmp_path: Path) -> None:
    write(tmp_path, {"sft.yaml": LLAMAFACTORY, "job.sh": JOB})

    assert "; 4 x H100-80GB\n" in headline(tmp_path, "--gpu", "H100-80GB") + "\n"
    assert headline(tmp_path, "--gpus", "1", "--gpu", "RTX4090").endswith("; 1 x RTX 4090")


def test_a_job_s_own_variables_count_its_gpus(tmp_path: Path) -> None:
    job = JOB.replace("srun llamafactory-cli train", "torchrun --nproc_per_node $SLURM_GPUS_ON_NODE run.py")
    write(tmp_path, {"sft.yaml": CONFIG, "job.sh": job})

    assert headline(tmp_path).endswith("; 4 x A100-80GB\n  launched as in job.sh:3")


@pytest.mark.parametrize(
    ("command", "gpus"),
    [("torchrun --nproc_per_node 4 train.py", "4 x A100-80GB"), ("deepspeed --num_gpus 2 train.py", "2 x A100-80GB")],
)
def test_the_gpus_of_the_command_that_starts_a_program(tmp_path: Path, command: str, gpus: str) -> None:
    program = """\
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B-Instruct", torch_dtype="bfloat16")
SFTTrainer(model=model, args=SFTConfig(output_dir="out", per_device_train_batch_size=1, max_length=4096)).train()
"""
    job = JOB.replace("srun llamafactory-cli train sft.yaml", command)
    write(tmp_path, {"train.py": program, "job.sh": job})

    assert headline(tmp_path, path="train.py").endswith(f"; {gpus}\n  launched as in job.sh:3")


OWN_PROGRAM = """\
import argparse
import yaml
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--config")
cfg = yaml.safe_load(open(parser.parse_args().config))
model = AutoModelForCausalLM.from_pretrained(cfg["model_name"], torch_dtype="bfloat16")
args = SFTConfig(output_dir="out", per_device_train_batch_size=cfg["batch_size"], max_length=cfg["max_length"])
SFTTrainer(model=model, args=args).train()
"""


@pytest.mark.parametrize(
    ("program", "heard"), [("scripts/train.py", True), ("scripts/train_qlora.py", False), ("scripts/measure.py", False)]
)
def test_how_another_program_is_started_with_a_config(tmp_path: Path, program: str, heard: bool) -> None:
    """`train_qlora.py` is not in the repository, and `measure.py` does not train: how they are launched says nothing of
    the run that `train.py` makes of the same config."""
    page = f"```bash\naccelerate launch --num_processes=8 {program} --config configs/own.yaml\n```\n"
    config = "model_name: Qwen/Qwen2.5-7B-Instruct\nbatch_size: 1\nmax_length: 1024\nlearning_rate: 1.0e-5\n"
    files = {"scripts/train.py": OWN_PROGRAM, "scripts/measure.py": "print(1)\n", "configs/own.yaml": config}
    write(tmp_path, {**files, "README.md": page})

    assert ("launched as in README.md:2" in headline(tmp_path, path="configs/own.yaml")) is heard


def test_a_command_for_another_model_launches_another_run() -> None:
    program = (
        "import fire\nfrom trl import SFTConfig, SFTTrainer\n\n\ndef main(model_name_or_path: str = 'org/large'):\n"
        "    SFTTrainer(model_name_or_path, args=SFTConfig(output_dir='out')).train()\n\n\nfire.Fire(main)\n"
    )
    page = (
        "    python train.py --model_name_or_path org/large\n\n"
        "    accelerate launch --config_file zero3.yaml train.py --model_name_or_path org/small\n"
    )
    workspace = in_memory({"train.py": program, "README.md": page, "zero3.yaml": LAUNCH})
    launched = {
        document.value["model_name_or_path"]: with_launch_command(document, "trainer", workspace.context()).launch
        for document in workspace.documents("train.py")
    }
    assert {model: launch is not None for model, launch in launched.items()} == {"org/large": False, "org/small": True}


PROGRAM = """\
from transformers import AutoModelForCausalLM
from trl import ModelConfig, ScriptArguments, SFTConfig, SFTTrainer, TrlParser

if __name__ == "__main__":
    parser = TrlParser((ScriptArguments, SFTConfig, ModelConfig))
    script, args, model = parser.parse_args_and_config()
    trainer = SFTTrainer(model=model.model_name_or_path, args=args, train_dataset=None)
    trainer.train()
"""
COMMAND = (
    "    accelerate launch --config_file acc/zero3.yaml train.py --model_name_or_path Qwen/Qwen2.5-7B \\\n"
    "        --output_dir out --bf16 --max_length {} --per_device_train_batch_size 1\n"
)


def test_a_programs_run_is_launched_by_the_command_that_gives_its_options(tmp_path: Path) -> None:
    pages = {"README.md": f"# Short\n\n{COMMAND.format(1024)}", "docs/long.md": f"# Long\n\n{COMMAND.format(8192)}"}
    write(tmp_path, {"train.py": PROGRAM, "acc/zero3.yaml": LAUNCH, **pages})
    told = memlint(tmp_path, "estimate", "train.py").out
    said = re.findall(r"1 x (\d+) tokens, ZeRO-3|launched as in (.+)", told)
    assert said == [("1024", ""), ("", "README.md:3"), ("8192", ""), ("", "docs/long.md:3")]


@pytest.mark.parametrize(("sets", "is_told"), [("", True), ('args.lr_scheduler_kwargs["min_lr"] = 1e-6', False)])
def test_a_part_of_an_argument_that_the_program_sets_is_not_missing(sets: str, is_told: bool, tmp_path: Path) -> None:
    program = (
        "import transformers\nparser = transformers.HfArgumentParser((transformers.TrainingArguments,))\n"
        f"(args,) = parser.parse_args_into_dataclasses()\n{sets}\n"
        "model = transformers.AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-0.5B')\n"
        "transformers.Trainer(model=model, args=args, train_dataset=[]).train()\n"
    )
    command = (
        "python train.py --output_dir out --lr_scheduler_type cosine_with_min_lr --learning_rate 1e-5 --bf16 True\n"
    )
    write(tmp_path, {"train.py": program, "run.sh": command})
    assert ("TRN006" in memlint(tmp_path, "check", "run.sh").out) is is_told
