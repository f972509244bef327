"""Axolotl: experts that are packed while they load (`quantize_moe_experts`) or made linear layers
(`llama4_linearized_experts`), and when their memory is not known."""

from __future__ import annotations

import memlint.formats.axolotl.families as families
from memlint.formats.axolotl.config import AxolotlConfig, uses_fsdp
from memlint.formats.fields import Fields

_KEY = "quantize_moe_experts"
# Since then the key is there; before, Axolotl drops it with every other key that it does not know.
PACKS_SINCE = (0, 15)
# Loads one tensor at a time where weights are packed as they come (core_model_loading.py:1106, v5.4.0); before, threads
# put them on the card faster than they are packed.
_IN_ORDER = (5, 4)
# Pins the first bitsandbytes whose hooks run when a recomputation stops early (0.50.2 nn/parametrize.py:126-133; 0.49.1
# nn/parametrize.py:152); the hooks of 8 bits are Axolotl's own and do not (0.19.0 monkeypatch/moe_quant.py:65).
_ALWAYS_CALLED = (0, 19)


def packs_experts(config: AxolotlConfig) -> bool:
    """Whether this release packs stacks of experts as they load."""
    return config.own.flag(_KEY) and config.release >= PACKS_SINCE


def linearizes(config: AxolotlConfig) -> bool:
    """Whether Llama 4's experts are frozen, quantised linear layers, one after another
    (memory/layers/moe.py, `_quantized_experts`)."""
    packed = config.quantizes and config.adapter == "qlora" and "linearized" in config.text("base_model").lower()
    frozen = config.family in families.LINEARIZES_EXPERTS and not config.own.flag("lora_target_linear")
    return packed and frozen and not _divides_weights(config)


def runs_scattermoe(config: AxolotlConfig) -> bool:
    """Whether ScatterMoE's kernels run the experts. The plug-in reads the key (integrations/kernels/plugin.py:120)."""
    asked = config.own.flag("use_scattermoe") or config.own.get("expert_backend") == "scattermoe"
    return asked and "KernelsPlugin" in config.plugins


# Releases before took the whole block of experts in other kernels.
_SCATTERMOE_SINCE = (0, 19)


def unknown_of_scattermoe(config: AxolotlConfig) -> str:
    """Why the memory of ScatterMoE's kernels is not modelled; "" where it is."""
    if config.release < _SCATTERMOE_SINCE:
        return "ScatterMoE's kernels before Axolotl 0.19"
    if config.integer("expert_parallel_size", 1) > 1:
        return "ScatterMoE's kernels on experts that are spread over GPUs"
    if packs_experts(config) and config.own.flag("load_in_8bit"):
        return "ScatterMoE's kernels on experts of 8 bits"
    if config.own.get("moe_bnb_fast") is False:
        return "packed experts that are unpacked in chunks"
    return ""


def unknown_of_packing(fields: Fields, config: AxolotlConfig) -> str:
    """Why the memory of packed experts is not modelled; "" where it is."""
    if not packs_experts(config):
        return ""
    if config.own.flag("trust_remote_code"):
        return "experts in code of the model's own may be no stacks"
    if _divides_unknown(fields):
        return "how FSDP 1 and ZeRO-3 divide packed experts"
    if config.own.get("lora_target_parameters") and not runs_scattermoe(config):
        return "what adapters on packed experts make whole"
    if config.versions["transformers"] < _IN_ORDER:
        return "before transformers 5.4 experts load in threads, faster than they are packed"
    if runs_scattermoe(config):  # unpacks them itself, past the cache (libs/scattermoe_lora/experts.py:510)
        return ""
    return _reason_they_stay_unpacked(fields, config)


def _divides_unknown(fields: Fields) -> bool:
    """FSDP2 takes packed experts as they are (monkeypatch/fsdp2_qlora.py:261, apply_init_dtype_attrs_patch), and below
    stage 3 ZeRO leaves weights whole."""
    engine = fields.get("parallelism.engine")
    if engine == "deepspeed":
        return fields.get("parallelism.zero.stage") not in (0, 1, 2)
    return bool(engine == "fsdp" and fields.get("parallelism.fsdp.version") != 2)


def _divides_weights(config: AxolotlConfig) -> bool:
    return bool(config.own.get("deepspeed")) or uses_fsdp(config)


def _reason_they_stay_unpacked(fields: Fields, config: AxolotlConfig) -> str:
    """torch's checkpoint ends a recomputation at the last tensor that the backward needs. Where that is inside of the
    experts, their hook does not run, and the dequantised weights stay cached until the training ends."""
    stops_early = fields.get("checkpointing.mode") == "full" and not fields.get("checkpointing.reentrant")
    stops_early |= bool(fields.get("parallelism.fsdp.activation_checkpointing"))  # CheckpointImpl.NO_REENTRANT
    always = config.release >= _ALWAYS_CALLED and not config.own.flag("load_in_8bit")
    kinds = getattr(config.architecture, "layer_types", ())
    last = any(kind.mlp.kind == "moe" and not kind.mlp.shared_intermediate_size for kind in kinds)
    if stops_early and not always and last:
        return "unpacked experts are cached for good where checkpointing is not reentrant"
    return ""
