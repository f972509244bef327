"""Slips in keys and values: what is offered, and what fixing makes of the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands.history import LLAMA
from tests.commands.running import memlint, write

TRAINER = """\
model_name_or_path: Qwen/Qwen2.5-0.5B
per_device_train_batch_size: 1
output_dir: out
do_train: true
bf16: true
"""
NEWEST = ("--versions", "transformers=5.23")
SLIPS = {  # (a config, what is written for it)
    "a key": (LLAMA + "warmup_ratoi: 0.1\n", "warmup_ratio: 0.1\n", False),
    "a key of another name": (LLAMA + "evaluation_strategy: 'no'\n", "eval_strategy: 'no'\n", False),
    "a choice": (LLAMA + "lr_scheduler_type: cosin\n", "lr_scheduler_type: cosine\n", False),
    "a number in quotes": (LLAMA + 'save_steps: "20"\n', "save_steps: 20\n", True),
    "a number that is text": (TRAINER + "learning_rate: 1e-5\n", "learning_rate: 1.0e-5\n", True),
    "a number that is text, in capitals": (TRAINER + "learning_rate: 2E-4\n", "learning_rate: 0.0002\n", True),
    "a key of the Trainer": (
        TRAINER + "gradient_accumulation_step: 16\n",
        "gradient_accumulation_steps: 16\n",
        False,
    ),
}


@pytest.mark.parametrize("case", SLIPS)
def test_a_slip_is_mended(case: str, tmp_path: Path) -> None:
    text, wanted, safe = SLIPS[case]
    write(tmp_path, {"train.yaml": text})
    before = text.splitlines(keepends=True)[:-1]

    memlint(tmp_path, "fix", "train.yaml", "--rule", "config")
    assert (tmp_path / "train.yaml").read_text() == ("".join([*before, wanted]) if safe else text)
    memlint(tmp_path, "fix", "train.yaml", "--unsafe", "--rule", "config")
    assert (tmp_path / "train.yaml").read_text() == "".join([*before, wanted])


@pytest.mark.parametrize(
    "line",
    ["load_in_4bit: true\n", "lora_rnk: 8\nlora_rank: 16\n", "quite_another_thing: 1\n"],
    ids=["another value with the other name", "the key is there already", "nothing is near"],
)
def test_a_key_that_cannot_be_renamed_stays(line: str, tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": LLAMA + line})
    found = json.loads(memlint(tmp_path, "check", "train.yaml", "--format", "json").out)["findings"]
    assert [item["fixes"] for item in found if item["rule"] == "CFG001"] == [[]]


def test_a_key_is_not_renamed_for_a_release_that_nobody_named(tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": TRAINER + "warmup_ratio: 0.1\n"})
    told = [memlint(tmp_path, "check", "train.yaml", "--format", "json", *said).out for said in ((), NEWEST)]
    fixes = [[len(one["fixes"]) for one in json.loads(out)["findings"] if one["rule"] == "CFG005"] for out in told]
    assert fixes == [[0], [1]]


def test_a_slip_in_a_file_that_the_config_names_is_mended_there(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "train.yaml": LLAMA + "deepspeed: ds.json\n",
            "ds.json": '{"zero_optimization": {"stage": 2, "overlap_com": true}}\n',
        },
    )
    memlint(tmp_path, "fix", "train.yaml", "--unsafe", "--rule", "CFG001")
    assert json.loads((tmp_path / "ds.json").read_text())["zero_optimization"] == {"stage": 2, "overlap_comm": True}


def test_a_refusal_about_evaluation_points_to_the_old_name_of_the_key(tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": LLAMA + "evaluation_strategy: steps\n"})
    told = memlint(tmp_path, "check", "train.yaml", "--format", "concise").out
    line = LLAMA.count("\n") + 1
    assert f"train.yaml:{line}:22: warning LLF037" in told


def test_both_half_types_are_told_once_and_mended(tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": TRAINER + "fp16: true\n"})
    found = json.loads(memlint(tmp_path, "check", "train.yaml", "--format", "json").out)["findings"]
    assert [item["rule"] for item in found] == ["PRE011"]
    memlint(tmp_path, "fix", "train.yaml", "--unsafe")
    assert (tmp_path / "train.yaml").read_text() == TRAINER


@pytest.mark.parametrize(
    ("line", "place", "said"),
    [
        ("stage:sft\n", "2:1", "a ':' needs a space behind it"),
        ("stage\n", "2:1", "a key without ':'"),
        ("\tstage: sft\n", "2:1", "a tab; YAML is indented with spaces"),
    ],
)
def test_a_slip_in_the_text_is_told_where_it_is(line: str, place: str, said: str, tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": f"model_name_or_path: x\n{line}do_train: true\n"})
    told = memlint(tmp_path, "train.yaml").out
    assert f"train.yaml:{place}: error SRC001" in told and said in told
    assert "no config that memlint knows" not in told


def test_a_choice_is_listed_once(tmp_path: Path) -> None:
    text = "compute_environment: LOCAL_MACHINE\ndistributed_type: 'NO'\nmixed_precision: bf6\nnum_processes: 1\n"
    write(tmp_path, {"accelerate.yaml": text})
    told = memlint(tmp_path, "accelerate.yaml").out
    assert "It takes one of no, fp16, bf16, fp8, fp32, false, null" in told


def test_none_in_a_file_is_null(tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": LLAMA + "max_samples: None\n"})
    memlint(tmp_path, "fix", "train.yaml")
    assert (tmp_path / "train.yaml").read_text() == LLAMA + "max_samples: null\n"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "ds.json",
            '{"stage": 3, "zero_optimization": {}, "bf16": {"enabled": true}, "train_micro_batch_size_per_gpu": 1}',
            "unknown key `stage`: it belongs into `zero_optimization`",
        ),
        (
            "ds.json",
            '{"zero_optimization": {"stage": 3, "train_batch_size": 8}, "bf16": {"enabled": true}}',
            "unknown key `train_batch_size`: it belongs to the top level of the file",
        ),
        (
            "train.yaml",
            LLAMA + "method_args:\n  lora_alpha: 16\n  lora_dropout: 0.1\n",
            "unknown key `method_args`: `lora_alpha`, `lora_dropout` belong one level higher",
        ),
    ],
)
def test_a_key_in_the_wrong_place_is_told_the_right_one(name: str, text: str, said: str, tmp_path: Path) -> None:
    write(tmp_path, {name: text})
    assert said in memlint(tmp_path, name).out
