"""Small models and runs that the sharding tests share."""

from __future__ import annotations

from typing import Any

from memlint.memory.values import Tensor, Unit
from memlint.run import Batch, Checkpointing, Fsdp, Optimizer, Parallelism, Precision, Run, Zero


def tensor(name: str, rows: int, columns: int, kind: str = "linear", dtype: str = "bfloat16", **more: Any) -> Tensor:
    numel = rows * columns
    shape = (rows, columns) if columns > 1 else (rows,)
    size = 4 if dtype == "float32" else 2
    return Tensor(name, numel, shape, kind, more.get("trainable", True), dtype, numel * size, more.get("copies", 1))


def model(hidden: int = 64, layers: int = 4, vocabulary: int = 512, **more: Any) -> tuple[Unit, ...]:
    """A decoder: embedding, `layers` equal layers, norm and head."""
    layer = (
        tensor("self_attn.q_proj.weight", hidden, hidden, **more),
        tensor("self_attn.o_proj.weight", hidden, hidden, **more),
        tensor("mlp.up_proj.weight", 4 * hidden, hidden, **more),
        tensor("mlp.down_proj.weight", hidden, 4 * hidden, **more),
        tensor("input_layernorm.weight", hidden, 1, "norm", **more),
    )
    return (
        Unit("embedding", (tensor("embed_tokens.weight", vocabulary, hidden, "embedding", **more),)),
        Unit("layer", layer, layers, 0),
        Unit(
            "head",
            (
                tensor("norm.weight", hidden, 1, "norm", **more),
                tensor("lm_head.weight", vocabulary, hidden, "head", **more),
            ),
        ),
    )


def zero_run(stage: int, world: int = 2, **settings: Any) -> Run:
    """A bf16 run under ZeRO with a fused optimizer and small buckets; `settings` are fields of `Zero`."""
    settings = {"reduce_bucket_size": 1000, "allgather_bucket_size": 1000, **settings}
    return Run(
        "test",
        "test.yaml",
        precision=Precision("bfloat16", False, "bfloat16", True),
        batch=Batch(1, 1),
        checkpointing=Checkpointing("full"),
        optimizer=Optimizer("adamw_torch_fused"),
        parallelism=Parallelism(world, world, world, engine="deepspeed", zero=Zero(stage=stage, **settings)),
    )


def fsdp_run(version: int, world: int = 2, **settings: Any) -> Run:
    """A bf16 mixed-precision run under FSDP with fp32 shards; `settings` are fields of `Fsdp`."""
    return Run(
        "test",
        "test.yaml",
        precision=Precision("bfloat16", True, "float32", False),
        batch=Batch(1, 1),
        checkpointing=Checkpointing("full"),
        optimizer=Optimizer("adamw_torch_fused"),
        parallelism=Parallelism(world, world, world, engine="fsdp", fsdp=Fsdp(version, **settings)),
    )
