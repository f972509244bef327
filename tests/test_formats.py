"""Which format claims a document: none claims what a run wrote of itself."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from memlint.formats import recognise
from memlint.repository.workspace import in_memory

SWIFT = {"model": "Qwen/Qwen3-8B", "tuner_type": "full", "attn_impl": "sdpa", "lazy_tokenize": True}


@pytest.mark.parametrize(
    ("more", "is_config"),
    [
        ({}, True),
        ({"global_world_size": 8}, True),
        ({"global_world_size": 8, "local_world_size": 8, "swift_version": "4.1.3"}, False),  # args.json
        ({"_wandb": {"value": {"cli_version": "0.18.5"}}}, False),
    ],
)
def test_the_record_of_a_run_is_no_config(more: dict[str, Any], is_config: bool) -> None:
    workspace = in_memory({"args.yaml": yaml.safe_dump({**SWIFT, **more})})
    (document,) = workspace.documents("args.yaml")
    assert (recognise(document) is not None) == is_config
