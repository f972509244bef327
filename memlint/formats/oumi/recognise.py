"""Whether a document is a training config of Oumi: by its sections."""

from __future__ import annotations

from memlint.formats.base import Recognition
from memlint.source.document import Document

NAME = "oumi"
SCHEMA = "oumi.json"
# Sections of TrainingConfig (oumi 0.9 core/configs/training_config.py), and keys of `training` that no other framework
# has in a section of that name.
_SECTIONS = frozenset({"model", "data", "training", "peft", "fsdp", "deepspeed"})
_OWN = frozenset(
    {
        *("trainer_type", "enable_gradient_checkpointing", "mixed_precision_dtype", "enable_wandb", "save_final_model"),
        *("include_performance_metrics", "try_resume_from_last_checkpoint", "dep_log_level", "trainer_kwargs"),
        *("empty_device_cache_steps", "log_model_summary", "enable_tensorboard", "verl_config_overrides"),
    }
)


# The members of TrainerType, and the stage of each as `StartedProgram.task` (oumi 0.9
# core/configs/params/training_params.py, to_hf). GOLD is GKD between tokenizers.
STAGES = {"TRL_SFT": "sft", "TRL_DPO": "dpo", "TRL_KTO": "kto", "TRL_GRPO": "grpo", "TRL_GKD": "gkd"} | {
    "TRL_GOLD": "gkd",
    "VERL_GRPO": "grpo",
    "HF": "sft",
    "OUMI": "sft",
}


def recognise(document: Document) -> Recognition:
    """By a trainer of Oumi's, else by `model.model_name` and a key of `training` that is Oumi's own."""
    value = document.value
    if not isinstance(value, dict):
        return Recognition("no")
    model, training = value.get("model"), value.get("training")
    if not isinstance(training, dict):
        return Recognition("no")
    trainer = training.get("trainer_type")
    if isinstance(trainer, str) and trainer in STAGES:
        return Recognition("certain", reason="`training.trainer_type` of Oumi")
    own = _OWN & training.keys()
    if not isinstance(model, dict) or "model_name" not in model or not own:
        return Recognition("no")
    strange = [key for key in value if key not in _SECTIONS]
    if strange and "trainer_type" not in own:
        return Recognition("unsure", reason="sections of Oumi beside others")
    return Recognition("certain", reason=f"`model.model_name`, and `training.{min(own)}` of Oumi")
