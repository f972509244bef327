"""What two rules see is said by one of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memlint.cli import main

GRPO = """\
CUDA_VISIBLE_DEVICES=0,1 NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen2.5-7B-Instruct \\
  --train_type full --torch_dtype bfloat16 --dataset d.jsonl --max_length 32768 --max_completion_length 2048 \\
  --per_device_train_batch_size 2 --num_generations 4 --deepspeed zero3
"""


def test_prompts_and_completions_beyond_the_positions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.sh").write_text(GRPO)
    main(["check", str(tmp_path / "run.sh"), "--gpu", "A100-80GB", "--no-fixes", "--format", "json"])
    found = [one["rule"] for one in json.loads(capsys.readouterr().out)["findings"]]
    assert [rule for rule in found if rule.startswith("DAT")] == ["DAT006"]


def test_an_engine_that_stops_at_the_positions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.sh").write_text(GRPO.replace("zero3", "zero3 --use_vllm true --vllm_max_model_len 32768"))
    main(["check", str(tmp_path / "run.sh"), "--gpu", "A100-80GB", "--no-fixes", "--format", "json"])
    found = [one["rule"] for one in json.loads(capsys.readouterr().out)["findings"]]
    assert not [rule for rule in found if rule.startswith("DAT")]
