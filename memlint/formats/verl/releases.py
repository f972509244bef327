"""Whether a run is of verl before 0.4: by the release that a repository pins, or by its own copy of verl's file."""

from __future__ import annotations

from memlint.formats.fields import value_at
from memlint.formats.verl.config import VerlConfig

_SINCE = (0, 4)
_ACTOR = ("actor_rollout_ref", "actor")
_KEY_SINCE_0_4_1 = "entropy_from_logits_with_chunking"  # a key of the actor in 0.4.1 trainer/config/ppo_trainer.yaml


def is_before_0_4(config: VerlConfig) -> bool:
    """Whether the run is of verl 0.3 or older."""
    pinned = config.context.versions.get("verl")
    if pinned:
        return pinned < _SINCE
    actor = value_at(config.base.value, _ACTOR) if config.base is not None else None
    return isinstance(actor, dict) and "ppo_mini_batch_size" in actor and _KEY_SINCE_0_4_1 not in actor


def has_fused_kernels(config: VerlConfig) -> bool:
    """Whether the trainer's file has `use_fused_kernels`: Hydra refuses a key that it does not know. It came with 0.4
    below the actor, and stands below the model now."""
    sections = (value_at(config.base.value, path) for path in _SECTIONS) if config.base is not None else ()
    known = [section for section in sections if isinstance(section, dict)]
    return not is_before_0_4(config) and (not known or any("use_fused_kernels" in section for section in known))


_SECTIONS = (_ACTOR, ("actor_rollout_ref", "model"))
