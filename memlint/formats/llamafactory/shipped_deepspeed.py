"""The DeepSpeed files that LLaMA-Factory ships, for configs that name one from outside of its checkout.

Most public configs name `examples/deepspeed/ds_z3_config.json`: llamafactory-cli starts in LLaMA-Factory's checkout,
the config lives in another repository. The values are those of LLaMA-Factory 0.9.4 examples/deepspeed/.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_NAME = re.compile(r"(?:^|[/\\])ds_z([023])(_offload)?_config\.json$")
_FOLDER = re.compile(r"(?:^|/)examples/deepspeed/[^/]*$")
_AUTO = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping")
_BUCKETS = {"allgather_bucket_size": 500_000_000, "reduce_bucket_size": 500_000_000, "round_robin_gradients": True}
_ZERO3 = {
    **dict.fromkeys(
        ("reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold"), "auto"
    ),
    **dict.fromkeys(("sub_group_size", "stage3_max_live_parameters", "stage3_max_reuse_distance"), 1_000_000_000),
    "stage3_gather_16bit_weights_on_model_save": True,
}


# examples/deepspeed/ds_z3_fp8_config.json, as far as it decides about memory.
_FP8: Mapping[str, Any] = {
    **dict.fromkeys(("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping"), "auto"),
    "bf16": {"enabled": "auto"},
    "fp16": {"enabled": False},
    "zero_allow_untested_optimizer": True,
    "zero_optimization": {
        **_ZERO3,
        "stage": 3,
        "overlap_comm": False,
        "contiguous_gradients": True,
        "reduce_bucket_size": 12_845_056,
        "stage3_prefetch_bucket_size": 11_560_550,
        "stage3_param_persistence_threshold": 35_840,
        "offload_optimizer": {"device": "cpu", "pin_memory": False},
    },
}


def shipped_deepspeed(name: str) -> Mapping[str, Any] | None:
    """The configuration that LLaMA-Factory ships under the last part of `name`; None where it ships none."""
    if re.search(r"(?:^|[/\\])ds_z3_fp8_config\.json$", name):
        return _FP8
    found = _NAME.search(name)
    if not found or (found[1] == "0" and found[2]):
        return None
    zero: dict[str, Any] = {"stage": int(found[1]), "overlap_comm": False, "contiguous_gradients": True}
    zero.update(_ZERO3 if found[1] == "3" else _BUCKETS)
    if found[2]:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if found[2] and found[1] == "3":
        zero["offload_param"] = {"device": "cpu", "pin_memory": True}
    halves = {"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}}
    return {**dict.fromkeys(_AUTO, "auto"), **halves, "zero_allow_untested_optimizer": True, "zero_optimization": zero}


def in_its_folder(name: str) -> bool:
    """Whether `name` is in the folder where LLaMA-Factory keeps them, wherever its checkout is."""
    return bool(_FOLDER.search(name))


# Stage, and where optimizer states and parameters are, of each file in that folder.
_FILE_BY_CONTENT = {
    (0, "none", "none"): "ds_z0_config.json",
    (2, "none", "none"): "ds_z2_config.json",
    (2, "cpu", "none"): "ds_z2_offload_config.json",
    (3, "none", "none"): "ds_z3_config.json",
    (3, "cpu", "cpu"): "ds_z3_offload_config.json",
}


def shipped_variant(name: str, wanted: tuple[Any, ...] | None) -> str | None:
    """The file of LLaMA-Factory's folder that says `wanted` (stage, states, parameters) in place of `name`; None where
    `name` is none of that folder or nothing there says it."""
    if wanted not in _FILE_BY_CONTENT or not in_its_folder(name) or shipped_deepspeed(name) is None:
        return None
    return name[: name.rindex("/") + 1] + _FILE_BY_CONTENT[wanted]
