"""Keys and the types of their values in NeMo-RL's files and overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from memlint.findings import Finding
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import analyse
from tests.formats.nemo_rl.test_refused import BASE, SIZE, nested

_CODES = ("CFG001", "CFG002", "CFG003", "CFG004")
COMMAND = "uv run examples/run_grpo.py --config examples/configs/base.yaml"


def found(files: Mapping[str, str], name: str, release: tuple[int, ...] = ()) -> list[Finding]:
    workspace = in_memory(files)
    (document,) = workspace.documents(name)
    versions = {"nemo_rl": release} if release else {}
    return [one for one in analyse(document, workspace.context(versions=versions), ()).findings if one.rule in _CODES]


def of_recipe(changes: Mapping[str, Any], release: tuple[int, ...] = ()) -> list[str]:
    recipe = {"defaults": "base.yaml", **nested({**SIZE, **changes})}
    files = {"r.yaml": yaml.safe_dump(recipe), "base.yaml": yaml.safe_dump(BASE)}
    return [one.message for one in found(files, "r.yaml", release)]


def of_command(overrides: str, program: str = COMMAND) -> list[str]:
    files = {"run.sh": f"{program} {overrides}\n", "examples/configs/base.yaml": yaml.safe_dump(dict(BASE))}
    return [one.message for one in found(files, "run.sh")]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("grpo.num_prompts_per_step", "many", "wants an integer"),
        ("grpo.num_prompts_per_step", 0, "at least 1"),
        ("policy.dtensor_cfg.activation_checkpointing", "full", "wants true or false"),
        ("policy.max_grad_norm", "one", "wants a number"),
        ("checkpointing.save_period", "often", "wants an integer"),
        ("logger.wandb_enabled", "maybe", "wants true or false"),
    ],
)
def test_texts_that_are_no_such_value(key: str, value: Any, words: str) -> None:
    (message,) = of_recipe({key: value})
    assert key in message
    assert words in message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("grpo.num_prompts_per_step", "64"),
        ("policy.max_grad_norm", "1e-1"),
        ("policy.max_grad_norm", None),
        ("logger.wandb_enabled", "off"),
        ("policy.dtensor_cfg.cpu_offload", 1),
        ("policy.max_total_sequence_length", "${oc.env:LENGTH}"),
        ("policy.megatron_cfg.bias_activation_fusion", 2),  # Megatron-LM is off
    ],
)
def test_what_omegaconf_and_pydantic_make_values_of(key: str, value: Any) -> None:
    assert of_recipe({key: value}) == []


def test_an_override_needs_its_key_in_the_recipe() -> None:
    (message,) = of_command("policy.train_micro_batch_sise=2")
    assert "did you mean `policy.train_micro_batch_size`?" in message
    (message,) = of_command("policy.own_key=2")
    assert "`+policy.own_key=...` would add it" in message
    assert of_command("policy.train_micro_batch_size=2 +policy.own_key=2 ++grpo.more.own=1") == []


def test_keys_of_a_recipe_that_is_absent_are_not_known() -> None:
    assert of_command("policy.own_key=2", "uv run examples/run_grpo.py --config examples/configs/absent.yaml") == []


def test_keys_that_0_7_asks_for() -> None:
    """Its MasterConfig is a model of pydantic; before, a key was missed where it was read."""
    changes = {"policy.dynamic_batching.enabled": True, "checkpointing.keep_top_k": None}
    assert of_recipe(changes) == []
    told = of_recipe({**changes, "policy.dynamic_batching.train_mb_tokens": 512}, (0, 7, 0))
    null, lacks = sorted(one for one in told if "null" in one or "dynamic_batching" in one)
    assert lacks == "`policy.dynamic_batching` lacks `sequence_length_round`: NeMo-RL refuses to start"
    assert "takes no null" in null
