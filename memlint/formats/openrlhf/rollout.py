"""What writes completions, and the models beside the policy: reference, critic, reward models."""

from __future__ import annotations

from typing import Any

from memlint.formats.fields import Fields
from memlint.formats.openrlhf import placement
from memlint.formats.openrlhf.batches import is_dynamic
from memlint.formats.openrlhf.config import OpenRLHFConfig
from memlint.formats.openrlhf.model import param_dtype, trains_adapter
from memlint.run import UNKNOWN, Model, ValueModel

_HALF_BYTES = 2


def read_generator(fields: Fields, config: OpenRLHFConfig) -> None:
    """vLLM on cards of its own, or on the actor's. Without engines the model writes completions itself (before 0.9)."""
    key = "vllm.num_engines"
    if config.get(key) is UNKNOWN:
        fields.unknown("rollout.share", config.origin(key).detail)
        fields.put("rollout.generator", "vllm", config.origin(key))
    elif placement.shares_cards_with_vllm(config):
        fields.put("rollout.generator", "vllm_colocate", config.origin("train.colocate_all"))
        _read_share(fields, config)
    else:
        name = "vllm" if placement.uses_vllm(config) else "model"
        fields.put("rollout.generator", name, config.origin(key))


# 0.6.0 cli/train_ppo_ray.py:67 gives an engine on the actor's GPUs less than a whole card; 0.7.0 does as it is told.
_TAKES_SHARE_SINCE, _WHOLE_CARD, _SHARE_BEFORE = (0, 7), 0.9, 0.4


def _read_share(fields: Fields, config: OpenRLHFConfig) -> None:
    """`sleep()` without a level is level 1 (trainer/ray/vllm_engine.py:136): weights wait in host memory."""
    key = "vllm.gpu_memory_utilization"
    share = config.number(key)
    if share is not None and share >= _WHOLE_CARD and () < config.release < _TAKES_SHARE_SINCE:
        share = _SHARE_BEFORE
    if share is None or not 0 < share <= 1:
        fields.unknown("rollout.share", config.origin(key).detail or f"`{key}` is no share of a card")
    else:
        fields.put("rollout.share", float(share), config.origin(key))
    sleeps = config.flag("vllm.enable_sleep")
    fields.put("rollout.sleep_level", 1 if sleeps else 0, config.origin("vllm.enable_sleep"))
    length = fields.get("sequence.length")
    if isinstance(length, int):
        fields.put("rollout.max_model_len", length, fields.origins["sequence.length"])


def read_reference(fields: Fields, config: OpenRLHFConfig) -> None:
    """A second model, whole or sharded as the policy is, with an adapter too (trainer/ray/launcher.py,
    ReferenceModelActor; cli/train_dpo.py:42). On GPUs of its own it costs the actor nothing."""
    key = "algo.kl.init_coef"
    if config.stage in ("dpo", "kto"):
        _dpo_reference(fields, config)
        return
    if config.get(key) is UNKNOWN:
        fields.unknown("method.reference_model", config.origin(key).detail)
        return
    here = placement.has_reference(config) and placement.is_with_actor(config, "ref")
    fields.put("method.reference_model", "copy" if here else "none", config.origin(key))
    if here:
        _offload(fields, config)


def _dpo_reference(fields: Fields, config: OpenRLHFConfig) -> None:
    """Another model where one is named, else a second copy of the trained one."""
    key = "ref.model_name_or_path"
    name, own = config.text(key), config.text("model.model_name_or_path")
    if not name or name == own:
        fields.put("method.reference_model", "copy", config.origin(key))
        _offload(fields, config)
        return
    fields.put("method.reference_model", "named", config.origin(key))
    fields.put("method.extra_models", (_model(config, name),), config.origin(key))


def _offload(fields: Fields, config: OpenRLHFConfig) -> None:
    """Parameters wait in host memory at stage 3; below it a model without training is not sharded, and DeepSpeed
    leaves it on the card (utils/deepspeed/deepspeed.py, get_ds_eval_config)."""
    moved = config.flag("ref.offload") and config.whole("ds.zero_stage") == 3
    fields.put("rollout.offloads_reference", moved, config.origin("ref.offload"))


_KD = "OpenRLHF 0.9.10 trainer/kd_trainer.py"


def read_teacher(fields: Fields, config: OpenRLHFConfig) -> None:
    """`train_kd`: a frozen teacher beside the student, and the cross entropy of labels and of its distribution, over
    whole fp32 logits of both, which the training loop holds (models/loss.py, KDLoss)."""
    name = config.text("teacher_model")
    if not name:
        reason = config.origin("teacher_model").detail or "the teacher is not named (`teacher_model`)"
        fields.infer("stack.unmodelled", reason, _KD)
        return
    origin = config.origin("teacher_model")
    fields.infer("method.stage", "gkd", _KD)
    fields.put("method.reference_model", "named", origin)
    fields.put("method.extra_models", (_model(config, name),), origin)
    fields.infer("loss.divergence", "likelihood", f"{_KD}; models/loss.py, KDLoss and GPTLMLoss")
    fields.infer("loss.kind", "plain", f"{_KD}: GPTLMLoss")
    moved = config.flag("teacher_offload") and config.whole("ds.zero_stage") == 3
    fields.put("rollout.offloads_reference", moved, config.origin("teacher_offload"))


def _model(config: OpenRLHFConfig, name: str) -> Model:
    architecture: Any = config.architecture_of(name)
    return Model(
        name=name,
        architecture=UNKNOWN if architecture is None else architecture,
        weights_dtype=param_dtype(config) or UNKNOWN,
    )


def read_estimator(fields: Fields, config: OpenRLHFConfig) -> None:
    """`gae` is PPO with a critic, on the policy's GPUs or on its own; the others compare responses without one."""
    key = "algo.advantage.estimator"
    if config.get(key) is UNKNOWN:
        fields.unknown("method.value_model", config.origin(key).detail)
    critic = placement.trains_critic(config)
    fields.put("method.stage", "ppo" if critic else "grpo", config.origin(key))
    gpus = placement.gpus_of(config, "critic")
    if critic and placement.is_with_actor(config, "critic"):
        fields.put("method.value_model", critic_of(fields, config), config.origin(key))
    elif critic and gpus is not None:
        own = critic_of(fields, config)._replace(trains_at_once=False, gpus=gpus[0])
        fields.put("method.value_model", own, config.origin("critic.num_gpus_per_node"))


def critic_name(config: OpenRLHFConfig) -> str:
    """The critic's own model, else the reward model, else the policy's (cli/train_ppo_ray.py:644)."""
    reward = "" if placement.scores_elsewhere(config) else config.text("reward.model_name_or_path").partition(",")[0]
    return config.text("critic.model_name_or_path") or reward or config.text("model.model_name_or_path")


def critic_of(fields: Fields, config: OpenRLHFConfig) -> ValueModel:
    """The critic of PPO, which trains with the policy's micro-batches. With `ds.enable_sleep` its optimizer states
    leave the card between updates; without it both updates run at once (trainer/ppo_trainer.py, ppo_train)."""
    dynamic = is_dynamic(config)
    sleeps = config.flag("ds.enable_sleep")
    return ValueModel(
        _model(config, critic_name(config)),
        1 if dynamic else fields.get("batch.micro_batch_size"),
        fields.get("batch.max_tokens", 0) if dynamic else 0,
        checkpointed=config.flag("model.gradient_checkpointing_enable"),
        offloads_optimizer=sleeps,
        trains_adapter=trains_adapter(config),
        trains_at_once=not sleeps and config.uses_ray,
    )


def read_rewards(fields: Fields, config: OpenRLHFConfig) -> None:
    """Reward models on the actor's GPUs. At stage 3 an offloaded one is there layer by layer alone."""
    key = "reward.model_name_or_path"
    offloaded = config.flag("reward.offload") and config.whole("ds.zero_stage") == 3
    if not placement.has_reward_model(config) or not placement.is_with_actor(config, "reward") or offloaded:
        return
    names = [name.strip() for name in config.text(key).split(",") if name.strip()]
    fields.put("method.extra_models", tuple(_model(config, name) for name in names), config.origin(key))


def read_processes(fields: Fields, config: OpenRLHFConfig) -> None:
    """Each model is a process of its own, with a CUDA context of its own."""
    roles = (
        placement.trains_critic(config) and placement.is_with_actor(config, "critic"),
        placement.has_reference(config) and placement.is_with_actor(config, "ref"),
        placement.has_reward_model(config) and placement.is_with_actor(config, "reward"),
    )
    if config.uses_ray:
        fields.infer("rollout.model_processes", sum(map(bool, roles)), "models of other Ray actors on these GPUs")
        own = placement.shares_cards_with_vllm(config)
        fields.infer("rollout.own_process", own, "vLLM on these GPUs")


def read_sync(fields: Fields, config: OpenRLHFConfig) -> None:
    """vLLM on the same cards gets a clone of each parameter (trainer/ray/ppo_actor.py:442); at stage 3 it is gathered
    before, so that the largest is there twice."""
    shape = config.architecture
    twice = config.text("vllm.sync_backend") == "nccl" and config.whole("ds.zero_stage") == 3
    largest = shape.vocab_size * shape.hidden_size * _HALF_BYTES if shape is not None and twice else 0
    fields.put("rollout.sync_bucket_bytes", largest, config.origin("vllm.sync_backend"))


def read_entropy(fields: Fields, config: OpenRLHFConfig) -> None:
    """Computed where a coefficient is given, 0 too; torch.compile makes one kernel of it (models/utils.py,
    compute_entropy)."""
    key = "actor.entropy_coef"
    given = config.trains_with_rewards and config.written(key) is not None
    fields.put("loss.entropy", "compiled" if given else "none", config.origin(key))
