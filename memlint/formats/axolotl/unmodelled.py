"""Axolotl: features whose memory is not modelled. A file that turns one on gets the feature's name, not a figure."""

from __future__ import annotations

import memlint.formats.axolotl.families as families
from memlint.formats.axolotl.config import AxolotlConfig
from memlint.formats.axolotl.experts import (
    PACKS_SINCE,
    linearizes,
    runs_scattermoe,
    unknown_of_packing,
    unknown_of_scattermoe,
)
from memlint.formats.axolotl.model import dequantizes
from memlint.formats.axolotl.training import read_tiles, tiles_mlps
from memlint.formats.fields import Fields, as_bool
from memlint.formats.keys import FieldChange, Read, Written

_PLUGINS = {
    "SpectrumPlugin": "Spectrum picks layers by a file of its own",
    "KDPlugin": "a teacher's logits stand beside the student's",
    "LLMCompressorPlugin": "recipes change weights while they train",
    "HatcheryPlugin": "the training runs on somebody else's machines",
    "DiffusionPlugin": "diffusion masks its own inputs",
    "DensemixerPlugin": "every expert runs on every token",
    "ExpertOffloadPlugin": "experts wait in host memory and come as they are chosen",
}
# Those that leave weights, gradients and optimizer states as they are.
_PLUGINS_THAT_ADD = ("KDPlugin", "DiffusionPlugin", "DensemixerPlugin", "LLMCompressorPlugin")


_STORED = ("fp8", "nvfp4", "mxfp4", "quanto", "aqlm", "hqq", "eetq")


def unmodelled(key: str, reason: str, adds: bool = False) -> Read:
    """A reader of a key that turns a feature on. `adds`: it takes nothing from the model state."""

    def read(fields: Fields, config: AxolotlConfig) -> None:
        value = config.own.get(key)
        if value and as_bool(value) is not False:
            _name_feature(fields, config, key, f"`{key}`: {reason}", adds)

    return read


def _name_feature(fields: Fields, config: AxolotlConfig, key: str, reason: str, adds: bool = False) -> None:
    """The report names the first such feature. The model state is known where none of them takes from it."""
    first = "stack.unmodelled" not in fields.values
    if first:
        fields.put("stack.unmodelled", reason, config.own.origin(key))
    known = bool(fields.get("stack.unmodelled_adds"))
    if known or (adds and first):
        fields.put("stack.unmodelled_adds", adds, config.own.origin(key))


def read_plugins(fields: Fields, config: AxolotlConfig) -> None:
    name = next((name for name in config.plugins if name in _PLUGINS), "")
    if name:
        _name_feature(fields, config, "plugins", f"{name}: {_PLUGINS[name]}", name in _PLUGINS_THAT_ADD)


def read_tiled_mlp(fields: Fields, config: AxolotlConfig) -> None:
    """`tiled_mlp`: a number of tiles where layers are checkpointed, else no figure."""
    read_tiles(fields, config)
    if tiles_mlps(fields, config) and not fields.get("checkpointing.mlp_tiles", 0):
        reason = "`tiled_mlp`: tiled MLPs outside of checkpointed layers, or of weights in fp32 under autocast"
        _name_feature(fields, config, "tiled_mlp", reason, adds=True)


def read_linear_experts(fields: Fields, config: AxolotlConfig) -> None:
    if config.own.flag("llama4_linearized_experts") and not linearizes(config):
        reason = "`llama4_linearized_experts`: experts become linear layers of their own"
        _name_feature(fields, config, "llama4_linearized_experts", reason)


def read_scattermoe(fields: Fields, config: AxolotlConfig) -> None:
    if not runs_scattermoe(config):
        return
    unknown = unknown_of_scattermoe(config)
    if unknown:
        _name_feature(fields, config, "use_scattermoe", f"`use_scattermoe`: {unknown}")
    else:
        fields.put("stack.expert_kernel", "scattermoe", config.own.origin("use_scattermoe"))


def read_packed_experts(fields: Fields, config: AxolotlConfig) -> None:
    packing = unknown_of_packing(fields, config)
    if packing:
        # Packed and divided is the least that experts may be, whatever of them stays whole or is unpacked.
        _name_feature(fields, config, "quantize_moe_experts", f"`quantize_moe_experts`: {packing}", adds=True)


def write_packed_experts(change: FieldChange) -> Written | None:
    """Beside weights of few bits, which it needs, and not for a release without the key. Adapters that are asked for on
    every linear layer are refused beside it (utils/schemas/config.py:1951): their names stand in place of that."""
    few_bits = change.run.model.quantization.method == "bnb"
    if change.value is not True or not few_bits or change.run.stack.framework_version < PACKS_SINCE:
        return None
    if not change.section.get("lora_target_linear"):
        return {"quantize_moe_experts": True}
    names = change.run.method.targets
    if not isinstance(names, tuple) or not names or "all-linear" in names:
        return None
    return {"quantize_moe_experts": True, "lora_target_linear": None, "lora_target_modules": list(names)}


# transformers 5.23.0 integrations/moe.py: `batched_mm` copies the expert's weights for every chosen token, and `eager`
# runs one expert after the other. Figures are those of `grouped_mm`, the default.
# `deep_ep` and its kinds send tokens to the experts of other GPUs (axolotl 0.19.0 integrations/expert_parallel).
_OTHER_EXPERT_FORWARDS = (
    "eager",
    "batched_mm",
    "deep_ep",
    "deep_ep_grouped_mm",
    "deep_ep_scattermoe",
    "deep_ep_sonicmoe",
)


def read_expert_backend(fields: Fields, config: AxolotlConfig) -> None:
    """Another name for `use_scattermoe` and `use_sonicmoe` (integrations/kernels/args.py:190)."""
    if config.own.get("expert_backend") == "scattermoe" and runs_scattermoe(config):
        read_scattermoe(fields, config)
    if config.own.get("expert_backend") == "sonicmoe" and "KernelsPlugin" in config.plugins:
        _name_feature(fields, config, "expert_backend", "`expert_backend`: SonicMoE's expert kernels", adds=True)


def read_expert_forward(fields: Fields, config: AxolotlConfig) -> None:
    name = config.own.get("experts_implementation")
    if name in _OTHER_EXPERT_FORWARDS:
        reason = f"`experts_implementation: {name}`: figures are those of `grouped_mm`"
        _name_feature(fields, config, "experts_implementation", reason, adds=True)


def apply_unmodelled_model(fields: Fields, config: AxolotlConfig) -> None:
    """Features of the model itself, whatever the keys say."""
    if config.family in families.OWN_CODE_FOR_EXPERTS and config.quantizes:
        reason = "Axolotl's own code for this family has experts that are quantised one by one"
        _name_feature(fields, config, "base_model", reason)
    stored = getattr(getattr(config.architecture, "stored", None), "method", "none")
    if stored in _STORED and not dequantizes(config):
        reason = f"the checkpoint is stored as {stored}: what of it is unpacked to train"
        _name_feature(fields, config, "base_model", reason, adds=True)
