"""`budgets:` in memlint.yaml: shares of the card and of the host that a run may use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands.running import memlint, write

CONFIG = """model_name_or_path: Qwen/Qwen2.5-1.5B
stage: sft
do_train: true
finetuning_type: full
dataset: alpaca_en_demo
template: qwen
cutoff_len: 512
per_device_train_batch_size: 1
bf16: true
output_dir: out
"""


@pytest.mark.parametrize(("share", "said"), [(0.1, True), (0.9, False)])
def test_states_over_their_share(tmp_path: Path, share: float, said: bool) -> None:
    write(
        tmp_path,
        {"a.yaml": CONFIG, "memlint.yaml": f"gpu: A100-80GB\ngpus: 1\nbudgets: {{max_optimizer_share: {share}}}\n"},
    )
    told = memlint(tmp_path, "check", "a.yaml", "--no-fixes").out

    assert ("OPT001" in told) == said
    assert "1 fits" in told


@pytest.mark.parametrize(("share", "said"), [(1, False), (0.01, True)])
def test_a_share_of_the_host(tmp_path: Path, share: float, said: bool) -> None:
    engine = {"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}, "bf16": {"enabled": "auto"}}
    settings = f"gpu: A100-80GB\ngpus: 1\nhost_memory: 512GiB\nbudgets: {{max_host_share: {share}}}\n"
    files = {"a.yaml": f"{CONFIG}deepspeed: ds.json\n", "ds.json": json.dumps(engine), "memlint.yaml": settings}
    write(tmp_path, files)

    assert ("host" in memlint(tmp_path, "check", "a.yaml", "--no-fixes").out) == said
