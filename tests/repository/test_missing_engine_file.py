"""Runs whose DeepSpeed file is not there."""

import pytest

from memlint.hardware import find
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Analysis, Engine
from memlint.run import UNKNOWN

CONFIG = """model_name_or_path: meta-llama/Meta-Llama-3-8B
output_dir: out
learning_rate: 1.0e-5
{more}per_device_train_batch_size: 1
dataset_text_field: text
bf16: true
deepspeed: {name}
"""
LENGTH = "max_length: 2048\n"


def analysed(name: str, more: str = LENGTH, **files: str) -> Analysis:
    workspace = in_memory({"a.yaml": CONFIG.format(name=name, more=more), **files})
    context = workspace.context(gpu=find("A100-40GB"), gpus=8)
    return Engine(()).analyse(workspace.documents("a.yaml")[0], context)


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("ds.json", ["with ZeRO-2", "with ZeRO-2, offloaded", "with ZeRO-3", "with ZeRO-3, offloaded"]),
        ("configs/zero2_config.json", ["with ZeRO-2", "with ZeRO-2, offloaded"]),
        ("ds_z3_config.json", ["with ZeRO-3", "with ZeRO-3, offloaded"]),
        ("ds_z3_offload_config.json", ["with ZeRO-3, offloaded"]),
        ("deepspeed_stage1.json", ["with ZeRO-1", "with ZeRO-1, offloaded"]),
    ],
)
def test_each_way_in_which_such_a_file_shards_has_its_figure(name: str, labels: list[str]) -> None:
    found = analysed(name)
    (run,), (estimate,) = found.runs, found.estimates

    assert run.parallelism.zero.stage is UNKNOWN
    assert [one.label for one in estimate.readings] == labels
    assert all(one.device_bytes for one in estimate.readings)
    assert (estimate.verdict == "unknown") == (len({one.verdict for one in estimate.readings}) > 1)
    assert estimate.device_bytes == max(one.device_bytes or 0 for one in estimate.readings)


def test_what_differs_is_said_with_its_reason() -> None:
    (estimate,) = analysed("ds.json").estimates
    assert estimate.verdict == "unknown"
    assert estimate.unknown[-1].reason.startswith("DeepSpeed file not known: ")


def test_a_file_that_is_there_leaves_nothing_open() -> None:
    found = analysed("ds.json", **{"ds.json": '{"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}}'})
    assert found.runs[0].readings == ()
