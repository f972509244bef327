"""Which models of a PPO run share GPUs, and how many GPUs there are (cli/train_ppo_ray.py, train).

`--train.colocate_all` puts everything on the actor's GPUs, vLLM too unless it runs asynchronously.
`--train.colocate_actor_ref` puts the reference model there, `--train.colocate_critic_reward` the reward model on the
critic's. A model that is not colocated has GPUs of its own.
"""

from __future__ import annotations

from memlint.formats.fields import Fields
from memlint.formats.openrlhf.config import OpenRLHFConfig
from memlint.run import UNKNOWN

ROLES = ("actor", "critic", "ref", "reward")


def colocates_all(config: OpenRLHFConfig) -> bool:
    """`train_ppo` without Ray had every model in every process."""
    return not config.uses_ray or config.flag("train.colocate_all")


def is_with_actor(config: OpenRLHFConfig, role: str) -> bool:
    """Whether a model is on the actor's GPUs."""
    if colocates_all(config):
        return True
    return role == "ref" and config.flag("train.colocate_actor_ref")


def uses_vllm(config: OpenRLHFConfig) -> bool:
    return config.uses_ray and (config.whole("vllm.num_engines") or 0) > 0


def shares_cards_with_vllm(config: OpenRLHFConfig) -> bool:
    return uses_vllm(config) and config.flag("train.colocate_all") and not config.flag("train.async_enable")


def scores_elsewhere(config: OpenRLHFConfig) -> bool:
    """Whether a server or a Python function gives the rewards."""
    return any(config.written(key) is not None for key in ("reward.remote_url", "train.agent_func_path"))


def trains_critic(config: OpenRLHFConfig) -> bool:
    """PPO with `gae` has a critic (cli/train_ppo_ray.py:644)."""
    return config.trains_with_rewards and config.text("algo.advantage.estimator").lower() == "gae"


def has_reference(config: OpenRLHFConfig) -> bool:
    return config.trains_with_rewards and (config.number("algo.kl.init_coef") or 0) > 0


def has_reward_model(config: OpenRLHFConfig) -> bool:
    named = bool(config.text("reward.model_name_or_path"))
    return config.trains_with_rewards and named and not scores_elsewhere(config)


def gpus_of(config: OpenRLHFConfig, role: str) -> tuple[int, int] | None:
    """GPUs of a model on all nodes, and on one; None where the command leaves it open."""
    nodes, each = config.whole(f"{role}.num_nodes"), config.whole(f"{role}.num_gpus_per_node")
    return (nodes * each, each) if nodes and each else None


def read_world(fields: Fields, config: OpenRLHFConfig) -> None:
    """The actor's GPUs. Other programs are started once for each GPU, and their launcher says how many."""
    if config.uses_ray:
        found = gpus_of(config, "actor")
        if found is None:
            fields.unknown("parallelism.world_size", "`actor.num_nodes` x `actor.num_gpus_per_node` is not known")
        else:
            fields.put("parallelism.world_size", found[0], config.origin("actor.num_gpus_per_node"))
            fields.put("parallelism.gpus_per_node", found[1], config.origin("actor.num_gpus_per_node"))
    elif not isinstance(fields.get("parallelism.world_size"), int):
        fields.unknown("parallelism.world_size", "nobody said how many GPUs (the launcher, --gpus)")


def read_degrees(fields: Fields, config: OpenRLHFConfig) -> None:
    """A ring shares each sequence; DeepSpeed knows nothing of it and shards over all GPUs
    (utils/deepspeed/deepspeed.py, setup_distributed)."""
    ring, tensor = config.whole("ds.ring_attn_size") or 1, config.whole("ds.tensor_parallel_size") or 1
    fields.put("parallelism.sequence_parallel_size", ring, config.origin("ds.ring_attn_size"))
    fields.put("parallelism.tensor_parallel_size", tensor, config.origin("ds.tensor_parallel_size"))
    world = fields.get("parallelism.world_size")
    if isinstance(world, int):
        fields.infer(
            "parallelism.data_parallel_size", max(1, world // ring // tensor), "GPUs over ring and tensor ranks"
        )
    else:
        fields.put("parallelism.data_parallel_size", UNKNOWN, fields.origins["parallelism.world_size"])
