"""Each file below examples/ shows what its comment and its README say, in the README's first command."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.commands.running import memlint

ROOT = Path(__file__).parent.parent.parent
# File -> verdict, and rules with words of their messages that must be said of it, or through it of a file beside it.
SHOWN: dict[str, tuple[str, dict[str, str]]] = {
    "axolotl/llama3_8b_qlora.yaml": ("out_of_memory", {"MEM001": "out of memory", "CFG009": "plug-in"}),
    "axolotl/llama3_8b_full_fsdp2.yaml": ("fits", {}),
    "axolotl/mistral_7b_lora_zero2.yaml": ("fits", {"OFF002": "next to nothing"}),
    "deepspeed/train_offload.yaml": ("fits", {}),
    "deepspeed/train_zero2.yaml": ("out_of_memory", {"MEM001": "out of memory"}),
    "deepspeed/train_mismatched.yaml": (
        "fits",
        {"CFG008": "bf16", "CFG001": "did you mean", "CFG009": "has no effect"},
    ),
    "llamafactory/qwen2_5_7b_lora_sft.yaml": ("fits", {}),
    "llamafactory/llama3_8b_full_sft.yaml": ("out_of_memory", {"MEM001": "out of memory"}),
    "llamafactory/llama3_8b_full_zero3.yaml": ("fits", {}),
    "llamafactory/qwen2_5_1_5b_eager_long.yaml": ("out_of_memory", {"ATT001": "attention scores"}),
    "llamafactory/llama3_8b_qlora_dpo.yaml": ("fits", {"LOS001": "in spite of this key"}),
    "trainer/sft_lora_qwen2_5_7b.yaml": ("fits", {}),
    "trainer/sft_full_llama3_8b.yaml": ("out_of_memory", {"MEM001": "out of memory"}),
    "trainer/train_fsdp.yaml": ("fits", {}),
    "trainer/run_clm.yaml": ("fits", {"CFG007": "is text in YAML 1.1", "CFG001": "did you mean"}),
}


@cache
def report() -> dict[str, Any]:
    """What the README's first command says, from the repository's root."""
    told: dict[str, Any] = json.loads(memlint(ROOT, "check", "examples", "--exit-zero", "--format", "json").out)
    return told


def test_every_training_file_is_here() -> None:
    pages = [page.read_text(encoding="utf-8") for page in sorted((ROOT / "examples").glob("*/README.md"))]

    assert {run["path"].removeprefix("examples/") for run in report()["runs"]} >= SHOWN.keys()
    assert all(any(f"| `{name.partition('/')[2]}` |" in page for page in pages) for name in SHOWN)


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_an_example_shows_what_it_says(name: str) -> None:
    verdict, expected = SHOWN[name]
    (run,) = (run for run in report()["runs"] if run["path"] == f"examples/{name}")
    told = [one for one in report()["findings"] if one["location"]["path"] in (run["path"], *run["related"])]

    assert run["verdict"] == verdict
    for rule, words in expected.items():
        assert any(one["rule"] == rule and words in one["message"] for one in told), (
            rule,
            [one["rule"] for one in told],
        )
    if not expected:
        assert not [one for one in told if one["severity"] == "error"]
