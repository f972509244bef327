"""Axolotl: features whose memory nobody here has counted; a file that turns one on gets its name, not a figure."""

from __future__ import annotations

from typing import Any

from memlint.formats.axolotl.config import Config
from memlint.formats.axolotl.experts import linearizes, unknown_of_packing
from memlint.formats.axolotl.model import dequantizes
from memlint.formats.fields import Fields, as_bool

# Key -> what it does that no figure covers.
_UNMODELLED = {
    "layer_offloading": "layers come and go between host and GPU",
    "qat": "fake quantisation keeps copies of weights and activations",
    "use_onebitllms": "BitNet's linear layers",
    "dpo_use_liger_kernel": "Liger's fused DPO loss",
    "relora": "ReLoRA merges and resets adapters while it trains",
    "relora_steps": "ReLoRA merges and resets adapters while it trains",
    "use_scattermoe": "ScatterMoE's expert kernels",
    "use_sonicmoe": "SonicMoE's expert kernels",
    "lisa_n_layers": "LISA picks other layers every few steps",
    "ebft": "energy-based fine-tuning generates and embeds beside the step",
    "process_reward_model": "a head per token",
    "peft_layer_replication": "layers are used more than once, each with adapters of its own",
    "peft_trainable_token_indices": "rows of the embedding train beside the adapters",
    "flash_optimum": "BetterTransformer's layers",
    "max_memory": "layers are spread over devices by hand",
    "gpu_memory_limit": "layers are spread over devices by hand",
}
_PLUGINS = {
    "SpectrumPlugin": "Spectrum picks layers by a file of its own",
    "KDPlugin": "a teacher's logits stand beside the student's",
    "LLMCompressorPlugin": "recipes change weights while they train",
    "HatcheryPlugin": "the training runs on somebody else's machines",
    "DiffusionPlugin": "diffusion masks its own inputs",
    "DensemixerPlugin": "every expert runs on every token",
    "ExpertOffloadPlugin": "experts wait in host memory and come as they are chosen",
}


_STORED = ("fp8", "nvfp4", "mxfp4", "quanto", "aqlm", "hqq", "eetq")


_OWN_CODE = ("kimi_linear",)  # model_support/kimi_linear/modeling_kimi.py:815, a list of linear layers


def apply_unmodelled(fields: Fields, config: Config) -> None:
    """The first feature that keeps what nobody here has counted, said in place of a figure."""
    for key, reason in _UNMODELLED.items():
        value: Any = config.own.get(key)
        if value and as_bool(value) is not False:
            fields.put("stack.unmodelled", f"`{key}`: {reason}", config.own.origin(key))
            return
    for name in config.plugins:
        if name in _PLUGINS:
            fields.put("stack.unmodelled", f"{name}: {_PLUGINS[name]}", config.own.origin("plugins"))
            return
    if config.own.flag("tiled_mlp") and not fields.get("checkpointing.mlp_tiles", 0):
        reason = "`tiled_mlp`: tiled MLPs outside of checkpointed layers, of adapters or under autocast"
        fields.put("stack.unmodelled", reason, config.own.origin("tiled_mlp"))
        return
    if config.own.flag("llama4_linearized_experts") and not linearizes(config):
        reason = "`llama4_linearized_experts`: experts become linear layers of their own"
        fields.put("stack.unmodelled", reason, config.own.origin("llama4_linearized_experts"))
        return
    packing = unknown_of_packing(fields, config)
    if packing:
        reason = f"`quantize_moe_experts`: {packing}"
        fields.put("stack.unmodelled", reason, config.own.origin("quantize_moe_experts"))
        return
    if config.family in _OWN_CODE and config.quantizes:
        reason = "Axolotl's own code for this family has experts that are quantised one by one"
        fields.put("stack.unmodelled", reason, config.own.origin("base_model"))
        return
    stored = getattr(getattr(config.architecture, "stored", None), "method", "none")
    if stored in _STORED and not dequantizes(config):
        reason = f"the checkpoint is stored as {stored}: what of it is unpacked to train"
        fields.put("stack.unmodelled", reason, config.own.origin("base_model"))
