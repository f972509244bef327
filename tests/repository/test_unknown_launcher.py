"""Runs on several GPUs whose launcher nobody names."""

import json
import re

import pytest

from memlint.hardware import find
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Analysis, Engine

TRAINER = """model_name_or_path: meta-llama/Meta-Llama-3-8B
output_dir: out
learning_rate: 1.0e-5
max_length: 2048
per_device_train_batch_size: 1
dataset_text_field: text
bf16: true
"""
LLAMAFACTORY = """model_name_or_path: meta-llama/Meta-Llama-3-8B
stage: sft
do_train: true
finetuning_type: full
dataset: alpaca_en_demo
template: llama3
cutoff_len: 2048
bf16: true
output_dir: out
"""
AXOLOTL = """base_model: meta-llama/Meta-Llama-3-8B
datasets: [{path: tatsu-lab/alpaca, type: alpaca}]
sequence_len: 2048
micro_batch_size: 1
gradient_accumulation_steps: 1
num_epochs: 1
optimizer: adamw_torch
learning_rate: 0.0001
bf16: true
output_dir: out
"""
FSDP = "distributed_type: FSDP\nnum_processes: 8\nfsdp_config: {fsdp_sharding_strategy: FULL_SHARD}\n"
DDP = "distributed_type: MULTI_GPU\nnum_processes: 8\n"
ACCELERATE = "accelerate launch --config_file $CONFIG src/train.py {}\n"


def analysed(name: str, text: str, gpus: int | None = 8, **files: str) -> Analysis:
    named = {re.sub(r"_(yaml|md|sh|json)$", r".\1", key.replace("__", "/")): text for key, text in files.items()}
    workspace = in_memory({name: text, **named})
    facts = {} if gpus is None else {"gpus": gpus}
    context = workspace.context(gpu=find("A100-80GB"), **facts)
    return Engine(()).analyse(workspace.documents(name)[0], context)


CODE = """import {library}
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = {loaded}
Trainer(model=model, args=TrainingArguments(output_dir="o", per_device_train_batch_size=1, bf16=True)).train()
"""
WHOLE = 'AutoModelForCausalLM.from_pretrained("meta-llama/Meta-Llama-3-8B")'
FAST = 'unsloth.FastLanguageModel.from_pretrained("meta-llama/Meta-Llama-3-8B", load_in_4bit=False)[0]'


def cell(code: str) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "metadata": {}, "source": code}], "nbformat": 4, "metadata": {}})


@pytest.mark.parametrize(
    ("name", "text", "is_open"),
    [
        ("train.py", CODE.format(library="torch", loaded=WHOLE), True),
        ("train.ipynb", cell(CODE.format(library="torch", loaded=WHOLE)), False),
        ("train.py", CODE.format(library="unsloth", loaded=FAST), False),
    ],
)
def test_a_notebook_and_unsloth_have_no_launcher_that_shards(name: str, text: str, is_open: bool) -> None:
    (run,) = analysed(name, text, None).runs

    assert bool(run.readings) is is_open


@pytest.mark.parametrize(
    ("launcher", "is_open"), [("torchrun --nproc-per-node 8", False), ("deepspeed", False), ("accelerate launch", True)]
)
def test_launchers_that_start_processes_alone_shard_nothing(launcher: str, is_open: bool) -> None:
    code = CODE.format(library="torch", loaded=WHOLE)
    (run,) = analysed("run.sh", f"{launcher} train.py\n", **{"train.py": code}).runs

    assert bool(run.readings) is is_open


@pytest.mark.parametrize("gpus", [4, 8, None])
def test_a_trainer_s_launcher_may_shard(gpus: int | None) -> None:
    (estimate,) = analysed("sft.yaml", TRAINER, gpus).estimates

    assert estimate.verdict == "unknown"
    assert estimate.unknown[-1].reason.startswith("launcher not known: ")
    assert [one.verdict for one in estimate.readings] == ["out_of_memory", "fits"]
    assert estimate.readings[0].device_bytes == estimate.device_bytes


def test_one_gpu_leaves_no_doubt() -> None:
    assert analysed("sft.yaml", TRAINER, 1).estimates[0].verdict == "out_of_memory"


@pytest.mark.parametrize("text", [LLAMAFACTORY, AXOLOTL])
def test_frameworks_that_start_data_parallelism_by_themselves(text: str) -> None:
    assert analysed("sft.yaml", text).estimates[0].verdict == "out_of_memory"
    assert analysed("sft.yaml", text, acc__ddp_yaml=DDP).estimates[0].verdict == "out_of_memory"
    assert analysed("sft.yaml", text, acc__fsdp_yaml=FSDP).estimates[0].verdict == "unknown"
    assert analysed("sft.yaml", text, README_md=ACCELERATE.format("sft.yaml")).estimates[0].verdict == "unknown"


def test_a_command_of_the_framework_itself_outweighs_a_launch_file() -> None:
    command = "llamafactory-cli train sft.yaml\n"
    found = analysed("sft.yaml", LLAMAFACTORY, acc__fsdp_yaml=FSDP, README_md=command)

    assert found.estimates[0].verdict == "out_of_memory"


def test_a_config_that_is_always_given_an_engine_is_not_whole_on_one_gpu() -> None:
    """Two commands shard it in different ways, and nobody says on how many GPUs."""
    commands = [f"llamafactory-cli train sft.yaml --deepspeed ds/z{stage}.json\n" for stage in (2, 3)]
    files = {f"ds__z{stage}_json": f'{{"zero_optimization": {{"stage": {stage}}}}}' for stage in (2, 3)}
    found = analysed("sft.yaml", LLAMAFACTORY, None, run_sh="".join(commands), **files)
    assert found.estimates[0].verdict == "unknown"
    alone = "".join((*commands, "llamafactory-cli train sft.yaml\n"))  # as it stands, too
    assert analysed("sft.yaml", LLAMAFACTORY, None, run_sh=alone, **files).estimates[0].verdict == "out_of_memory"


def test_a_page_says_what_launches_a_program() -> None:
    code = CODE.format(library="torch", loaded=WHOLE)
    page = "```\naccelerate launch --config_file fsdp.yaml train.py\n```\n"
    (run,) = analysed("train.py", code, fsdp_yaml=FSDP, README_md=page).runs
    assert run.parallelism.engine == "fsdp"
    both = f"accelerate launch train.py\n\n{page}"  # with the launch file, or with none
    (run,) = analysed("train.py", code, fsdp_yaml=FSDP, README_md=both).runs
    assert run.parallelism.engine != "fsdp"
    (run,) = analysed("train.py", code, fsdp_yaml=FSDP, README_md="python train.py\n").runs
    assert run.parallelism.engine != "fsdp"


def test_axolotl_as_a_module_starts_what_its_command_starts() -> None:
    page = "python -m axolotl.cli.train config.yaml\n"
    (run,) = analysed("config.yaml", AXOLOTL, fsdp_yaml=FSDP, README_md=page).runs
    assert not run.readings
    (run,) = analysed("config.yaml", AXOLOTL, fsdp_yaml=FSDP).runs
    assert run.readings
