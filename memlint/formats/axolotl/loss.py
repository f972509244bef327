"""Axolotl: the loss and the plug-ins that replace it (integrations/liger, integrations/cut_cross_entropy): how the keys
are read and written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.formats.axolotl.config import AxolotlConfig
from memlint.formats.axolotl.model import uses_cut_cross_entropy
from memlint.formats.fields import Fields
from memlint.formats.keys import FieldChange, Written
from memlint.run import Origin, Run, liger_rows

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


def read_loss(fields: Fields, config: AxolotlConfig) -> None:
    """The model's own loss unless a plug-in replaces it (integrations/liger, integrations/cut_cross_entropy)."""
    fields.put("loss.upcast_logits", True, Origin("default", detail="transformers loss_utils.py: logits.float()"))
    kind, key = _loss(config)
    if _has_liger_of_dpo(config):
        config.put(fields, "loss.kind", LIGER_OF_DPO, "liger")
        length = fields.get("sequence.length", 0)
        rows = liger_rows("dpo", length) if isinstance(length, int) else 0
        fields.infer("loss.chunk_tokens", rows, "liger_kernel 0.8.5: `chunk_size=1`")
    elif config.rl or fields.get("method.stage") == "rm":
        fields.infer("loss.kind", "plain", "preferences and rewards read logits: fused losses need labels")
    else:
        config.put(fields, "loss.kind", key, kind)
    if config.rl or fields.get("method.stage") == "rm":
        fields.infer("loss.scores_in_fp32", False, "trl's trainers: selective_log_softmax of what the model returns")


# DPO's switch sets `use_liger_kernel` of TRL's DPOConfig (core/trainers/dpo/__init__.py:41): LigerFusedLinearDPOLoss
# over hidden states, and Liger's kernels in the model (transformers trainer.py, `apply_liger_kernel`).
LIGER_OF_DPO = "dpo_use_liger_kernel"


def _has_liger_of_dpo(config: AxolotlConfig) -> bool:
    return config.rl == "dpo" and config.own.flag(LIGER_OF_DPO)


def read_liger_kernels(fields: Fields, config: AxolotlConfig) -> None:
    """Liger's norms and MLPs, where both options are on, or DPO's one for all."""
    if _has_liger_of_dpo(config):
        config.put(fields, "loss.liger_kernels", LIGER_OF_DPO, True)
        return
    on = [config.own.flag(key) and _has_plugin(config, key) for key in ("liger_rms_norm", "liger_glu_activation")]
    on[1] = on[1] or (config.own.flag("liger_swiglu") and _has_plugin(config, "liger_swiglu"))
    config.put(fields, "loss.liger_kernels", "liger_rms_norm", all(on))


def _loss(config: AxolotlConfig) -> tuple[str, str]:
    named = (
        ("liger_fused_linear_cross_entropy", "liger"),
        ("liger_cross_entropy", "fused_ce"),
    )
    for key, kind in named:
        if config.own.flag(key) and _has_plugin(config, key):
            return kind, key
    if uses_cut_cross_entropy(config):
        return "cut", "cut_cross_entropy"
    return "plain", "liger_fused_linear_cross_entropy"


def _has_plugin(config: AxolotlConfig, key: str) -> bool:
    return PLUGIN_OF[key] in config.plugins


_LIGER = "axolotl.integrations.liger.LigerPlugin"
_CUT = "axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin"
_LOSSES = ("cut_cross_entropy", "chunked_cross_entropy", "liger_cross_entropy", "liger_fused_linear_cross_entropy")


def write_loss(change: FieldChange) -> Written | None:
    """A fused loss needs its plug-in and its key. Axolotl takes only one cross entropy, so the others go off."""
    config, plugins = change.section, change.section.get("plugins")
    if change.value == "liger" and config.get("rl") == "dpo":
        return {LIGER_OF_DPO: True} if _takes_liger_of_dpo(change.run, config) else None
    reads_logits = config.get("rl") or config.get("reward_model")
    if change.value not in ("liger", "cut") or reads_logits or not isinstance(plugins, (list, type(None))):
        return None
    plugin, key = (_LIGER, "liger_fused_linear_cross_entropy") if change.value == "liger" else (_CUT, _LOSSES[0])
    named = plugins or []
    keys = {key: True, **dict.fromkeys(_losses_on(config, key, named), False)}
    return keys if plugin in named else {**keys, "plugins": [*named, plugin]}


_DPO_TAKES_LIGER = (0, 26)  # trl 0.26.2 trainer/dpo_trainer.py, the first with `use_liger_kernel`; Axolotl 0.13.1
_DPO_TAKES_LIGER_WITH_ADAPTERS = (1, 9)  # trl 0.29 and 1.0 trainer/dpo_trainer.py refuse them together
# What DPO's trainer refuses beside Liger's loss, and what that loss leaves out (trl 1.9.0 trainer/dpo_trainer.py).
_NOT_BESIDE_LIGER = ("precompute_ref_log_probs", "dpo_label_smoothing", "rpo_alpha", "dpo_use_weighting")


def _takes_liger_of_dpo(run: Run, config: Mapping[str, Any]) -> bool:
    """Whether the stated release takes it: an older one ignores the key, and says nothing."""
    return _is_release_stated(run.origins) and _may_take_liger(config, run.method.kind, run.stack.trl)


def _is_release_stated(origins: Mapping[str, Origin]) -> bool:
    found = [origins.get(f"stack.{name}") for name in ("framework_version", "trl")]
    return any(origin is not None and origin.is_stated for origin in found)


def _may_take_liger(config: Mapping[str, Any], method: Any, trl: tuple[int, ...]) -> bool:
    first = _DPO_TAKES_LIGER if method == "full" else _DPO_TAKES_LIGER_WITH_ADAPTERS
    losses = config.get("dpo_loss_type") or ["sigmoid"]
    return trl >= first and losses == ["sigmoid"] and not any(config.get(key) for key in _NOT_BESIDE_LIGER)


def read_fused_loss_where_stated(fields: Fields, config: AxolotlConfig) -> None:
    """What to state for Liger's loss of DPO where nobody says which release runs."""
    takes = config.rl == "dpo" and not _has_liger_of_dpo(config) and not _is_release_stated(fields.origins)
    method, trl = fields.get("method.kind", "full"), fields.get("stack.trl", ())
    if takes and _may_take_liger(config.section.value, method, trl):
        source = "trl 1.9 trainer/dpo_trainer.py, use_liger_kernel beside adapters; axolotl 0.19 pins it"
        fields.put("planning.fused_loss_where_stated", _STATED, Origin("framework", detail=source))


_STATED = "`dpo_use_liger_kernel: true`, and the release in the requirements: axolotl>=0.19"


def _losses_on(config: Mapping[str, Any], kept: str, plugins: list[Any]) -> list[str]:
    """The other cross entropies that are on. A plug-in's is on by default where the plug-in is listed."""
    on = [key for key in _LOSSES if key != kept and config.get(key)]
    return [*on, "cut_cross_entropy"] if _CUT in plugins and kept != "cut_cross_entropy" else on


def write_liger_kernels(change: FieldChange) -> Written | None:
    """The kernels are no change of their own: a fused loss leaves them off."""
    return {} if not change.value and change.changes.get("loss.kind") else None
