"""The embedded catalog: its form, its counts, and what its names resolve to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memlint.architectures import UnsupportedConfig, from_config, resolve
from memlint.architectures.builder import families
from memlint.architectures.model import count, parameters
from tests.architectures import referee

ROOT = Path(__file__).parent.parent.parent
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (ROOT / "memlint/architectures/catalog.jsonl").read_text(encoding="utf-8").splitlines()
]
# Parameters that the hub shows for these checkpoints (safetensors metadata), in the publisher's own count.
PUBLISHED = {
    "Qwen/Qwen2.5-7B-Instruct": 7_615_616_512,
    "meta-llama/Meta-Llama-3-8B-Instruct": 8_030_261_248,
    "mistralai/Mistral-7B-v0.1": 7_241_732_096,
    "Qwen/Qwen-7B": 7_721_324_544,
    "THUDM/chatglm3-6b": 6_243_584_000,
    "baichuan-inc/Baichuan2-7B-Base": 7_505_973_248,
    "internlm/internlm2-7b": 7_737_708_544,
    "deepseek-ai/deepseek-moe-16b-base": 16_375_728_128,
    "openbmb/MiniCPM-2B-sft-bf16": 2_724_880_896,
    "Qwen/Qwen2.5-VL-7B-Instruct": 8_292_166_656,
    "google/gemma-3-4b-it": 4_300_079_472,
    "mistralai/Mixtral-8x7B-v0.1": 46_702_792_704,
    "microsoft/Phi-3-mini-4k-instruct": 3_821_079_552,
    "Qwen/Qwen3-30B-A3B": 30_532_122_624,
    "deepseek-ai/DeepSeek-V2-Lite": 15_706_484_224,
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": 108_641_793_536,
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct": 401_583_781_376,
}
# Likewise, of models whose config.json was not read.
PUBLISHED_ALONE = {
    "apple/OpenELM-270M": 271_527_168,
    "apple/OpenELM-450M": 457_179_136,
    "apple/OpenELM-1_1B-Instruct": 1_079_891_456,
    "apple/OpenELM-3B": 3_036_647_424,
    "allenai/Molmo-7B-D-0924": 8_021_025_280,
}
SUPPORTED = [row for row in ROWS if row["config"]["model_type"] in families()]
THINKERS = {"qwen2_5_omni", "qwen3_omni_moe"}  # memlint counts their thinkers alone, see families/qwen_multimodal.py
NEED_TIMM = {"gemma3n"}  # its class builds a tower of a library that is not installed: test_families.py counts it
COMPARED = referee.CLASSES.keys() - THINKERS - NEED_TIMM
# Step-3.7's configuration that is its language model's own: transformers would add a tower of default size.
ALONE = [row for row in SUPPORTED if row["config"]["model_type"] == "step3p7" and "text_config" not in row["config"]]
# A flat config.json, whose untied head transformers 5.23 takes for a tied one.
ALONE += [row for row in SUPPORTED if "PaddlePaddle/PaddleOCR-VL" in row["ids"]]
SAMPLE = [row for row in SUPPORTED if row["config"]["model_type"] in COMPARED and row not in ALONE][::6]


@pytest.mark.parametrize("row", SAMPLE, ids=[row["ids"][0] for row in SAMPLE])
def test_counts_at_full_size_are_those_of_transformers(row: dict[str, Any]) -> None:
    values = {key: value for key, value in row["config"].items() if key not in ("model_type", "quantization_config")}
    model = referee.build(row["config"]["model_type"], values)
    assert parameters(from_config(row["config"])) == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(("name", "count"), PUBLISHED_ALONE.items())
def test_dimensions_that_were_not_read_give_the_published_count(name: str, count: int) -> None:
    row = next(row for row in ROWS if name in row["ids"])
    assert parameters(from_config(row["config"])) == count


@pytest.mark.parametrize(("name", "count"), PUBLISHED.items())
def test_counts_are_the_published_ones(name: str, count: int) -> None:
    resolution = resolve(name)
    assert resolution.inferred == ""
    assert resolution.architecture is not None
    assert parameters(resolution.architecture) == count


def test_every_id_is_listed_once_and_every_line_has_a_source() -> None:
    ids = [identifier.lower() for row in ROWS for identifier in row["ids"]]
    assert len(ids) == len(set(ids))
    assert len(ids) >= 400
    assert all(row["source"] for row in ROWS)


def test_every_id_resolves_to_itself() -> None:
    assert SUPPORTED
    for row in SUPPORTED:
        for identifier in row["ids"]:
            resolution = resolve(identifier)
            assert (resolution.name, resolution.source) == (identifier, "catalog")
            unread = row["source"].startswith("not read")
            assert bool(resolution.inferred) == unread and ("no config.json" in resolution.inferred) == unread


def test_a_listed_model_without_known_shapes_says_so() -> None:
    unsupported = [row for row in ROWS if row["config"]["model_type"] not in families()]
    assert unsupported
    for row in unsupported:
        with pytest.raises(UnsupportedConfig, match="no parameter shapes known for model_type"):
            from_config(row["config"])
        assert "no parameter shapes known" in resolve(row["ids"][0]).reason


def test_the_file_is_in_normal_form() -> None:
    command = [sys.executable, str(ROOT / "tools/catalog_index.py"), "--check"]
    assert subprocess.run(command, check=False).returncode == 0


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("Qwen/Qwen2.5-Omni-7B", 10_732_225_408),
        ("Qwen/Qwen3-Omni-30B-A3B-Instruct", 35_259_818_545),
        ("Qwen/Qwen3-Omni-30B-A3B-Thinking", 31_719_205_488),
    ],
)
def test_a_talker_is_beside_what_trains(name: str, whole: int) -> None:
    """The whole checkpoint: the hub shows 10.7, 35.3 and 31.7 billion."""
    model = resolve(name).architecture
    assert model is not None
    assert parameters(model) + count(model.speech_weights) == whole
