"""LLaMA-Factory: the loss, and Liger's kernels that fuse it with the head (model/model_utils/liger_kernel.py)."""

from __future__ import annotations

import memlint.formats.llamafactory.families as own_families
import memlint.memory.families.lookup as families
from memlint.formats.fields import Fields
from memlint.formats.keys import FieldChange, Written
from memlint.formats.llamafactory.config import LlamaFactoryConfig

_FUSED_LOSS_STAGES = ("pt", "sft")  # model/loader.py:142, `require_logits`


# src/llamafactory/train/sft/trainer.py:108-127: losses that are computed from the logits.
_OWN_LOSSES = ("use_dft_loss", "use_eaft_loss", "use_asft_loss")


def read_loss(fields: Fields, config: LlamaFactoryConfig) -> None:
    """apply_liger_kernel (model_utils/liger_kernel.py:31) and the losses of the stages."""
    if not config.training:  # model_utils/liger_kernel.py:37: kernels are for training alone
        fields.infer("loss.kind", "plain", "nothing trains")
        fields.infer("loss.liger_kernels", False, "nothing trains")
        return
    _loss_kind(fields, config)
    if config.stage in ("dpo", "kto"):
        fields.infer("loss.upcast_logits", True, f"train/{config.stage}/trainer.py: `.logits.to(torch.float32)`")
    elif config.stage in ("rm", "ppo"):
        fields.infer("loss.upcast_logits", True, "trl's model with a value head turns its logits into fp32")


def read_preference(fields: Fields, config: LlamaFactoryConfig) -> None:
    """The preference loss of stage dpo; stage kto has one of its own."""
    if config.stage == "dpo":
        config.put(fields, "loss.preference", "pref_loss", config.own.word("pref_loss") or "sigmoid")
    elif config.stage == "kto":
        fields.infer("loss.preference", "kto", "stage kto")


def write_loss(change: FieldChange) -> Written | None:
    """Liger's kernels, and its fused loss where the model and the stage have it."""
    if change.field == "loss.liger_kernels":
        return {"enable_liger_kernel": change.value} if isinstance(change.value, bool) else None
    if change.value == "plain":
        return {"enable_liger_kernel": False}
    family = getattr(change.run.model.architecture, "family", "")
    fusing = own_families.LIGER_MODELS - own_families.LIGER_WITHOUT_FUSED_LOSS
    fused = family in fusing and change.run.method.stage in _FUSED_LOSS_STAGES
    if change.value != "liger" or not fused or any(change.section.get(key) for key in _OWN_LOSSES):
        return None
    return {"enable_liger_kernel": True}


def _loss_kind(fields: Fields, config: LlamaFactoryConfig) -> None:
    if config.own.flag("enable_liger_kernel"):
        _liger(fields, config)
    elif "enable_liger_kernel" in config.unresolved:
        fields.unknown("loss.kind", "`enable_liger_kernel` is an interpolation")
    elif config.hf.flag("use_liger_kernel"):
        _liger_of_the_trainer(fields, config)
    elif config.own.flag("use_unsloth"):
        fields.put("loss.kind", "unsloth", config.own.origin("use_unsloth"))
    else:
        config.put(fields, "loss.kind", "enable_liger_kernel", "plain")
        config.put(fields, "loss.liger_kernels", "enable_liger_kernel", False)


def _liger(fields: Fields, config: LlamaFactoryConfig) -> None:
    origin = config.own.origin("enable_liger_kernel")
    if not config.family:
        fields.unknown("loss.kind", "whether Liger supports the model depends on its type, which is not known")
        return
    supported = config.family in own_families.LIGER_MODELS
    kind, reason = (
        _liger_loss(config, "switches Liger's fused loss off")
        if supported
        else ("plain", f"LLaMA-Factory has no Liger kernel for {config.family}")
    )
    fields.put("loss.kind", kind, origin)
    fields.put("loss.liger_kernels", supported, origin)
    fields.put("loss.fallback_reason", reason, origin)


def _liger_of_the_trainer(fields: Fields, config: LlamaFactoryConfig) -> None:
    """Trainer.__init__ patches the model whatever the stage; other stages give it no labels, and so get its logits."""
    origin = config.hf.origin("use_liger_kernel")
    supported = config.architecture is None or families.supports_liger(config.architecture)
    kind, reason = (
        _liger_loss(config, "gives the model no labels")
        if supported
        else ("plain", f"Liger does not support {config.family}")
    )
    fields.put("loss.kind", kind, origin)
    fields.put("loss.liger_kernels", supported and config.stage != "ppo", origin)
    fields.put("loss.fallback_reason", reason, origin)


def _liger_loss(config: LlamaFactoryConfig, otherwise: str) -> tuple[str, str]:
    """The loss under Liger's kernels, and why it is not the fused one. `otherwise`: what LLaMA-Factory does in stages
    that need the logits."""
    if config.stage not in _FUSED_LOSS_STAGES:
        return "plain", f"stage {config.stage} needs the logits: LLaMA-Factory {otherwise}"
    own = next((key for key in _OWN_LOSSES if config.own.flag(key) and config.stage == "sft"), "")
    if own:
        return "plain", f"`{own}` computes its loss from the logits"
    if config.family in own_families.LIGER_WITHOUT_FUSED_LOSS:
        return "fused_ce", f"Liger's {config.family} kernels keep the logits"
    return "liger", ""
