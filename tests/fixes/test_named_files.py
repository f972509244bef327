"""Fixes of a launch whose values stand in files that its command names: they are written there, and read from there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from memlint.findings import Finding
from memlint.hardware import find
from memlint.lint.analyse_file import FileAnalyser, uniform_analyser
from memlint.repository.workspace import Workspace, in_memory
from memlint.ruleset.engine import Engine
from memlint.ruleset.shipped import shipped
from memlint.run import Origin

ZERO_3 = '{"zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"}, "train_micro_batch_size_per_gpu": "auto"}'
LLAMAFACTORY = """\
model_name_or_path: meta-llama/Llama-3.1-8B
stage: sft
do_train: true
finetuning_type: full
dataset: identity
template: llama3
cutoff_len: 4096
output_dir: out
bf16: true
per_device_train_batch_size: 8
deepspeed: zero3.json
"""
SWIFT = """\
model: Qwen/Qwen2.5-7B-Instruct
train_type: full
torch_dtype: bfloat16
max_length: 8192
per_device_train_batch_size: 4
gradient_accumulation_steps: 2
dataset: a
deepspeed: zero3
ENV:
  MAX_PIXELS: 1003520
"""
FLAGS = "--model_name_or_path meta-llama/Llama-3.1-8B --bf16 --per_device_train_batch_size 1 --max_length 512"
PROGRAM = "from trl import SFTConfig, TrlParser\nTrlParser((SFTConfig,)).parse_args_and_config()\n"


def findings(files: Mapping[str, str], **facts: Any) -> tuple[Finding, ...]:
    workspace = in_memory(files)
    return _analyser(workspace, **facts).analyse("train.sh").findings


def _analyser(workspace: Workspace, **facts: Any) -> FileAnalyser:
    return uniform_analyser(Engine(tuple(shipped())), facts, workspace=workspace)


def card(name: str) -> dict[str, Any]:
    return {"gpu": find(name), "gpu_origin": Origin("command_line")}


def test_a_fix_of_the_engines_file_alone_is_read_in_that_file() -> None:
    files = {"train.sh": f"torchrun --nproc_per_node=8 train.py {FLAGS} --deepspeed zero3.json\n", "train.py": PROGRAM}
    (found,) = (one for one in findings({**files, "zero3.json": ZERO_3}) if one.rule == "SAV002")
    assert [(fix.note, len(fix.patches)) for fix in found.fixes] == [("", 1)]


@pytest.mark.parametrize(
    ("command", "text", "gpu"),
    [
        ("FORCE_TORCHRUN=1 NPROC_PER_NODE=4 llamafactory-cli train run.yaml", LLAMAFACTORY, "RTX4090"),
        ("NPROC_PER_NODE=8 swift sft run.yaml", SWIFT, "A100-40GB"),
    ],
)
def test_a_fix_of_a_config_is_written_in_the_config(command: str, text: str, gpu: str) -> None:
    found = findings({"train.sh": command + "\n", "run.yaml": text, "zero3.json": ZERO_3}, **card(gpu))
    (out,) = (one for one in found if one.rule in ("MEM001", "MEM010"))
    written = [{patch.path for patch in fix.patches} for fix in out.fixes if fix.edits]
    assert written and all(paths <= {"run.yaml", "zero3.json"} for paths in written)
    assert "flag" not in " ".join(fix.note for fix in out.fixes)


def test_what_the_command_sets_stays_out_of_the_config() -> None:
    files = {"train.sh": "NPROC_PER_NODE=8 swift sft run.yaml --max_length 16384\n", "run.yaml": SWIFT}
    workspace = in_memory(files)
    outcome = _analyser(workspace, **card("A100-40GB")).analyse("train.sh")
    run = outcome.analyses[0].runs[0]
    assert (run.sequence.length, run.batch.micro_batch_size, run.parallelism.world_size) == (16384, 4, 8)
    assert workspace.documents("run.yaml")[0].value["ENV"] == {"MAX_PIXELS": 1003520}
    (out,) = (one for one in outcome.findings if one.rule in ("MEM001", "MEM010"))
    assert any({patch.path for patch in fix.patches} == {"run.yaml", "train.sh"} for fix in out.fixes)


LAUNCH_FILE = """\
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
deepspeed_config:
  offload_optimizer_device: none
  offload_param_device: none
  zero_stage: 2
mixed_precision: bf16
num_processes: 1
"""


def test_a_plan_for_the_launch_file_alone_is_read_in_that_file() -> None:
    command = f"accelerate launch --config_file launch.yaml train.py {FLAGS} --output_dir out --dataset_name d\n"
    files = {"train.sh": command, "train.py": PROGRAM, "launch.yaml": LAUNCH_FILE}
    (finding,) = [one for one in findings(files, **card("A100-80GB")) if one.rule == "MEM001"]
    first = finding.fixes[0]
    assert [(patch.path, patch.text) for patch in first.patches] == [("launch.yaml", "cpu")]
    assert first.verdict_after == "fits"
