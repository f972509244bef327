"""What stands beside AReaL's actor: a reference, a critic, and the engines that write completions.

Under a launcher all models that train or score are on the actor's GPUs, in one process. Under a scheduler each is a
process of its own, on GPUs of its own unless its `scheduling_strategy` names the actor (1.0.4
areal/trainer/rl_trainer.py). A reference is an engine without an optimizer, whose shards stay on the card.
"""

from __future__ import annotations

from memlint.formats.areal.allocation import allocations
from memlint.formats.areal.batches import padded, put_forward
from memlint.formats.areal.config import ArealConfig
from memlint.formats.areal.placement import placement
from memlint.formats.areal.releases import FP32_SHARDS
from memlint.formats.areal.training import DTYPE
from memlint.formats.fields import Fields, as_number
from memlint.formats.verl.batches import critic_model
from memlint.formats.verl.model import DTYPES
from memlint.run import UNKNOWN, Origin, ValueModel

PENALTY, REFERENCE_TOKENS = "actor.kl_ctl", "ref.mb_spec.max_tokens_per_mb"
CRITIC, CRITIC_TOKENS, CRITIC_RECOMPUTES = (
    "critic.path",
    "critic.mb_spec.max_tokens_per_mb",
    "critic.gradient_checkpointing",
)
OFFLOADS = "enable_offload"
SHARES = {"sglang": "sglang.mem_fraction_static", "vllm": "vllm.gpu_memory_utilization"}


def is_here(config: ArealConfig, role: str) -> bool:
    """Whether a model is on the actor's GPUs."""
    strategy = f"{role}.scheduling_strategy"
    named = config.value(f"{strategy}.type") == "colocation" and config.value(f"{strategy}.target") == "actor"
    return named or not config.is_controlled


def read_stage(fields: Fields, config: ArealConfig) -> None:
    """A critic is trained where the file has one: PPO."""
    stages = {"sft": "sft", "rw": "rm", "dpo": "dpo"}
    algorithm = config.algorithm()
    stage = stages.get(algorithm, "ppo" if config.has_section("critic") else "grpo")
    fields.infer("method.stage", stage, "the sections of the file")
    if algorithm == "rw":
        fields.infer("method.reward_head", "score", "AReaL 1.0.4: AutoModelForTokenClassification")


def read_reference(fields: Fields, config: ArealConfig) -> None:
    """There is one where the file has one and its penalty is above 0."""
    weight = as_number(config.get(PENALTY))
    compares = config.algorithm() == "rl" and config.has_section("ref") and (weight is None or weight > 0)
    here = compares and is_here(config, "ref")
    fields.put("method.reference_model", "copy" if here else "none", config.origin(PENALTY))
    if not here:
        return
    fields.put("rollout.offloads_reference", config.value("ref.offload") is True, Origin("inferred", detail="ref"))
    fields.put("rollout.model_processes", int(config.is_controlled), Origin("inferred", detail="scheduler.type"))
    put_forward(fields, config, "reference", REFERENCE_TOKENS)


def read_critic(fields: Fields, config: ArealConfig) -> None:
    if config.algorithm() != "rl" or not config.has_section("critic"):
        return
    tokens, here = config.integer(CRITIC_TOKENS), is_here(config, "critic")
    dtype = "float32" if config.release >= FP32_SHARDS else DTYPES.get(config.word(DTYPE), UNKNOWN)
    name = config.get(CRITIC)
    value = ValueModel(
        critic_model(config, name, dtype),
        1 if tokens else UNKNOWN,
        padded(config, tokens) if tokens else 0,
        config.flag(CRITIC_RECOMPUTES),
        gpus=0 if here else _gpus_of_critic(config),
        unpadded=True,
    )
    fields.put("method.value_model", value, config.origin(CRITIC))
    if tokens:
        fields.put("method.value_model.micro_batch_size", 1, config.origin(CRITIC_TOKENS))


def _gpus_of_critic(config: ArealConfig) -> int:
    text = config.value("critic.backend")
    found = allocations(text) if isinstance(text, str) else None
    return found[0].world if found else 1


def read_generator(fields: Fields, config: ArealConfig) -> None:
    """Engines on GPUs of their own, or on the actor's, where each waits in host memory in turn (`enable_offload`)."""
    if config.algorithm() != "rl":
        return
    found = placement(config)
    origin = config.origin(found.key)
    fields.put("rollout.generator", "vllm_colocate" if found.together else "vllm", origin)
    if found.writes is not None:
        fields.put("rollout.tensor_parallel_size", found.writes.tensor, origin)
    if not found.together:
        return
    moves = config.flag(OFFLOADS)
    fields.put("rollout.own_process", True, Origin("framework", detail="AReaL 1.0.4 areal/infra/launcher"))
    fields.put("rollout.sleep_level", 1 if moves else 0, config.origin(OFFLOADS))
    fields.put("rollout.offloads_weights", moves, config.origin(OFFLOADS))
    fields.put("rollout.offloads_optimizer", moves, config.origin(OFFLOADS))
    backend = found.writes.backend if found.writes is not None else "sglang"
    key = SHARES[backend]
    share = as_number(config.get(key))
    fields.put("rollout.share_of_free", backend == "sglang", origin)
    if share is not None and 0 < share <= 1:
        fields.put("rollout.share", float(share), config.origin(key))
    else:
        fields.unknown("rollout.share", config.unknown_origin(key).detail)
