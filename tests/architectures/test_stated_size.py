"""Models of which a name states the size and nothing else is known."""

from __future__ import annotations

import json
import re

import pytest

from memlint.architectures import datafile, stated_size
from memlint.architectures.builder import from_config
from memlint.architectures.catalog import FILE
from memlint.architectures.config import UnsupportedConfig
from memlint.architectures.model import parameters


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("/scratch/models/33B_torch_step166752_bfloat16", "33B"),
        ("./models/BAGEL-7B-MoT/", "7B"),
        ("saves/our-1.5b-sft/checkpoint-500", "1.5B"),
        ("own/Doge-160M-SFT", "160M"),
        ("Qwen-1_8B-own", "1.8B"),
        ("Parrot_S1_7B-Qwen15Clip", "7B"),
        ("own-qwen1_5_7B", "7B"),
        ("distilled-70B-to-7B", "7B"),
        ("own-8x7B", "7B"),
        ("pretrained-50B-tokens-1.3b", "1.3B"),
        ("chat-7B-1M", "7B"),
    ],
)
def test_the_smallest_size_of_a_name(name: str, size: str) -> None:
    assert stated_size.stated(name) == size


@pytest.mark.parametrize(
    "name", ["checkpoints/init", "own-E2B", "own-moe-a3b", "own-1M", "llama-10BT", "${MODEL}-7B", "x-100B-tokens", ""]
)
def test_names_without_a_size(name: str) -> None:
    assert stated_size.architecture(name) is None


def test_no_model_of_the_catalog_has_fewer_parameters_than_its_name_is_taken_for() -> None:
    states_one = re.compile(r"\d[bBmM]")
    count = 0
    for line in datafile.text(FILE).split(b"\n"):
        row = json.loads(line) if line else {"ids": ()}
        named = [name for name in row["ids"] if states_one.search(name)]
        if not named:
            continue
        try:
            whole = parameters(from_config(row["config"]))
        except UnsupportedConfig:
            continue
        for name in named:
            least = stated_size.architecture(name)
            count += least is not None
            assert least is None or parameters(least) <= whole, name
    assert count > 1000


def test_a_model_is_a_little_less_than_the_size_and_stored_as_its_name_says() -> None:
    found = stated_size.architecture("own-7B-AWQ")
    assert found is not None
    assert 0.98 < parameters(found) / (stated_size.LEAST * 7e9) <= 1
    assert found.stored.method == "awq"
