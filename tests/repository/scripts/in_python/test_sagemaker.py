"""Training jobs of SageMaker as the commands that their machines run."""

from __future__ import annotations

import json

import pytest

from memlint.repository.workspace import in_memory
from memlint.source.document import Document

PROGRAM = """
from transformers import HfArgumentParser, Trainer, TrainingArguments
(arguments,) = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
Trainer(args=arguments).train()
"""
GIVEN = "{{'model_name_or_path': 'Qwen/Qwen2.5-7B', 'per_device_train_batch_size': 3, 'bf16': True, "
GIVEN += "'learning_rate': 1e-5, 'output_dir': '/opt/ml/model'}}"
ESTIMATOR = "from sagemaker.huggingface import HuggingFace\nparameters = " + GIVEN + "\n"
ESTIMATOR += "job = HuggingFace(entry_point='train.py', source_dir='src', instance_type='ml.p4d.24xlarge', "
ESTIMATOR += "instance_count={nodes}, role='r', hyperparameters=parameters{more})\njob.fit()\n"
TRAINER = "from sagemaker.modules.train import ModelTrainer\n"
TRAINER += "from sagemaker.modules.configs import Compute, SourceCode\n"
TRAINER += "from sagemaker.modules.distributed import MPI, Torchrun\n"
TRAINER += "job = ModelTrainer(source_code=SourceCode(source_dir='src', {code}), "
TRAINER += "compute=Compute(instance_type='ml.p5.48xlarge', instance_count=1), "
TRAINER += "hyperparameters=" + GIVEN + "{more})\njob.train()\n"


def documents(code: str, path: str = "launch.py") -> tuple[Document, ...]:
    return in_memory({path: code, "src/train.py": PROGRAM}).documents(path)


@pytest.mark.parametrize(
    ("more", "gpus"),
    [
        (", distribution={'torch_distributed': {'enabled': True}}", 16),
        (", distribution={'pytorchddp': {'enabled': True}}", 16),
        (", distribution={'smdistributed': {'dataparallel': {'enabled': True}}}", 16),
        (", distribution={'mpi': {'enabled': True, 'processes_per_host': 4}}", 8),
    ],
)
def test_an_estimator_starts_a_process_for_each_gpu(more: str, gpus: int) -> None:
    code = ESTIMATOR.format(nodes=2, more=more)
    (found,) = documents(code)

    assert found.value["per_device_train_batch_size"] == 3
    assert found.value["bf16"] is True
    place = found.places[("per_device_train_batch_size",)].value
    assert code[place.start : place.end] == "3"
    assert found.start is not None
    assert (found.start.program.is_foreign, found.start.launcher) == (False, "torchrun")
    assert (found.start.machine.card, found.start.machine.gpus) == ("A100-40GB", gpus)


def test_without_a_distribution_each_machine_starts_the_program_once() -> None:
    (found,) = documents(ESTIMATOR.format(nodes=1, more=""))

    assert found.start is not None
    assert (found.start.launcher, found.start.machine.card) == ("python", "A100-40GB")


@pytest.mark.parametrize(
    "more",
    [
        ", distribution={'smdistributed': {'modelparallel': {'enabled': True}}, 'mpi': {'enabled': True}}",
        ", distribution={'parameter_server': {'enabled': True}}",
        ", distribution=chosen()",
    ],
)
def test_ways_to_distribute_that_nobody_knows_are_no_run(more: str) -> None:
    assert documents(ESTIMATOR.format(nodes=1, more=more)) == ()


@pytest.mark.parametrize(
    ("code", "more", "launcher", "gpus"),
    [
        ("entry_script='train.py'", ", distributed=Torchrun()", "torchrun", 8),
        ("entry_script='train.py'", ", distributed=MPI(process_count_per_node=4)", "torchrun", 4),
        ("entry_script='train.py'", "", "python", 8),
        (
            "command='torchrun --nproc_per_node 2 train.py --model_name_or_path Qwen/Qwen2.5-7B --bf16 True "
            "--per_device_train_batch_size 3 --learning_rate 1e-5'",
            "",
            "torchrun",
            2,
        ),
    ],
)
def test_a_model_trainer_starts_its_script_or_its_command(code: str, more: str, launcher: str, gpus: int) -> None:
    (found,) = documents(TRAINER.format(code=code, more=more))

    assert found.value["per_device_train_batch_size"] == 3
    assert found.start is not None
    assert (found.start.launcher, found.start.machine.gpus, found.start.machine.card) == (launcher, gpus, "H100-80GB")


def test_a_notebook_starts_training_jobs_too() -> None:
    source = ESTIMATOR.format(nodes=1, more=", distribution={'torch_distributed': {'enabled': True}}")
    cell = {"cell_type": "code", "source": source.splitlines(keepends=True), "metadata": {}, "outputs": []}
    text = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    (found,) = documents(text, "launch.ipynb")

    assert found.start is not None and found.start.machine.gpus == 8
    place = found.places[("model_name_or_path",)].value
    assert text[place.start : place.end] == "Qwen/Qwen2.5-7B"
