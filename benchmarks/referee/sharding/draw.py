"""Random mixtures of sharding settings: every setting that the engines read, drawn independently from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

Setting = dict[str, Any]

_ELEMENTS = (0, 20_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 1_000_000_000)  # knobs of ZeRO-3
_BUCKETS = (20_000, 100_000, 300_000, 1_000_000, 3_000_000, 20_000_000)


def mixtures(seed: int) -> Iterator[Setting]:
    """Endless settings as in settings.json, half of them DeepSpeed's. Some are refused by their engine."""
    dice = random.Random(seed)
    number = 0
    while True:
        engine = dice.choice(("deepspeed", "deepspeed", "fsdp1", "fsdp2"))
        setting = {
            "name": f"mix{seed}-{number:03d}-{engine}",
            "engine": engine,
            **_model(dice),
            **ENGINES[engine](dice),
        }
        if setting["method"] == "lora" and setting.get("mixed"):
            setting |= {"mixed": None, "dtype": "bfloat16"}  # without autocast PEFT's casts follow the fp32 shards
        if "offload_optimizer" in setting.get("zero", {}):
            setting["optimizer"] = "fused"  # as DeepSpeedCPUAdam: no temporaries
            setting["zero"]["contiguous_gradients"] = True  # else stage 2 never moves them (stage_1_and_2.py:2268)
        yield {key: value for key, value in setting.items() if value is not None}
        number += 1


def _model(dice: random.Random) -> Setting:
    """The model, its batch, what trains and how."""
    method = dice.choice((None, None, "freeze", "lora"))
    return {
        "world": dice.choice((2, 2, 3, 4)),
        "layers": dice.choice((4, 4, 6)),
        "method": method,
        "trainable_layers": dice.choice((1, 2, 3)) if method == "freeze" else None,
        "rank": dice.choice((4, 8, 32)) if method == "lora" else None,
        "checkpointing": dice.choice((True, True, False)),
        "sequence": dice.choice((32, 64, 128)),
        "micro_batch_size": dice.choice((1, 1, 2)),
        "accumulation": dice.choice((1, 1, 1, 2, 3)),
        "optimizer": dice.choice(("single", "foreach", "fused")),
        "clip": dice.choice((1.0, 1.0, 0.0)),
    }


def _deepspeed(dice: random.Random) -> Setting:
    stage = dice.choice((0, 1, 2, 2, 3, 3, 3))
    fp32_gradients = stage and dice.random() < 0.15
    return {
        "dtype": dice.choice(("bfloat16", "bfloat16", "bfloat16", "float32")),
        "zero": {"stage": stage, **_shared(dice, stage), **(_stage3(dice) if stage == 3 else {})},
        "config": {"data_types": {"grad_accum_dtype": "fp32"}} if fp32_gradients else None,
    }


def _shared(dice: random.Random, stage: int) -> Setting:
    if not stage:
        return {}
    found = {
        "reduce_bucket_size": dice.choice(_BUCKETS),
        "overlap_comm": dice.choice((True, False)),
        "contiguous_gradients": dice.choice((True, True, False)),
        "reduce_scatter": dice.choice((True, True, False)),
    }
    if stage == 2:
        found["round_robin_gradients"] = dice.choice((False, False, True))
    if dice.random() < 0.2:
        found["offload_optimizer"] = {"device": "cpu"}
    return found


def _stage3(dice: random.Random) -> Setting:
    found: Setting = {
        "stage3_prefetch_bucket_size": dice.choice(_ELEMENTS),
        "stage3_max_live_parameters": dice.choice(_ELEMENTS),
        "stage3_max_reuse_distance": dice.choice(_ELEMENTS),
        "stage3_param_persistence_threshold": dice.choice((0, 1000, 100_000, 200_000)),
        "sub_group_size": dice.choice((500_000, 2_000_000, 1_000_000_000)),
    }
    if dice.random() < 0.15:
        found["offload_param"] = {"device": "cpu"}
    if dice.random() < 0.15:
        found["zero_hpz_partition_size"] = 2
    return found


def _fsdp1(dice: random.Random) -> Setting:
    return {
        **_fsdp(dice, ("transformer", "transformer", "size", "none")),
        "strategy": dice.choice(
            ("FULL_SHARD", "FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2")
        ),
        "backward_prefetch": dice.choice(("BACKWARD_PRE", "BACKWARD_PRE", "BACKWARD_POST", "NONE")),
        "forward_prefetch": dice.choice((False, False, True)),
        "limit_all_gathers": dice.choice((True, False)),
        "use_orig_params": dice.choice((True, True, False)),
    }


def _fsdp2(dice: random.Random) -> Setting:
    return {
        **_fsdp(dice, ("transformer", "transformer", "none")),
        "reshard": dice.choice((True, True, False)),
        "hybrid": dice.choice((None, None, True)),
        "cpu_offload": True if dice.random() < 0.2 else None,
    }


def _fsdp(dice: random.Random, wraps: tuple[str, ...]) -> Setting:
    """What both versions read. As accelerate has it, mixed precision trains fp32 shards."""
    wrap = dice.choice(wraps)
    mixed = dice.choice(("bfloat16", "bfloat16", None))
    return {
        "wrap": wrap,
        "min_num_params": dice.choice((50_000, 100_000, 500_000, 1_500_000)) if wrap == "size" else None,
        "mixed": mixed,
        "dtype": "float32" if mixed else dice.choice(("float32", "bfloat16")),
        "no_sync": True,
    }


ENGINES = {"deepspeed": _deepspeed, "fsdp1": _fsdp1, "fsdp2": _fsdp2}
