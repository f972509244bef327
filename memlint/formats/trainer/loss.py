"""Whether a Trainer's loss builds the logits: by TRL's release, stage and keys."""

from __future__ import annotations

import memlint.memory.families.lookup as families
from memlint.formats.fields import Fields
from memlint.formats.trainer.config import TrainerConfig
from memlint.run import Origin

# trl 1.16 trainer/{sft,dpo,kto,grpo}_trainer.py call add_fused_lm_head; experimental/{orpo,cpo} read `outputs.logits`.
_FUSED_HEAD = ("sft", "pt", "dpo", "kto", "grpo")
_SINCE_FUSED_HEAD = (1, 15)
# `chunked_nll`: an option from 1.4 on, what SFTConfig means by None from 1.7 to 1.14 (sft_config.py, __post_init__).
_SINCE_CHUNKED_DEFAULT = (1, 7)
_SINCE_CHUNKED = (1, 4)
# `skip_logits` for Liger's models in evaluation: transformers trainer.py, prediction_step, and before it SFTTrainer
# (trl 0.29 sft_trainer.py:1204). Left to themselves they build the logits whenever they do not train.
_SKIPS_LOGITS = (5, 15)
_SFT_SKIPS_LOGITS = (0, 29)


# Stage -> (key, first release, first release without it) of Liger's loss over hidden states, LigerFusedLinearDPOLoss
# and its like: trl 0.17.0, 0.18.2, 0.19.1, 0.22.2, 0.26.2 and 1.9.0, trainer/{dpo,kto,grpo}_trainer.py.
_LIGER_LOSSES = {
    "dpo": (("use_liger_loss", (0, 19), (0, 27)), ("use_liger_kernel", (0, 26), _SINCE_FUSED_HEAD)),
    "kto": (("use_liger_loss", (0, 17), (0, 26)), ("use_liger_kernel", (1, 9), _SINCE_FUSED_HEAD)),
    "gkd": (("use_liger_kernel", (0, 22), (1, 14)),),
    "grpo": (("use_liger_loss", (0, 17), (0, 27)), ("use_liger_kernel", (0, 26), _SINCE_FUSED_HEAD)),
}


def _liger_loss(config: TrainerConfig, stage: str) -> str:
    """The key that puts Liger's loss in force in this release; "" for none."""
    rows = _LIGER_LOSSES.get(stage, ())
    return next((key for key, since, until in rows if since <= config.trl < until and config.is_on(key)), "")


def _sequences_at_once(fields: Fields, stage: str) -> int:
    """Tokens whose logits that loss holds: a pair, a sequence or a completion (liger_kernel 0.8.5 chunked_loss/
    fused_linear_{preference,unpaired_preference,ppo}.py, `chunk_size=1`); 0 where the length is not known."""
    length = fields.get("sequence.max_new_tokens" if stage == "grpo" else "sequence.length", 0)
    return (2 if stage == "dpo" else 1) * length if isinstance(length, int) else 0


def apply_loss(fields: Fields, config: TrainerConfig) -> None:
    stage = config.stage
    fields.put("loss.upcast_logits", True, Origin("default", detail="transformers loss_utils.py: logits.float()"))
    if config.trl >= _SINCE_FUSED_HEAD and stage in _FUSED_HEAD:
        detail = "trl kernels/chunked_logprob.py: TOKEN_CHUNK_SIZE"
        reason = f"{config.args.source}: add_fused_lm_head, tiles of 4096 tokens"
        _in_parts(fields, "fused_head", 4096, reason, detail)
    elif _is_chunked_sft(config, stage):
        detail = "trl 1.8 sft_trainer.py:85, _CHUNKED_LM_HEAD_CHUNK_SIZE"
        reason = f"{config.args.source}: chunked_nll, 256 tokens at a time"
        _in_parts(fields, "chunked", 256, reason, detail)
    else:
        _logits(fields, config, stage)
    skips = config.transformers >= _SKIPS_LOGITS or (config.trl >= _SFT_SKIPS_LOGITS and stage == "sft")
    fields.infer("evaluation.fused_loss", skips, f"{config.args.source}: skip_logits in evaluation")


def _is_chunked_sft(config: TrainerConfig, stage: str) -> bool:
    if stage not in ("sft", "pt") or not _SINCE_CHUNKED <= config.trl < _SINCE_FUSED_HEAD:
        return False
    loss_type = config.section.value.get("loss_type")
    if loss_type is not None:
        return bool(loss_type == "chunked_nll")
    return config.trl >= _SINCE_CHUNKED_DEFAULT and not config.args.flag("use_liger_kernel")


def _in_parts(fields: Fields, kind: str, tokens: int, reason: str, source: str) -> None:
    fields.infer("loss.kind", kind, reason)
    fields.put("loss.chunk_tokens", tokens, Origin("default", detail=source))
    fields.infer("loss.upcast_logits", False, "there are no logits")


def _logits(fields: Fields, config: TrainerConfig, stage: str) -> None:
    """Logits are built unless Liger's fused loss is on, which it is in (pre-)training of models that it supports."""
    key = _liger_loss(config, stage)
    if key:
        fields.put("loss.kind", "liger", config.args.origin(key))
        fields.infer("loss.chunk_tokens", _sequences_at_once(fields, stage), "liger_kernel 0.8.5: `chunk_size=1`")
        return
    liger = config.args.flag("use_liger_kernel")
    supported = config.architecture is None or families.supports_liger(config.architecture)
    if liger and supported and stage in ("sft", "pt"):
        fields.put("loss.kind", "liger", config.args.origin("use_liger_kernel"))
        return
    fields.put("loss.kind", "plain", config.args.origin("use_liger_kernel"))
    if liger and not supported:
        fields.infer("loss.fallback_reason", "Liger does not support this model", "liger_kernel 0.8.5")
