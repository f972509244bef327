"""A run whose batch size stands in a config that only its program names: plans are tried on that config."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memlint.cli import main
from memlint.repository.python.configs import ConfigIndex

PROGRAM = """\
import argparse
import torch, yaml
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=str, default="configs/own.yaml")
    parser.add_argument("--schedule", type=str, required=True)
    return parser.parse_args()

def load_config(path):
    with open(path) as f:
        return yaml.safe_load(f)

def main():
    args = parse_args()
    cfg = load_config(args.config)
    model = AutoModelForCausalLM.from_pretrained(cfg["model"]["name"], torch_dtype=torch.bfloat16)
    tcfg = cfg["training"]
    trainer = DPOTrainer(model=model, args=DPOConfig(
        output_dir="out", bf16=True, gradient_checkpointing=True,
        per_device_train_batch_size=tcfg["per_device_train_batch_size"], max_length=tcfg["max_length"],
        gradient_accumulation_steps=tcfg["gradient_accumulation_steps"],
    ))
    trainer.train()

main()
"""
CONFIG = """\
model:
  name: Qwen/Qwen2.5-1.5B
noise_schedules:
  uniform: {rate: 0.1}
training:
  per_device_train_batch_size: 32
  gradient_accumulation_steps: 1
  max_length: 2048
"""


def test_a_plan_that_changes_the_config(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The index of configs gives up on repositories with many scripts; the program itself still names the file.
    monkeypatch.setattr(ConfigIndex, "documents", lambda *_: ())
    (tmp_path / "configs").mkdir()
    (tmp_path / "scripts").mkdir()
    (tmp_path / "configs" / "own.yaml").write_text(CONFIG)
    (tmp_path / "scripts" / "train.py").write_text(PROGRAM)
    program = str(tmp_path / "scripts" / "train.py")
    main(["check", program, "--gpu", "RTX4090", "--gpus", "1", "--format", "json"])
    found = json.loads(capsys.readouterr().out)["findings"]
    rules = {one["rule"]: one for one in found}
    assert "MEM000" not in rules
    over = next(one for one in found if one["rule"] in ("MEM001", "MEM002", "MEM010", "MEM013"))
    assert over["location"]["path"].endswith("configs/own.yaml")
