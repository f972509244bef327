"""Models beside verl's policy, reference and critic: what scores responses, and a teacher."""

from __future__ import annotations

from memlint.formats.fields import Fields, as_number
from memlint.formats.verl.config import VerlConfig

SERVED, TRAINED, TEACHER = "reward.reward_model.enable", "reward_model.enable", "distillation.enabled"
_SHARE = "reward.reward_model.rollout.gpu_memory_utilization"
_POOL = "reward.reward_model.enable_resource_pool"


def read_served(fields: Fields, config: VerlConfig) -> None:
    """A reward model behind an inference engine: on GPUs of its own, or on the training cards, where it wakes to score
    while the other engine sleeps (verl 0.9.1 experimental/reward_loop/reward_loop.py, compute_rm_score)."""
    if not config.flag(SERVED) or config.flag(_POOL):
        return
    share, own = as_number(config.get(_SHARE)), fields.get("rollout.share", None)
    if share is not None and isinstance(own, float):
        fields.put("rollout.share", max(own, float(share)), config.origin(_SHARE if share > own else SERVED))


def read_trained(fields: Fields, config: VerlConfig) -> None:
    """The reward worker of releases before 0.6, and PRIME's, which trains a second model (verl-recipe
    prime/prime_fsdp_workers.py, PRIMERewardModelWorker): they add to what is counted."""
    if config.flag(TRAINED):
        _add(fields, config, TRAINED, "a reward model in a worker of its own on the same cards")


def read_teacher(fields: Fields, config: VerlConfig) -> None:
    """The teacher has GPUs of its own; the update compares with its likeliest words (verl 0.9.1
    trainer/distillation)."""
    if config.flag(TEACHER):
        _add(fields, config, TEACHER, "distillation's loss in the update")


def _add(fields: Fields, config: VerlConfig, key: str, what: str) -> None:
    fields.put("stack.unmodelled", what, config.origin(key))
    fields.put("stack.unmodelled_adds", True, config.origin(key))
