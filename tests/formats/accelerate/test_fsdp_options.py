"""FSDP options whose meaning depends on others: what each reader puts, by the plug-in's version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import memlint.formats.accelerate.fsdp_options as options
from memlint.formats.accelerate.keys import OPTIONS
from memlint.formats.fields import Fields, root
from memlint.formats.section_keys import SectionKeys
from memlint.formats.trainer import format as trainer
from memlint.repository.workspace import in_memory
from tests.formats.frameworks import document

V2 = {"fsdp_version": 2}


def put(read: Callable[[Fields, SectionKeys], None], value: dict[str, Any]) -> dict[str, Any]:
    """The fields that a reader puts, by their last name."""
    fields = Fields()
    read(fields, SectionKeys(root(document(value)), OPTIONS, "accelerate 1.15"))
    return {name.rpartition(".")[2]: found for name, found in fields.values.items()}


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("FULL_SHARD", "FULL_SHARD"),
        ("full_shard", "FULL_SHARD"),
        (1, "FULL_SHARD"),
        ("2", "SHARD_GRAD_OP"),
        (5, "HYBRID_SHARD_ZERO2"),
        *((nothing, "") for nothing in (0, 6, "shard", None, True, [])),
    ],
)
def test_an_option_is_named_by_word_or_number(value: Any, name: str) -> None:
    assert options.named(value, options.STRATEGIES) == name


@pytest.mark.parametrize(
    ("value", "strategy", "reshards"),
    [
        ({}, "FULL_SHARD", True),
        ({"fsdp_sharding_strategy": "SHARD_GRAD_OP"}, "SHARD_GRAD_OP", False),
        ({"fsdp_sharding_strategy": 4}, "HYBRID_SHARD", True),
        ({"fsdp_reshard_after_forward": "NO_SHARD"}, "NO_SHARD", False),
        ({"fsdp_sharding_strategy": 2, "fsdp_reshard_after_forward": "NO_SHARD"}, "SHARD_GRAD_OP", False),
        (V2, "FULL_SHARD", True),
        ({**V2, "fsdp_reshard_after_forward": False}, "SHARD_GRAD_OP", False),
        ({**V2, "fsdp_sharding_strategy": "SHARD_GRAD_OP"}, "FULL_SHARD", True),
    ],
)
def test_the_strategy(value: dict[str, Any], strategy: str, reshards: bool) -> None:
    assert put(options.read_strategy, value) == {"strategy": strategy, "reshard_after_forward": reshards}


@pytest.mark.parametrize(
    ("value", "wrap"),
    [
        ({"fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP"}, "transformer"),
        ({"fsdp_auto_wrap_policy": "transformer_based_wrap"}, "transformer"),
        ({"fsdp_auto_wrap_policy": "SIZE_BASED_WRAP", "fsdp_min_num_params": 0}, "none"),
        ({"fsdp_auto_wrap_policy": "SIZE_BASED_WRAP", "fsdp_min_num_params": 1000}, "size"),
        ({"fsdp_auto_wrap_policy": "NO_WRAP"}, "none"),
    ],
)
def test_the_wrapping(value: dict[str, Any], wrap: str) -> None:
    assert put(options.read_wrap, value) == {"wrap": wrap}


@pytest.mark.parametrize(
    ("value", "prefetch"),
    [
        ({"fsdp_backward_prefetch": "BACKWARD_POST"}, "BACKWARD_POST"),
        ({"fsdp_backward_prefetch": 1}, "BACKWARD_PRE"),
        ({"fsdp_backward_prefetch": "NO_PREFETCH"}, "NONE"),
        ({"fsdp_backward_prefetch": "whatever"}, "NONE"),
        ({**V2, "fsdp_backward_prefetch": "NO_PREFETCH"}, "BACKWARD_PRE"),
    ],
)
def test_the_prefetch(value: dict[str, Any], prefetch: str) -> None:
    assert put(options.read_prefetch, value) == {"backward_prefetch": prefetch}


@pytest.mark.parametrize(
    ("value", "offloads"),
    [
        ({}, False),
        ({"fsdp_offload_params": True}, True),
        ({"fsdp_cpu_offload": True}, True),
        ({"fsdp_offload_params": False, "fsdp_cpu_offload": True}, False),
    ],
)
def test_the_offload(value: dict[str, Any], offloads: bool) -> None:
    assert put(options.read_offload, value) == {"cpu_offload": offloads}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({}, "FULL_STATE_DICT"),
        (V2, "SHARDED_STATE_DICT"),
        ({"fsdp_state_dict_type": "local_state_dict"}, "LOCAL_STATE_DICT"),
    ],
)
def test_the_state_dict(value: dict[str, Any], kind: str) -> None:
    gathers = kind == "FULL_STATE_DICT"
    assert put(options.read_state_dict, value) == {"state_dict_type": kind, "gathers_full_weights": gathers}


def test_checkpointing_of_the_plugin_is_not_reentrant() -> None:
    assert put(options.read_checkpointing, {}) == {"activation_checkpointing": False}
    assert put(options.read_checkpointing, {"fsdp_activation_checkpointing": True}) == {
        "activation_checkpointing": True,
        "mode": "full",
        "reentrant": False,
    }


@pytest.mark.parametrize(
    ("code", "wrap"),
    [
        (
            "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\nmodel = FSDP(model, policy)\n",
            "transformer",
        ),
        (
            "from torch.distributed.fsdp import fully_shard\nfor layer in model.layers:\n    fully_shard(layer)\n",
            "transformer",
        ),
        ("def fully_shard(x): ...\nclass Model(FSDP): ...\n", "none"),
        ("", "none"),
    ],
    ids=["by FSDP", "by fully_shard", "names alone", "not at all"],
)
def test_a_program_that_wraps_its_model_itself_leaves_no_whole_model(code: str, wrap: str) -> None:
    config = (
        "model_name_or_path: Qwen/Qwen2.5-7B\noutput_dir: out\nlearning_rate: 1.0e-5\nbf16: true\nfsdp: full_shard\n"
    )
    files = {"a.yaml": f"{config}fsdp_config: {{version: 1}}\n", "src/wrap.py": code}
    workspace = in_memory(files)
    (run,) = trainer.parse(
        workspace.documents("a.yaml")[0], workspace.context(gpus=4, versions={"transformers": (4, 57)})
    ).runs
    assert run.parallelism.fsdp.wrap == wrap
