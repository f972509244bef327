"""Framework versions: who says them, strongest first, and what the estimate says it rests on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands.running import memlint, write

TRL = """\
model_name_or_path: Qwen/Qwen2.5-0.5B
output_dir: out
dataset_text_field: text
per_device_train_batch_size: 4
bf16: true
max_length: 2048
"""


def estimate(folder: Path, *arguments: str) -> dict[str, Any]:
    done = memlint(folder, "estimate", "configs/sft.yaml", "--format", "json", *arguments)
    assert done.code == 0, done.err
    (run,) = json.loads(done.out)["runs"]
    return dict(run)


def assumed(run: dict[str, Any], field: str) -> tuple[Any, str]:
    return next((one["value"], one["origin"]) for one in run["assumptions"] if one["field"] == field)


def test_every_value_says_where_it_came_from(tmp_path: Path) -> None:
    write(tmp_path, {"configs/sft.yaml": TRL})
    run = estimate(tmp_path, "--gpu", "A100-80GB")
    assert run["model"]["source"] == "catalog"
    assert assumed(run, "sequence.length") == (2048, "configs/sft.yaml:6:13")
    assert assumed(run, "hardware.gpu") == ("A100-80GB", "command line")
    assert assumed(run, "evaluation.batch_size")[1].startswith("default of trl")


def test_the_strongest_word_on_versions_counts(tmp_path: Path) -> None:
    write(tmp_path, {"configs/sft.yaml": TRL, ".git/HEAD": "ref: refs/heads/main\n"})
    newest = estimate(tmp_path)

    write(tmp_path, {"requirements.txt": "trl==0.15.2\ntransformers==4.49.0\n"})
    pinned = estimate(tmp_path)
    assert assumed(pinned, "stack.trl") == ("0.15.2", "requirements.txt:1:1 (pinned in requirements.txt)")
    assert pinned["peak"]["allocated_bytes"] > 1.2 * newest["peak"]["allocated_bytes"]  # full logits

    write(tmp_path, {"memlint.yaml": 'versions: {trl: "0.19"}\n'})
    assert assumed(estimate(tmp_path), "stack.trl") == ("0.19", "memlint.yaml:1:17")

    write(tmp_path, {"configs/sft.yaml": "# memlint: trl=0.18\n" + TRL})
    assert assumed(estimate(tmp_path), "stack.trl") == ("0.18", "configs/sft.yaml:1:1")

    said = estimate(tmp_path, "--versions", "trl=1.2,peft==0.12")
    assert assumed(said, "stack.trl") == ("1.2", "command line")
    assert assumed(said, "stack.transformers")[0] == "4.49.0"


def test_isolated_reads_no_pins(tmp_path: Path) -> None:
    write(tmp_path, {"configs/sft.yaml": TRL, "requirements.txt": "trl==0.15.2\n", ".git/HEAD": "ref: x\n"})
    assert not any(one["field"] == "stack.trl" for one in estimate(tmp_path, "--isolated")["assumptions"])


@pytest.mark.parametrize(
    ("word", "hint"),
    [("transformer=4.4", "did you mean transformers?"), ("trl", "trl=4.48"), ("trl=x", "trl=4.48")],
)
def test_versions_that_cannot_be_meant(tmp_path: Path, word: str, hint: str) -> None:
    write(tmp_path, {"configs/sft.yaml": TRL})
    done = memlint(tmp_path, "estimate", "configs/sft.yaml", "--versions", word)
    assert (done.code, done.out) == (2, "")
    assert hint in done.err


def test_the_table_names_versions_that_are_not_the_newest(tmp_path: Path) -> None:
    write(tmp_path, {"configs/sft.yaml": TRL.replace("max_length", "max_seq_length")})
    shown = memlint(tmp_path, "estimate", "configs/sft.yaml", "--no-color").out
    assert "trl 0.19 (the newest trl that takes `max_seq_length`, configs/sft.yaml:6)" in shown
