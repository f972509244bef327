"""The DeepSpeed configuration that OpenRLHF writes, read with DeepSpeed's own table."""

from __future__ import annotations

from typing import Any

from memlint.formats.deepspeed.format import apply_deepspeed
from memlint.formats.fields import Fields, Section
from memlint.formats.openrlhf.behaviour import SOURCE
from memlint.formats.openrlhf.config import OpenRLHFConfig
from memlint.formats.openrlhf.model import param_dtype
from memlint.run import Origin

_DETAIL = f"{SOURCE} utils/deepspeed/deepspeed_utils.py, get_train_ds_config"
# The batch is OpenRLHF's to divide; the model is loaded in `param_dtype`.
_OTHERS = ("batch.micro_batch_size", "batch.gradient_accumulation_steps")


def apply_engine(fields: Fields, config: OpenRLHFConfig) -> None:
    """Put what DeepSpeed does with that configuration. "auto" in it is no value: OpenRLHF has no Trainer that fills it,
    and DeepSpeed takes its own default (0.19.8 runtime/config_utils.py:56)."""
    read = Fields()
    read.values.update(fields.values)
    section = Section(config.section.document, deepspeed_config(config))
    apply_deepspeed(read, section, None)
    for name, value in read.values.items():
        if name in _OTHERS or (name in fields.values and fields.values[name] == value):
            continue
        origin = read.origins.get(name)
        if origin is not None and origin.kind in ("inferred", "unknown"):
            fields.put(name, value, origin)
        else:
            fields.put(name, value, Origin("framework", detail=_DETAIL))


def deepspeed_config(config: OpenRLHFConfig) -> dict[str, Any]:
    """`get_train_ds_config` without the keys that are "auto"."""
    dtype = param_dtype(config)
    zero: dict[str, Any] = {
        "stage": config.whole("ds.zero_stage"),
        "offload_param": {"device": "none"},
        "offload_optimizer": {"device": "cpu" if config.flag("ds.adam_offload") else "none", "pin_memory": True},
        "zero_hpz_partition_size": config.whole("ds.zpg") or 1,
    }
    if config.flag("ds.overlap_comm"):
        zero |= {"overlap_comm": True, "contiguous_gradients": True}
    found: dict[str, Any] = {
        "zero_optimization": zero,
        "bf16": {"enabled": dtype == "bfloat16"},
        "fp16": {"enabled": dtype == "float16"},
        "gradient_clipping": 1.0,
        "optimizer": {"type": "Muon" if config.text("optim").lower() == "muon" else "AdamW", "params": {}},
    }
    grad = config.text("ds.grad_accum_dtype")
    return {**found, "data_types": {"grad_accum_dtype": grad}} if grad else found
