"""Keys of EasyR1 whose meaning depends on others (0.3.3 verl/workers/fsdp_workers.py, verl/workers/actor/dp_actor.py).

A micro-batch has `micro_batch_size_per_device_for_update` sequences. With `dynamic_batching` it has as many tokens as
so many sequences of full length, which is the same at most.
"""

from __future__ import annotations

from memlint.formats.entailed import put_entailed
from memlint.formats.fields import Fields, as_number, as_words
from memlint.formats.target_patterns import put_targets
from memlint.formats.verl.batches import critic_model
from memlint.formats.verl.config import VerlConfig
from memlint.formats.verl.model import DTYPES
from memlint.formats.verl.parallel import put_groups_of, put_ulysses
from memlint.formats.vision_towers import apply_towers, excludes_tower
from memlint.run import UNKNOWN, Entailed, Maybe, Origin, ValueModel

ACTOR, CRITIC, REFERENCE, ROLLOUT = (f"worker.{role}" for role in ("actor", "critic", "ref", "rollout"))
UPDATE = "micro_batch_size_per_device_for_update"
EXPERIENCE = "micro_batch_size_per_device_for_experience"
RANK = f"{ACTOR}.model.lora.rank"
_EXCLUDED = f"{ACTOR}.model.lora.exclude_modules"


def read_dtype(fields: Fields, config: VerlConfig) -> None:
    """Parameters, gradients and states are fp32 unless `torch_dtype` says otherwise; what an adapter leaves frozen is
    bf16."""
    key = f"{ACTOR}.fsdp.torch_dtype"
    value = config.get(key)
    dtype = DTYPES.get(str(value).lower(), UNKNOWN) if value is not None else "float32"
    if dtype is UNKNOWN:
        detail = config.origin(key).detail or f"`{key}` is no dtype that is known here"
        fields.unknown("model.weights_dtype", detail)
        fields.unknown("precision.trainable_dtype", detail)
        return
    fields.put("precision.trainable_dtype", dtype, config.origin(key))
    frozen = "bfloat16" if config.integer(RANK) else dtype
    fields.put("model.weights_dtype", frozen, config.origin(key))


def read_adapter(fields: Fields, config: VerlConfig) -> None:
    """A rank above 0 makes an adapter in `torch_dtype`."""
    if config.get(RANK) is UNKNOWN:
        fields.unknown("method.kind", config.origin(RANK).detail or f"`{RANK}` is a placeholder")
        return
    rank = config.integer(RANK)
    fields.put("method.kind", "lora" if rank else "full", config.origin(RANK))
    if rank:
        fields.put("method.rank", rank, config.origin(RANK))
        fields.infer("method.adapter_dtype", fields.get("precision.trainable_dtype"), _CAST)
    else:
        put_entailed(fields, _adapters_of_plans, _CAST)


_CAST = "EasyR1 casts what trains"


def _adapters_of_plans(fields: Fields) -> tuple[Entailed, ...]:
    """An adapter that a plan trains instead, on a frozen base in bfloat16."""
    trained = fields.get("precision.trainable_dtype", "float32")
    changes = (("method.adapter_dtype", trained), ("model.weights_dtype", "bfloat16"))
    return (Entailed((("method.kind", "lora"),), changes),)


def read_targets(fields: Fields, config: VerlConfig) -> None:
    """Names with commas between them, or `all-linear`."""
    key = f"{ACTOR}.model.lora.target_modules"
    value = config.get(key)
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else as_words(value)
    put_targets(fields, list(names or ("all-linear",)), config.origin(key), config.architecture)


def read_towers(fields: Fields, config: VerlConfig) -> None:
    """A vision tower trains unless it is frozen, or an adapter's `exclude_modules` leaves it out."""
    key = f"{ACTOR}.model.freeze_vision_tower"
    excluded = bool(config.integer(RANK)) and excludes_tower(config.raw(_EXCLUDED))
    apply_towers(
        fields, config.architecture, excluded or config.flag(key), config.origin(_EXCLUDED if excluded else key)
    )


def read_sharding(fields: Fields, config: VerlConfig) -> None:
    """`fsdp_size` below the number of GPUs makes groups of that many, which hold copies."""
    key = f"{ACTOR}.fsdp.enable_full_shard"
    put_groups_of(fields, config, f"{ACTOR}.fsdp.fsdp_size", key, config.flag(key))


def read_ulysses(fields: Fields, config: VerlConfig) -> None:
    put_ulysses(fields, config, f"{ACTOR}.ulysses_size")


def read_batch(fields: Fields, config: VerlConfig) -> None:
    """The update's micro-batch, and how many of them make `global_batch_size` prompts with their responses."""
    key = f"{ACTOR}.{UPDATE}"
    held = _sequences_a_rank(fields, config, f"{ACTOR}.global_batch_size")
    _put_rows(fields, config, "batch.micro_batch_size", key, held)
    micro = fields.get("batch.micro_batch_size")
    if held and isinstance(micro, int):
        origin = config.origin(f"{ACTOR}.global_batch_size")
        fields.put("batch.gradient_accumulation_steps", max(1, -(-held // micro)), origin)
    else:
        reason = "it follows from the global batch and the number of GPUs"
        fields.unknown("batch.gradient_accumulation_steps", reason)


def read_experience(fields: Fields, config: VerlConfig) -> None:
    """The forward for log-probabilities, of the policy and, unless `disable_kl`, of a reference: a copy, or the policy
    without its adapter."""
    key = f"{ACTOR}.{EXPERIENCE}"
    held = _sequences_a_rank(fields, config, "data.rollout_batch_size")
    _put_rows(fields, config, "rollout.log_prob_micro_batch_size", key, held)
    if config.flag("algorithm.disable_kl"):
        fields.put("method.reference_model", "none", config.origin("algorithm.disable_kl"))
        return
    kind = "shared" if fields.get("method.kind") == "lora" else "copy"
    fields.put("method.reference_model", kind, config.origin("algorithm.disable_kl"))
    _put_rows(fields, config, "rollout.reference_micro_batch_size", key, held)
    switches = (f"{REFERENCE}.fsdp.enable_cpu_offload", f"{REFERENCE}.offload.offload_params")
    on = next((name for name in switches if config.flag(name)), switches[0])
    fields.put("rollout.offloads_reference", config.flag(on), config.origin(on))


def _put_rows(fields: Fields, config: VerlConfig, field: str, key: str, held: int | None) -> None:
    rows = config.integer(key)
    if rows is None:
        fields.unknown(field, config.origin(key).detail or f"`{key}` is not known")
    else:
        fields.put(field, min(rows, held) if held else rows, config.origin(key))


def _sequences_a_rank(fields: Fields, config: VerlConfig, prompts_key: str) -> int | None:
    """Sequences of a batch on one rank: prompts with their responses; None where one of the sizes is not known."""
    prompts, each = config.integer(prompts_key), config.integer(f"{ROLLOUT}.n")
    ranks = fields.get("parallelism.data_parallel_size")
    return max(1, prompts * each // ranks) if prompts and each and isinstance(ranks, int) else None


def read_share(fields: Fields, config: VerlConfig) -> None:
    key = f"{ROLLOUT}.gpu_memory_utilization"
    share = as_number(config.get(key))
    if share is not None and 0 < share <= 1:
        fields.put("rollout.share", float(share), config.origin(key))
    else:
        fields.unknown("rollout.share", config.origin(key).detail or "the engine's share of the card is not known")


def read_stage(fields: Fields, config: VerlConfig) -> None:
    """`gae` is PPO with a critic; the others compare the responses to one prompt."""
    key = "algorithm.adv_estimator"
    is_ppo = config.word(key) == "gae"
    fields.put("method.stage", "ppo" if is_ppo else "grpo", config.origin(key))
    if is_ppo:
        _read_critic(fields, config)


def _read_critic(fields: Fields, config: VerlConfig) -> None:
    """A token classifier of its own beside the policy (fsdp_workers.py, role "critic")."""
    given = config.get(f"{CRITIC}.fsdp.torch_dtype")
    dtype: Maybe[str] = "float32" if given is None else DTYPES.get(str(given).lower(), UNKNOWN)
    key = f"{CRITIC}.{UPDATE}"
    rows = config.integer(key)
    value = ValueModel(
        critic_model(config, config.get(f"{CRITIC}.model.model_path"), dtype),
        UNKNOWN if rows is None else rows,
        0,
        config.flag(f"{CRITIC}.model.enable_gradient_checkpointing"),
        config.flag(f"{CRITIC}.offload.offload_params"),
        config.flag(f"{CRITIC}.offload.offload_optimizer"),
    )
    origin = config.origin(key)
    fields.put("method.value_model", value, config.origin("algorithm.adv_estimator"))
    if rows is None:
        fields.put("method.value_model.micro_batch_size", UNKNOWN, Origin("unknown", detail=f"`{key}` is not set"))
    else:
        fields.put("method.value_model.micro_batch_size", rows, origin)
