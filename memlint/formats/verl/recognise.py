"""Whether a document is verl's: by the sections that no other framework has."""

from __future__ import annotations

import re
from typing import Any

from memlint.formats.base import Recognition
from memlint.source.document import Document

NAME = "verl"
SCHEMA = "verl.json"
# What verl's own files have at their top, whatever the release (0.2 to 0.9.1 verl/trainer/config), and what a fork's
# agents have beside it.
_SECTIONS = frozenset(
    {
        *("actor_rollout_ref", "algorithm", "async_training", "checkpoint", "critic", "custom_reward_function", "data"),
        *("defaults", "distillation", "env", "evaluation", "global_profiler", "hydra", "model", "npu_profile", "optim"),
        *("profiler", "ray_init", "ray_kwargs", "reward", "reward_manager", "reward_model", "rollout", "skip"),
        *("sandbox_fusion", "trainer", "transfer_queue"),
    }
)
_ROLES = ("actor", "rollout", "ref", "model")
# Sections of the trainer for supervised fine-tuning, and keys that tell it from others with such sections.
_SFT_SECTIONS = ("data", "model", "trainer")
_SFT_KEYS = (
    *(("model", "partial_pretrain"), ("trainer", "default_hdfs_dir"), ("data", "micro_batch_size_per_gpu")),
    *(("trainer", "default_local_dir"), ("data", "max_token_len_per_gpu"), ("model", "use_remove_padding")),
)
# Columns of answers in pairs, for trainers of preferences that copies add: verl has none (0.9.1 verl/trainer/config).
_KEYS_OF_PAIRS = ("chosen_key", "rejected_key")


def recognise(document: Document) -> Recognition:
    value = document.value
    if not isinstance(value, dict):
        return Recognition("no")
    if is_reinforcement(value):
        return Recognition("certain", reason="`actor_rollout_ref` is verl's")
    if is_sft(value):
        return Recognition("likely", reason="sections of verl's SFT trainer")
    return Recognition("no")


def is_reinforcement(value: dict[str, Any]) -> bool:
    """Whether a file is for `main_ppo`."""
    section = value.get("actor_rollout_ref")
    return isinstance(section, dict) and any(isinstance(section.get(role), dict) for role in _ROLES)


def is_sft(value: dict[str, Any]) -> bool:
    """Whether a file is for the SFT trainer: its sections, two keys of verl's in them, and no pairs of answers."""
    if not all(isinstance(value.get(name), dict) for name in _SFT_SECTIONS):
        return False
    if any(key in value["data"] for key in _KEYS_OF_PAIRS):
        return False
    return sum(key in value[section] for section, key in _SFT_KEYS) >= 2


_VERL_ENTRY = re.compile(r"verl|main_ppo|sft_trainer|^$")


def is_for_own_program(document: Document) -> bool:
    """Whether a file has sections that verl's programs have not, or a command of another program: that one reads them
    and may fill in what verl asks for."""
    is_of_verl = document.start is not None and _VERL_ENTRY.search(document.start.program.entry) is not None
    if is_of_verl or not isinstance(document.value, dict):
        return False
    return any(isinstance(part, dict) and name not in _SECTIONS for name, part in document.value.items())


# Where verl and its copies keep the defaults of their programs: commands override them, and no run is the file's alone.
_OWN_DEFAULTS = re.compile(r"(?:^|/)verl/trainer/config/\w*(?:ppo|sft)\w*trainer\w*\.ya?ml$")


def is_own_default(path: str) -> bool:
    """Whether a file lies where verl's package has the defaults of its programs."""
    return _OWN_DEFAULTS.search(path) is not None


def is_template(document: Document, value: dict[str, Any]) -> bool:
    """Whether a file holds verl's own defaults, for others to override: by its place in verl's package, or because no
    batch size is set (`ppo_trainer.yaml`)."""
    if is_own_default(document.path):
        return True
    section = value.get("actor_rollout_ref")
    actor = section.get("actor") if isinstance(section, dict) else None
    if not isinstance(actor, dict):
        return False
    sizes = ("ppo_micro_batch_size", "ppo_micro_batch_size_per_gpu")
    return all(actor.get(key) is None for key in sizes) and actor.get("use_dynamic_bsz") is not True
