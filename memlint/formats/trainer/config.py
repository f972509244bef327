"""One Trainer file with its framework versions, and which library's trainer it is for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.base import Context
from memlint.formats.fields import Section
from memlint.formats.trainer.recognise import SCHEMA
from memlint.formats.training_arguments import Arguments, Version, arguments
from memlint.formats.versions import trainer_versions

# Keys of TRL's configurations and its ModelConfig that plain Trainer scripts do not have.
_TRL = frozenset(
    {
        *("use_peft", "lora_modules_to_save", "lora_task_type", "use_dora", "lora_target_parameters"),
        *("packing", "packing_strategy", "dataset_text_field", "dataset_num_proc", "dataset_kwargs", "eval_packing"),
        *("dataset_train_split", "dataset_test_split", "dataset_mixture", "dataset_mixer", "model_init_kwargs"),
        *("max_prompt_length", "max_completion_length", "num_generations", "reward_funcs", "use_vllm"),
        *("completion_only_loss", "assistant_only_loss", "padding_free", "precompute_ref_log_probs", "loss_type"),
        *("beta", "use_bnb_nested_quant", "chat_template_path", "activation_offloading", "reference_free"),
        "center_rewards_coefficient",
    }
)
# open-instruct has TRL's names for some things and a trainer of its own (open_instruct/finetune.py, FlatArguments).
OPEN_INSTRUCT = frozenset(
    {
        *("with_tracking", "use_slow_tokenizer", "use_flash_attn", "checkpointing_steps", "add_bos", "dpo_beta"),
        *("dataset_mixer_list", "try_launch_beaker_eval_jobs", "push_to_hub_entity", "dpo_loss_type"),
    }
)
# trl 1.16 base_config.py: what _BaseConfig changes of TrainingArguments (the same since 0.22).
_TRL_DEFAULTS: Mapping[str, Any] = {"gradient_checkpointing": True}
_TRL_NEWEST: Version = (1, 16)


class Config(NamedTuple):
    """`args` reads the file's keys with the defaults in force. `architecture` is None where the model is unknown."""

    section: Section
    args: Arguments
    context: Context
    trl: Version  # () for a plain Trainer
    transformers: Version
    architecture: Any = None
    said: Mapping[str, Version] = {}  # versions that somebody stated; the context's hold what the keys give away, too

    def text(self, *keys: str) -> tuple[str, str]:
        """The first of `keys` that holds text, and the key; ("", keys[0]) where none does."""
        for key in keys:
            value = self.section.value.get(key)
            if isinstance(value, str) and value.strip():
                return value.strip(), key
        return "", keys[0]

    def first(self, *keys: str) -> str:
        """The first of `keys` that is given (not null), else ""."""
        return next((key for key in keys if self.section.value.get(key) is not None), "")


def is_trl(value: Mapping[str, Any]) -> bool:
    """Whether these keys are for a trainer and the ModelConfig of TRL."""
    return bool(_TRL & value.keys()) and not OPEN_INSTRUCT & value.keys()


def config_of(section: Section, context: Context, launcher_precision: str = "no") -> Config:
    """The file under the context's versions; `launcher_precision` is accelerate's, in force where the file has none."""
    said, trls = context.versions, is_trl(section.value)
    versions, given_away = trainer_versions(section, SCHEMA, said, trls)
    context = context._replace(versions=versions, version_origins={**context.version_origins, **given_away})
    transformers = tuple(versions.get("transformers", (5, 23)))
    trl = tuple(versions.get("trl", _TRL_NEWEST)) if trls else ()
    overrides: dict[str, Any] = dict(_TRL_DEFAULTS) if trl >= (0, 22) else {}
    if trl >= (0, 19):  # sft_config.py:252, v0.19.0: `bf16 = not fp16` when unset
        overrides["bf16"] = section.value.get("fp16") is not True
    elif launcher_precision in ("bf16", "fp16") and section.value.get("bf16") is None is section.value.get("fp16"):
        overrides[launcher_precision] = True
    version = ".".join(map(str, trl or transformers))
    source = f"trl {version}" if trl else f"transformers {version} TrainingArguments"
    args = arguments(section, context.versions, overrides, source)
    return Config(section, args, context, trl, transformers, said=said)
