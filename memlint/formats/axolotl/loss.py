"""Axolotl: the loss, and the plug-ins that replace it (integrations/liger, integrations/cut_cross_entropy)."""

from __future__ import annotations

from memlint.formats.axolotl.config import Config
from memlint.formats.axolotl.model import cuts
from memlint.formats.fields import Fields
from memlint.run import Origin

# What a plug-in's keys need beside them: without it they are no keys at all, and ignored.
PLUGIN_OF = {
    **dict.fromkeys(
        (
            *("liger_rope", "liger_rms_norm", "liger_layer_norm", "liger_swiglu", "liger_glu_activation"),
            *("liger_cross_entropy", "liger_fused_linear_cross_entropy"),
        ),
        "LigerPlugin",
    ),
    "cut_cross_entropy": "CutCrossEntropyPlugin",
}


def apply_loss(fields: Fields, config: Config) -> None:
    """The model's own loss unless a plug-in replaces it (integrations/liger, integrations/cut_cross_entropy)."""
    fields.put("loss.upcast_logits", True, Origin("default", detail="transformers loss_utils.py: logits.float()"))
    kind, key = _loss(config)
    if config.rl or fields.get("method.stage") == "rm":
        fields.infer("loss.kind", "plain", "preferences and rewards read logits: fused losses need labels")
    else:
        config.put(fields, "loss.kind", key, kind)
    on = [config.own.flag(key) and _has_plugin(config, key) for key in ("liger_rms_norm", "liger_glu_activation")]
    on[1] = on[1] or (config.own.flag("liger_swiglu") and _has_plugin(config, "liger_swiglu"))
    config.put(fields, "loss.liger_kernels", "liger_rms_norm", all(on))
    config.put(fields, "loss.in_chunks", "chunked_cross_entropy", config.own.flag("chunked_cross_entropy"))


def _loss(config: Config) -> tuple[str, str]:
    named = (
        ("liger_fused_linear_cross_entropy", "liger"),
        ("liger_cross_entropy", "fused_ce"),
    )
    for key, kind in named:
        if config.own.flag(key) and _has_plugin(config, key):
            return kind, key
    if cuts(config):
        return "cut", "cut_cross_entropy"
    return "plain", "liger_fused_linear_cross_entropy"


def _has_plugin(config: Config, key: str) -> bool:
    return PLUGIN_OF[key] in config.plugins
