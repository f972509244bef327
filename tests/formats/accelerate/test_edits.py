"""What a fix may write into an accelerate launch file, and where it has to leave the file alone."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.findings import Edit
from memlint.formats.accelerate.edits import accelerate_edits

PLACE = ("launch.yaml", ())
ZERO = {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2}}
FSDP = {"distributed_type": "FSDP", "fsdp_config": {"fsdp_offload_params": False}}


@pytest.mark.parametrize(
    ("launch", "changes", "edits"),
    [
        (ZERO, {"parallelism.zero.stage": 3}, [(("deepspeed_config", "zero_stage"), 3)]),
        (
            FSDP,
            {"parallelism.fsdp.cpu_offload": True, "parallelism.fsdp.strategy": "SHARD_GRAD_OP"},
            [
                (("fsdp_config", "fsdp_offload_params"), True),
                (("fsdp_config", "fsdp_sharding_strategy"), "SHARD_GRAD_OP"),
            ],
        ),
        (
            {"distributed_type": "deepspeed"},
            {"offload.optimizer": "cpu"},
            [(("deepspeed_config",), {"offload_optimizer_device": "cpu"})],
        ),
    ],
)
def test_what_the_file_can_say_is_written_where_it_stands(
    launch: dict[str, Any], changes: dict[str, Any], edits: list[Any]
) -> None:
    assert accelerate_edits(launch, PLACE, changes) == tuple(
        Edit("launch.yaml", pointer, "set", value) for pointer, value in edits
    )


@pytest.mark.parametrize(
    ("launch", "changes"),
    [
        (ZERO, {"parallelism.zero.stage": 4}),  # no such stage
        (ZERO, {"batch.micro_batch_size": 1}),  # the launch file has no word for it
        (ZERO, {"parallelism.zero.stage": 3, "batch.micro_batch_size": 1}),  # half of a plan is none
        (ZERO, {"parallelism.fsdp.cpu_offload": True}),  # another engine's
        ({**FSDP, "distributed_type": "MULTI_GPU"}, {"parallelism.fsdp.cpu_offload": True}),  # not in force
        (  # a file of its own rules there (accelerate 1.15 utils/dataclasses.py)
            {**ZERO, "deepspeed_config": {"deepspeed_config_file": "ds.json"}},
            {"parallelism.zero.stage": 3},
        ),
        ([ZERO], {"parallelism.zero.stage": 3}),
    ],
)
def test_what_the_file_cannot_say_is_not_written(launch: Any, changes: dict[str, Any]) -> None:
    assert accelerate_edits(launch, PLACE, changes) is None
