"""Models beside verl's policy, reference and critic: what scores responses, and a teacher."""

from __future__ import annotations

from memlint.formats.fields import Fields, as_number
from memlint.formats.verl.config import VerlConfig

SERVED, TRAINED, TEACHER = "reward.reward_model.enable", "reward_model.enable", "distillation.enabled"
# A key of PRIME's own, whose program switches the worker on in a file of its own (verl-recipe prime/config).
OF_PRIME = "reward_model.model.update"
QAT = "actor_rollout_ref.actor.fsdp_config.qat.enable"
_SHARE = "reward.reward_model.rollout.gpu_memory_utilization"
_POOL = "reward.reward_model.enable_resource_pool"
_MODE = "distillation.distillation_loss.loss_mode"
_ESTIMATORS = ("kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3")  # verl 0.9.1 trainer/distillation/losses.py
_IN_CHUNKS = "distillation.distillation_loss.use_chunked_topk"
_OTHER_LOSSES = tuple(f"distillation.distillation_loss.{name}" for name in ("use_task_rewards", "use_policy_gradient"))


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
    if config.flag(TRAINED) or config.raw(OF_PRIME) is not None:
        _add(fields, config, TRAINED, "a reward model in a worker of its own on the same cards")


def read_teacher(fields: Fields, config: VerlConfig) -> None:
    """The teacher has GPUs of its own (verl 0.9.1 trainer/main_ppo_v0.py:91). Estimators of the divergence read the
    log-probabilities that the update has anyway; the teacher's likeliest words are compared with a log-softmax of all
    logits, alone (trainer/ppo/v1/trainer_base.py:1842) or beside those log-probabilities."""
    if not config.flag(TEACHER):
        return
    mode = config.word(_MODE)
    if mode in _ESTIMATORS:
        return
    alone = not any(map(config.flag, (*_OTHER_LOSSES, _IN_CHUNKS, "actor_rollout_ref.model.use_fused_kernels")))
    if mode == "forward_kl_topk" and alone:
        fields.put("loss.divergence", "likeliest", config.origin(_MODE))
        fields.infer("planning.fuses_log_probabilities", False, f"`{_MODE}` reads whole logits")
    else:
        _add(fields, config, TEACHER, "distillation's loss in the update")


def read_fake_quantisation(fields: Fields, config: VerlConfig) -> None:
    """QAT: each linear layer multiplies with its weight rounded to NVFP4, a copy that the backward reads, of the whole
    weight where FSDP divides it; `w4a4` rounds its input as well (verl 0.9.1 utils/qat/linear.py:350)."""
    if config.flag(QAT):
        _add(fields, config, QAT, "QAT's copies of the weights, rounded to NVFP4")


def _add(fields: Fields, config: VerlConfig, key: str, what: str) -> None:
    fields.put("stack.unmodelled", what, config.origin(key))
    fields.put("stack.unmodelled_adds", True, config.origin(key))
