"""Components that a file names, and keys that a recipe asks for, against torchtune's releases."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import analyse

FULL: dict[str, Any] = {
    "output_dir": "/tmp/out",
    "tokenizer": {"_component_": "torchtune.models.llama3.llama3_tokenizer", "path": "/tmp/t", "max_seq_len": 2048},
    "dataset": {"_component_": "torchtune.datasets.alpaca_dataset"},
    "seed": None,
    "shuffle": True,
    "model": {"_component_": "torchtune.models.llama3_1.llama3_1_8b"},
    "checkpointer": {
        "_component_": "torchtune.training.FullModelHFCheckpointer",
        "checkpoint_dir": "/tmp/model",
        "checkpoint_files": ["a.safetensors"],
        "output_dir": "/tmp/out",
        "model_type": "LLAMA3",
    },
    "resume_from_checkpoint": False,
    "batch_size": 2,
    "epochs": 1,
    "optimizer": {"_component_": "torch.optim.AdamW", "lr": 2e-5},
    "loss": {"_component_": "torchtune.modules.loss.CEWithChunkedOutputLoss"},
    "max_steps_per_epoch": None,
    "compile": False,
    "optimizer_in_bwd": False,
    "gradient_accumulation_steps": 1,
    "device": "cuda",
    "dtype": "bf16",
    "metric_logger": {"_component_": "torchtune.training.metric_logging.DiskLogger", "log_dir": "/tmp/logs"},
}
COMMAND = "tune run full_finetune_single_device --config config.yaml"


def said(section: str, change: dict[str, Any], more: str = "", release: tuple[int, ...] = (0, 6, 1)) -> list[str]:
    """Errors on the file and the command, once `change` lies over a section of a sound file; None takes a key out."""
    value = {**FULL, section: {**FULL[section], **change}} if section else {**FULL, **change}
    value = {key: _without_gone(item) for key, item in value.items() if item != "gone"}
    workspace = in_memory({"run.sh": f"{COMMAND} {more}\n", "config.yaml": json.dumps(value)})
    context = workspace.context(gpus=1, gpus_per_node=1, versions={"torchtune": release} if release else {})
    documents = [one for name in ("run.sh", "config.yaml") for one in workspace.documents(name)]
    found = [one for document in documents for one in analyse(document, context, ()).findings]
    return [one.message.partition(": torchtune")[0] for one in found if one.severity == "error"]


def _without_gone(item: Any) -> Any:
    return {key: one for key, one in item.items() if one != "gone"} if isinstance(item, dict) else item


@pytest.mark.parametrize(
    ("section", "change", "words"),
    [
        ("", {}, ""),
        ("optimizer", {"_component_": "torch.optim.Adamw"}, "PyTorch has no `torch.optim.Adamw`, did you mean"),
        ("optimizer", {"_component_": "AdamW"}, "`AdamW` is no dotted name of a class or function"),
        ("optimizer", {"learning_rate": 1e-5}, "`torch.optim.AdamW` takes no argument `learning_rate`"),
        ("optimizer", {"betas": [0.9, 1.5]}, "each of `betas` must be from 0 to below 1"),
        ("optimizer", {"weight_decay": -1}, "`weight_decay` must be at least 0"),
        ("optimizer", {"_component_": "mine.Optimizer", "anything": 1}, ""),
        ("tokenizer", {"max_length": 8}, "`torchtune.models.llama3.llama3_tokenizer` takes no argument `max_length`"),
        ("tokenizer", {"path": "gone"}, "the recipe `full_finetune_single_device` needs `tokenizer.path`"),
        ("loss", {"_component_": "gone"}, "the recipe `full_finetune_single_device` needs `loss._component_`"),
        (
            "checkpointer",
            {"_component_": "torchtune.training.FullModelHfCheckpointer"},
            "no release of torchtune since",
        ),
        (
            "dataset",
            {"_component_": "torchtune.datasets.chat_dataset"},
            "the recipe `full_finetune_single_device` needs",
        ),
        ("", {"batch_size": "gone"}, "the recipe `full_finetune_single_device` needs `batch_size`"),
        ("model", {"lora_rank": 0}, "`lora_rank: 0` is no whole number above 0"),
    ],
)
def test_what_torchtune_stops_at(section: str, change: dict[str, Any], words: str) -> None:
    found = said(section, change)
    assert any(one.startswith(words) for one in found) if words else found == []


def test_a_command_gives_what_its_file_lacks() -> None:
    assert said("", {"batch_size": "gone"}, "batch_size=4") == []


def test_without_a_stated_release_a_name_may_be_of_another() -> None:
    change = {"_component_": "torchtune.training.FullModelHfCheckpointer"}
    assert said("checkpointer", change) and not said("checkpointer", change, release=())
    assert not said("checkpointer", change, release=(0, 9))  # a release that was not read
