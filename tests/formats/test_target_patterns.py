"""Patterns for targets of adapters: what they select, and which formats read a lone string as one."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.architectures.model import Architecture
from memlint.formats.target_patterns import targets_matching
from memlint.formats.trainer import format as trainer
from memlint.repository.workspace import in_memory
from memlint.run import UNKNOWN
from tests.formats.frameworks import document, run_of

QWEN = "Qwen/Qwen2.5-1.5B"
TRL: dict[str, Any] = {
    "model_name_or_path": QWEN,
    "use_peft": True,
    "per_device_train_batch_size": 1,
    "output_dir": "o",
}


def _qwen() -> Architecture:
    found = in_memory({"a": ""}).context().find_model(QWEN, "a").architecture
    assert isinstance(found, Architecture)
    return found


@pytest.mark.parametrize(
    ("pattern", "selected"),
    [
        (".*q_proj", ("self_attn.q_proj",)),
        (r".*\.(q_proj|v_proj)", ("self_attn.q_proj", "self_attn.v_proj")),
        (r"model\.layers\.[01]\.self_attn\.q_proj", None),  # some layers alone
        (".*no_such", None),
        ("(.*)*q_proj", None),  # may backtrack for long
    ],
)
def test_modules_whose_whole_name_matches(pattern: str, selected: tuple[str, ...] | None) -> None:
    assert targets_matching(pattern, _qwen()) == selected


@pytest.mark.parametrize(
    ("written", "targets"),
    [
        (".*q_proj", ("self_attn.q_proj",)),
        ([".*(q_proj|v_proj)"], ("self_attn.q_proj", "self_attn.v_proj")),
        (["q_proj", "v_proj"], ("q_proj", "v_proj")),
        ("q_proj", ("q_proj",)),
        (".*no_such", UNKNOWN),
    ],
)
def test_trl_hands_peft_a_lone_target_as_a_pattern(written: object, targets: object) -> None:
    config = document({**TRL, "lora_target_modules": written})
    run = run_of(trainer.parse(config, in_memory({config.path: config.text}).context()))
    assert run.method.targets == targets
