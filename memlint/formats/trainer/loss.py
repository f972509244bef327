"""Whether a Trainer's loss builds the logits: by TRL's release, stage and keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import memlint.memory.families.lookup as families
from memlint.formats.fields import Fields
from memlint.formats.keys import FieldChange, Written
from memlint.formats.trainer.config import TrainerConfig
from memlint.formats.training_arguments.keys import KEYS as TRAINING_ARGUMENTS
from memlint.run import Origin, Run, liger_rows

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


# Stage grpo, GRPO and RLOO: how releases select log-probabilities, each up to the one named; `logits / temperature`,
# `logits.div_` (1.0 to 1.9), the former again, a kernel of TRL's (trl 0.17.0, 0.29.0, 1.0.0, 1.9.2, 1.10.0, 1.13.0 and
# 1.14.0 trainer/{grpo,rloo}_trainer.py).
_SELECTIONS = (((1, 0), "divided"), ((1, 10), "divided_in_place"), ((1, 14), "divided"), ((1, 15), "kernel"))
_SINCE_ENTROPIES = (0, 20)  # trl 0.20 trainer/grpo_trainer.py, _get_per_token_logps_and_entropies
_ENTROPY_ROWS = 128  # trl 1.0 trainer/utils.py, entropy_from_logits: `chunk_size`
# XPO and Nash-MD took a log-softmax of all logits of completions before (trl 0.14.0, 0.15.2 trainer/xpo_trainer.py).
_SINCE_ROWS = (0, 15)
# DPO's log-probabilities of shifted logits, until 1.6 of a contiguous copy of them (trl 0.29.0, 1.0.0, 1.5.0, 1.6.0 and
# 1.9.0 trainer/dpo_trainer.py, _compute_loss).
_SINCE_SHIFTED, _SHIFTED_UNCOPIED_SINCE = (0, 29), (1, 6)
# The reference of Online DPO, XPO and Nash-MD was no model of accelerate's before (trl 0.23.0 and 0.24.0
# trainer/online_dpo_trainer.py, `self.ref_model.to(self.accelerator.device)`, then `prepare_model`).
_SINCE_PREPARED = (0, 24)
# From here on Liger's loss over hidden states gives its place to tiles of TRL's own, in every forward.
_SINCE_TILES = (1, 14)


def _read_selection(fields: Fields, config: TrainerConfig) -> None:
    """How GRPO's log-probabilities come from the logits, and the entropy that is logged beside them."""
    found = next((word for until, word in _SELECTIONS if config.trl < until), "")
    if fields.get("loss.kind") == "liger" and config.trl >= _SINCE_TILES:
        return
    fields.infer("loss.selection", found, f"{config.args.source}: log-probabilities of the labels")
    if found.startswith("divided") and config.trl >= _SINCE_ENTROPIES and fields.get("loss.kind") == "plain":
        fields.infer("loss.entropy", "chunked", f"{config.args.source}: entropy_from_logits")
        fields.infer("loss.chunk_tokens", _ENTROPY_ROWS, f"{config.args.source}: entropy_from_logits")


def _liger_loss(config: TrainerConfig, stage: str) -> str:
    """The key that puts Liger's loss in force in this release; "" for none."""
    rows = _LIGER_LOSSES.get(stage, ())
    return next((key for key, since, until in rows if since <= config.trl < until and config.is_on(key)), "")


# What the constructors of those trainers refuse beside Liger's loss, and what its loss leaves out (the same files).
_LIGER_KNOWS = {"dpo": ("sigmoid",), "kto": ("kto",), "grpo": ("grpo", "bnpo", "dr_grpo")}
_LIGER_WITH_ADAPTERS = {  # releases from ... to the one that is named last; 0.29 and 1.0 dpo_trainer.py refuse them
    "dpo": (((0, 19), (0, 27)), ((1, 9), _SINCE_FUSED_HEAD)),
    "kto": (((1, 9), _SINCE_FUSED_HEAD),),
    "grpo": (((0, 18), _SINCE_FUSED_HEAD),),
}
_NOT_BESIDE_LIGER = {
    "dpo": ("precompute_ref_log_probs", "label_smoothing", "rpo_alpha", "ld_alpha", "use_weighting", "reference_free"),
    "kto": ("precompute_ref_log_probs",),
    "grpo": ("delta", "top_entropy_quantile", "importance_sampling_level", "off_policy_mask_threshold", "entropy_coef"),
}


def write_fused_loss(change: FieldChange) -> Written | None:
    """Liger's loss: the switch of the stage and the release. For preferences and rollouts only where the release is
    stated and TRL takes it beside the other keys. Its newest has no such switch: there the loss is not a plain one."""
    run, stage = change.run, change.run.method.stage
    if change.value != "liger" or run.loss.kind != "plain":
        return None
    if stage in ("sft", "pt"):
        return TRAINING_ARGUMENTS.write(change._replace(field="loss.liger_kernels", value=True))
    origin = run.origins.get("stack.trl")
    if origin is None or not origin.is_stated or not _takes_liger_loss(run, change.section):
        return None
    rows = _LIGER_LOSSES.get(stage, ())
    key = next((key for key, since, until in reversed(rows) if since <= run.stack.trl < until), "")
    return {key: True} if key else None


def _takes_liger_loss(run: Run, section: Mapping[str, Any]) -> bool:
    stage, adapters = run.method.stage, run.method.kind != "full"
    asked = section.get("loss_type")
    known = asked is None or asked in _LIGER_KNOWS.get(stage, ())
    adapts = any(since <= run.stack.trl < until for since, until in _LIGER_WITH_ADAPTERS.get(stage, ()))
    lists = (run.method.targets, run.method.modules_to_save)
    heads = any("lm_head" in names for names in lists if isinstance(names, tuple))
    architecture = run.model.architecture
    plain = not getattr(architecture, "towers", ()) and all(
        layer.mlp.kind != "moe" for layer in getattr(architecture, "layer_types", ())
    )
    beside = any(section.get(key) for key in _NOT_BESIDE_LIGER.get(stage, ()))
    return known and plain and not beside and not (adapters and (heads or not adapts))


def _sequences_at_once(fields: Fields, stage: str) -> int:
    """Tokens whose logits that loss holds; 0 where the length is not known."""
    length = fields.get("sequence.max_new_tokens" if stage == "grpo" else "sequence.length", 0)
    return liger_rows(stage, length) if isinstance(length, int) else 0


# Stages whose trainers of TRL compute log-probabilities from the logits as they are returned (trl 0.7.11 to 1.16.0
# trainer/{dpo,grpo,kto,rloo}_trainer.py, experimental/{cpo,orpo,online_dpo}; 0.7.1 dpo_trainer.py:317 makes fp32 of
# them).
_AS_RETURNED_SINCE = (0, 7, 11)
_COMPARED = ("dpo", "online_dpo", "xpo", "nash_md", "orpo", "cpo", "simpo", "ipo", "kto", "grpo", "ppo")


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
        if stage == "grpo":
            _read_selection(fields, config)
        if stage == "dpo" and config.trl >= _SINCE_SHIFTED and fields.get("loss.kind") == "plain":
            selection = "shifted_copy" if config.trl < _SHIFTED_UNCOPIED_SINCE else "shifted"
            fields.infer("loss.selection", selection, f"{config.args.source}: selective_log_softmax")
            fields.infer("loss.chunk_tokens", _ENTROPY_ROWS, f"{config.args.source}: entropy_from_logits")
    if stage in ("xpo", "nash_md") and not () < config.trl < _SINCE_ROWS:
        fields.infer("loss.selection", "rows", f"{config.args.source}: selective_log_softmax")
    if stage in ("online_dpo", "xpo", "nash_md") and () < config.trl < _SINCE_PREPARED:
        reason = f"{config.args.source}: the reference is moved to the card, not prepared"
        fields.infer("loss.reference_converted", False, reason)
    if stage in _COMPARED and not () < config.trl < _AS_RETURNED_SINCE:
        fields.infer("loss.scores_in_fp32", False, f"{config.args.source}: selective_log_softmax of what it returns")
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
