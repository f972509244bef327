"""Runs whose launch commands differ in the number of GPUs alone."""

from memlint.hardware import find
from memlint.repository.launch.several_numbers import REASON
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Analysis, Engine
from memlint.run import UNKNOWN

CONFIG = """model_name_or_path: meta-llama/Meta-Llama-3-8B
output_dir: out
max_length: 2048
per_device_train_batch_size: 1
dataset_text_field: text
bf16: true
gradient_checkpointing: true
deepspeed: zero3.json
"""
ZERO3 = '{"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}}'
ON = "accelerate launch --num_processes {} train.py --config a.yaml\n"


def analysed(gpu: str, **scripts: str) -> Analysis:
    program = "from trl import SFTConfig, TrlParser\n"
    workspace = in_memory({"a.yaml": CONFIG, "zero3.json": ZERO3, "train.py": program, **scripts})
    return Engine(()).analyse(workspace.documents("a.yaml")[0], workspace.context(gpu=find(gpu)))


def test_each_number_is_a_way_in_which_it_may_run() -> None:
    found = analysed("A100-40GB", **{"two.sh": ON.format(2), "eight.sh": ON.format(8), "again.sh": ON.format(8)})
    (run,), (estimate,) = found.runs, found.estimates

    assert run.parallelism.world_size is UNKNOWN
    assert [one.changes[0] for one in run.readings] == [("parallelism.world_size", 2), ("parallelism.world_size", 8)]
    assert [one.verdict for one in estimate.readings] == ["out_of_memory", "fits"]
    assert estimate.verdict == "unknown"
    assert estimate.unknown[-1].reason.startswith("commands start it on different numbers of GPUs: ")


def test_they_agree_on_a_card_that_is_large_enough() -> None:
    found = analysed("B200", **{"two.sh": ON.format(2), "eight.sh": ON.format(8)})
    assert found.estimates[0].verdict == "fits"


def test_commands_that_leave_the_number_open_or_agree_add_none() -> None:
    assert analysed("A100-40GB", **{"a.sh": ON.format(2), "b.sh": ON.format("$N")}).runs[0].readings == ()
    (run,) = analysed("A100-40GB", **{"a.sh": ON.format(2), "b.sh": ON.format(2)}).runs
    assert run.parallelism.world_size == 2 and REASON not in [one.reason for one in run.readings]
