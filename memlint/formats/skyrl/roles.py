"""What stands beside SkyRL's policy: a reference, a critic, and the engines that write completions.

With `colocate_all` all of them share the policy's GPUs in turn: each waits in host memory while another computes (0.3.0
skyrl/backends/skyrl_train/workers/worker_dispatch.py). Each is a process of its own.
"""

from __future__ import annotations

from memlint.formats.fields import Fields, as_number
from memlint.formats.skyrl.config import ENGINE, SkyRLConfig
from memlint.formats.skyrl.reading import FSDP, PLACES, POLICY, RANK, UNPADDED, UPDATE
from memlint.formats.verl.batches import critic_model
from memlint.run import UNKNOWN, ValueModel

TOGETHER, WITH_REFERENCE = f"{PLACES}.colocate_all", f"{PLACES}.colocate_policy_ref"
SHARE, LOCAL, BACKEND = f"{ENGINE}.gpu_memory_utilization", f"{ENGINE}.run_engines_locally", f"{ENGINE}.backend"
BUCKET = f"{ENGINE}.weight_transfer_threshold_cuda_ipc_GB"
WAITS, HOST = f"{POLICY}.optimizer_config.offload_after_step", f"{FSDP}.cpu_offload"
COMPARED = ("trainer.algorithm.use_kl_loss", "trainer.algorithm.use_kl_in_reward")
CRITIC = "trainer.critic"
CRITIC_MODEL = f"{CRITIC}.model.path"


def read_placement(fields: Fields, config: SkyRLConfig) -> None:
    """What waits in host memory, unless FSDP itself keeps it there."""
    moves = (config.flag(TOGETHER) or (_compares(config) and config.flag(WITH_REFERENCE))) and not config.flag(HOST)
    origin = config.origin(TOGETHER)
    fields.put("rollout.offloads_weights", moves, origin)
    waits = moves and config.flag(WAITS)
    fields.put("rollout.offloads_optimizer", waits, config.origin(WAITS) if moves else origin)
    beside = (_compares(config) and _has_reference_here(config)) + (
        config.written(CRITIC_MODEL) is not None and config.flag(TOGETHER)
    )
    fields.put("rollout.model_processes", beside, origin)


def _compares(config: SkyRLConfig) -> bool:
    return any(config.flag(key) for key in COMPARED)


def _has_reference_here(config: SkyRLConfig) -> bool:
    return config.flag(TOGETHER) or config.flag(WITH_REFERENCE)


def read_reference(fields: Fields, config: SkyRLConfig) -> None:
    """A copy in half precision, with an adapter too; on the card during its own forward alone, when the policy is in
    host memory."""
    kind = "copy" if _compares(config) and _has_reference_here(config) else "none"
    fields.put("method.reference_model", kind, config.origin(COMPARED[0]))
    fields.put("rollout.offloads_reference", kind == "copy", config.origin(TOGETHER))


def read_generator(fields: Fields, config: SkyRLConfig) -> None:
    """Engines on the policy's GPUs, or on others. They release weights and cache while the policy trains; with an
    adapter, whose base nobody sends again, the weights go to host memory."""
    here = config.flag(TOGETHER) and config.flag(LOCAL)
    fields.put("rollout.generator", "vllm_colocate" if here else "vllm", config.origin(TOGETHER))
    if not here:
        return
    fields.put("rollout.sleep_level", 1 if config.integer(RANK) else 2, config.origin(RANK))
    share = as_number(config.get(SHARE))
    if share is not None and 0 < share <= 1:
        fields.put("rollout.share", float(share), config.origin(SHARE))
    else:
        fields.unknown("rollout.share", config.origin(SHARE).detail or "the engine's share of the card is not known")
    fields.put("rollout.share_of_free", config.word(BACKEND) == "sglang", config.origin(BACKEND))
    bucket = as_number(config.get(BUCKET))
    sent = 0 if config.integer(RANK) or bucket is None else int(bucket * (1 << 30))
    fields.put("rollout.sync_bucket_bytes", sent, config.origin(BUCKET))


def read_engine_ranks(fields: Fields, config: SkyRLConfig) -> None:
    """4 until 0.3, and 1 in 0.4 (skyrl_train/config/ppo_base_config.yaml)."""
    key = f"{ENGINE}.tensor_parallel_size"
    found = config.integer(key)
    if found is None or config.is_open(key):
        said = config.origin(key).detail if config.origin(key).kind == "unknown" else ""
        fields.unknown("rollout.tensor_parallel_size", said or f"`{key}` is not said, and releases differ")
    else:
        fields.put("rollout.tensor_parallel_size", found, config.origin(key))


def read_critic(fields: Fields, config: SkyRLConfig) -> None:
    """A critic trains where one is named: PPO. Its micro-batches have the policy's size."""
    named = config.get(CRITIC_MODEL)
    fields.put("method.stage", "grpo" if named is None else "ppo", config.origin(CRITIC_MODEL))
    if named is None:
        return
    rows = config.integer(UPDATE)
    here = config.flag(TOGETHER)
    value = ValueModel(
        critic_model(config, named, "float32"),
        UNKNOWN if rows is None else rows,
        0,
        config.flag("trainer.gradient_checkpointing"),
        here and not config.flag(f"{CRITIC}.fsdp_config.cpu_offload"),
        here and config.flag(f"{CRITIC}.optimizer_config.offload_after_step"),
        bool(config.integer(f"{CRITIC}.model.lora.rank")),
        gpus=0 if here else _gpus_of_critic(config),
        unpadded=config.flag(UNPADDED),
    )
    fields.put("method.value_model", value, config.origin(CRITIC_MODEL))
    if rows is not None:
        fields.put("method.value_model.micro_batch_size", rows, config.origin(UPDATE))


def _gpus_of_critic(config: SkyRLConfig) -> int:
    each, nodes = (config.integer(f"{PLACES}.critic_num_{name}") or 1 for name in ("gpus_per_node", "nodes"))
    return each * nodes
