"""Keys that plans must leave as they are: a misspelled one is an error."""

from __future__ import annotations

import pytest

import memlint
from memlint.errors import UsageError

FULL = """\
model_name_or_path: meta-llama/Meta-Llama-3-8B
stage: sft
do_train: true
finetuning_type: full
dataset: alpaca_en_demo
template: llama3
cutoff_len: 4096
per_device_train_batch_size: 4
bf16: true
output_dir: out
ours: {seed: 1}
"""
SETTING = {"gpu": "A100-80GB", "gpus": 8}


@pytest.mark.parametrize(
    ("key", "meant"),
    [("cutof_len", "cutoff_len"), ("flash_atn", "flash_attn"), ("batch.micro_batch_siz", "micro_batch_size")],
)
def test_a_slip_of_a_key_is_named(key: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"did you mean `{meant}`"):
        memlint.plan(FULL, path="a.yaml", keep=[key], **SETTING)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["cutoff_len", "flash_attn", "batch.micro_batch_size", "ours.seed", "zzz_of_a_script"])
def test_keys_of_files_frameworks_runs_and_scripts_are_kept(key: str) -> None:
    assert memlint.plan(FULL, path="a.yaml", keep=[key], **SETTING).runs  # type: ignore[arg-type]
