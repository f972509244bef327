"""How many sequences, or tokens, one forward of verl takes: in the update, for log-probabilities, in the critic.

Without dynamic batches a micro-batch has `..._micro_batch_size_per_gpu` sequences (older: a total over all GPUs). With
them it has sequences of at most `..._max_token_len_per_gpu` tokens together, times the Ulysses degree (verl 0.9.1
workers/engine/utils.py, prepare_micro_batches). Padding is removed from either (model.use_remove_padding). No forward
takes more than a GPU's part of its batch: a mini-batch in updates (engine_workers.py:270), the whole batch before.
"""

from __future__ import annotations

from typing import Any

from memlint._record import NamedTuple
from memlint.formats.fields import Fields
from memlint.formats.verl.config import VerlConfig
from memlint.formats.verl.model import DTYPES, PLACEHOLDER
from memlint.formats.verl.releases import ulysses_key
from memlint.run import UNKNOWN, Maybe, Model, Origin, ValueModel

_MICRO, _PROMPTS = "batch.micro_batch_size", "data.train_batch_size"
ACTOR, ROLLOUT, REFERENCE = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "actor_rollout_ref.ref"


class Rows(NamedTuple):
    """Rows of one forward, and tokens of each: 0 means whole sequences. `origin`: what says so, or why nobody knows."""

    rows: Maybe[int]
    tokens: Maybe[int]
    origin: Origin


def ranks(fields: Fields, config: VerlConfig) -> int | None:
    """Data-parallel ranks: GPUs over the Ulysses degree."""
    world = fields.get("parallelism.world_size")
    if not isinstance(world, int):
        return None
    return max(1, world // (config.integer(ulysses_key(config)) or 1))


# Engines of verl's releases (0.9.1 workers/rollout/base.py:89-93; 0.1 to 0.6: hf, naive and the asynchronous names).
_ENGINES = frozenset(("vllm", "sglang", "trtllm", "hf", "naive", "vllm_async", "sglang_async", "vllm_spmd"))


def _own_rollout(config: VerlConfig) -> str:
    """The name of a rollout that no release of verl has: a fork's own code, which may go on for several turns and
    write more than `data.max_response_length` (MMSearch-R1's vllm_multiturn_mmsearch)."""
    key = f"{ROLLOUT}.name"
    name = config.word(key) if key in config.keys else ""  # EasyR1 reads its lengths this way too, and has no such key
    return name if name and name not in _ENGINES else ""


def read_lengths(fields: Fields, config: VerlConfig) -> None:
    """A sequence is a prompt and a response."""
    own = _own_rollout(config)
    if own:
        fields.unknown("sequence.length", f"`{own}` is no rollout of verl: how long its answers grow is not known")
        return
    keys = tuple(f"data.max_{part}_length" for part in ("prompt", "response"))
    prompt, response = map(config.integer, keys)
    emptied = next((key for key in keys if config.is_emptied(key)), "")
    if emptied:
        fields.unknown("sequence.length", f"`{emptied}` is null")
        return
    unknown = config.is_unknown(*keys)
    if unknown or prompt is None or response is None:
        key = unknown or "data.max_prompt_length"
        fields.unknown("sequence.length", config.origin(key).detail or f"`{key}` is not known")
        return
    fields.put("sequence.max_prompt_length", prompt, config.origin("data.max_prompt_length"))
    fields.put("sequence.max_new_tokens", response, config.origin("data.max_response_length"))
    fields.infer("sequence.length", prompt + response, "max_prompt_length + max_response_length")


def read_batch(fields: Fields, config: VerlConfig) -> None:
    """The update's micro-batch, and how many of them make a mini-batch."""
    found = _rows(fields, config, ACTOR, "ppo_micro_batch_size", "use_dynamic_bsz", "ppo_max_token_len_per_gpu")
    found = _of_batch(found, fields, config, f"{ACTOR}.ppo_mini_batch_size")
    length = fields.get("sequence.length")
    if found.rows is UNKNOWN or not isinstance(found.tokens, int):
        fields.unknown("batch.micro_batch_size", found.origin.detail)
    elif found.tokens and isinstance(length, int):
        fields.put("batch.max_tokens", found.tokens, found.origin)
        fields.put("batch.micro_batch_size", max(1, found.tokens // length), found.origin)
    else:
        fields.put("batch.micro_batch_size", found.rows, found.origin)
    _accumulation(fields, config)


def _accumulation(fields: Fields, config: VerlConfig) -> None:
    """Micro-batches of a mini-batch, whose size counts prompts, each with `rollout.n` responses."""
    sequences, micro = _sequences_a_rank(fields, config, f"{ACTOR}.ppo_mini_batch_size"), fields.get(_MICRO)
    if sequences and isinstance(micro, int):
        fields.put(
            "batch.gradient_accumulation_steps",
            max(1, -(-sequences // micro)),
            config.origin(f"{ACTOR}.ppo_mini_batch_size")._replace(detail="ppo_mini_batch_size over the micro-batches"),
        )
    else:
        fields.unknown("batch.gradient_accumulation_steps", "it follows from the mini-batch and the number of GPUs")


def _sequences_a_rank(fields: Fields, config: VerlConfig, prompts_key: str) -> int | None:
    """Sequences of a batch on one rank; None where one of the sizes is not known."""
    prompts, each, world = config.integer(prompts_key), config.integer(f"{ROLLOUT}.n"), ranks(fields, config)
    return max(1, prompts * each // world) if prompts and each and world else None


def _of_batch(found: Rows, fields: Fields, config: VerlConfig, prompts_key: str) -> Rows:
    """The rows, or tokens, that a rank's part of the batch can fill."""
    sequences, length = _sequences_a_rank(fields, config, prompts_key), fields.get("sequence.length")
    if sequences is None or not (isinstance(found.rows, int) and isinstance(found.tokens, int)):
        return found
    if not found.tokens:
        return found._replace(rows=min(found.rows, sequences))
    return found._replace(tokens=min(found.tokens, sequences * length)) if isinstance(length, int) else found


def read_log_probabilities(fields: Fields, config: VerlConfig) -> None:
    """The policy's forward before the update."""
    found = _of_batch(_log_prob_rows(fields, config, ROLLOUT), fields, config, _PROMPTS)
    _put(fields, "rollout.log_prob_micro_batch_size", "rollout.log_prob_length", found)


def read_reference(fields: Fields, config: VerlConfig) -> None:
    """The reference's forward, where there is one: `use_kl_loss` or `use_kl_in_reward` (trainer/ppo/utils.py,
    need_reference_policy). With an adapter it is the base, with the adapter switched off."""
    if not (config.flag(f"{ACTOR}.use_kl_loss") or config.flag("algorithm.use_kl_in_reward")):
        fields.put("method.reference_model", "none", config.origin(f"{ACTOR}.use_kl_loss"))
        return
    kind = "shared" if fields.get("method.kind") == "lora" else "copy"
    fields.put("method.reference_model", kind, config.origin(f"{ACTOR}.use_kl_loss"))
    found = _of_batch(_log_prob_rows(fields, config, REFERENCE), fields, config, _PROMPTS)
    _put(fields, "rollout.reference_micro_batch_size", "rollout.reference_length", found)


def _put(fields: Fields, rows: str, tokens: str, found: Rows) -> None:
    if found.rows is UNKNOWN or found.tokens is UNKNOWN:
        fields.unknown(rows, found.origin.detail)
        return
    fields.put(rows, found.rows, found.origin)
    fields.put(tokens, found.tokens, found.origin)


def _log_prob_rows(fields: Fields, config: VerlConfig, role: str) -> Rows:
    """The micro-batch for log-probabilities. Its bounds are the actor's where the file has none (rollout.yaml,
    ref.yaml: `oc.select:...actor...`)."""
    key = f"{role}.log_prob_use_dynamic_bsz"
    dynamic = config.flag(key) if config.written(key) else config.flag(f"{ACTOR}.use_dynamic_bsz")
    if not dynamic:
        return _sequences(fields, config, role, "log_prob_micro_batch_size")
    own = f"{role}.log_prob_max_token_len_per_gpu"
    return _tokens(fields, config, own if config.written(own) else f"{ACTOR}.ppo_max_token_len_per_gpu")


def _rows(fields: Fields, config: VerlConfig, role: str, size: str, dynamic: str, tokens: str) -> Rows:
    if config.flag(f"{role}.{dynamic}"):
        return _tokens(fields, config, f"{role}.{tokens}")
    return _sequences(fields, config, role, size)


def _tokens(fields: Fields, config: VerlConfig, key: str) -> Rows:
    """The tokens of a micro-batch, which is one row of packed sequences. It has no more than a GPU's part of the
    mini-batch."""
    bound = config.integer(key)
    if bound is None:
        return Rows(UNKNOWN, UNKNOWN, Origin("unknown", detail=_why(config, key)))
    degree = config.integer(ulysses_key(config)) or 1
    return Rows(1, bound * degree, config.origin(key))


def _sequences(fields: Fields, config: VerlConfig, role: str, size: str) -> Rows:
    each, total = f"{role}.{size}_per_gpu", f"{role}.{size}"
    if config.integer(each) is not None:
        return Rows(config.integer(each) or 1, 0, config.origin(each))
    if config.integer(total) is not None:
        world = ranks(fields, config)
        if world is None:
            detail = f"`{size}` is that of all GPUs: say how many (--gpus)"
            return Rows(UNKNOWN, UNKNOWN, Origin("unknown", detail=detail))
        return Rows(max(1, (config.integer(total) or 1) // world), 0, config.origin(total))
    return Rows(UNKNOWN, UNKNOWN, Origin("unknown", detail=_why(config, each)))


def _why(config: VerlConfig, key: str) -> str:
    origin = config.origin(key)
    return origin.detail if origin.kind == "unknown" else f"`{key}` is not set"


def uses_critic(config: VerlConfig) -> bool:
    """Whether a critic trains: as the file says, else with `gae` (trainer/ppo/utils.py, need_critic)."""
    asked = config.raw("critic.enable")
    return config.flag("critic.enable") if asked is not None else config.word("algorithm.adv_estimator") == "gae"


def read_critic(fields: Fields, config: VerlConfig) -> None:
    """PPO's critic, where it trains."""
    if not uses_critic(config):
        return
    name = config.get("critic.model.path")
    dtype = DTYPES.get(config.word("critic.fsdp.model_dtype"), UNKNOWN)
    model = critic_model(config, name if name and name != PLACEHOLDER else UNKNOWN, dtype)
    size = "critic.ppo_mini_batch_size"
    size = size if config.integer(size) else f"{ACTOR}.ppo_mini_batch_size"
    rows = _of_batch(_critic_rows(fields, config), fields, config, size)
    value = ValueModel(
        model,
        rows.rows,
        rows.tokens,
        config.flag("critic.model.enable_gradient_checkpointing"),
        config.flag("critic.fsdp.param_offload"),
        config.flag("critic.fsdp.optimizer_offload"),
        unpadded=config.flag("critic.model.use_remove_padding"),
    )
    fields.put("method.value_model", value, config.origin("algorithm.adv_estimator"))
    fields.put("method.value_model.micro_batch_size", rows.rows, rows.origin)


def critic_model(config: VerlConfig, name: Any, dtype: Maybe[str]) -> Model:
    """The model that a critic starts from; UNKNOWN where `name` is no name, or of a model that nobody knows."""
    found = config.context.find_model(name, config.own.document.path) if isinstance(name, str) else None
    architecture = found.architecture if found is not None and found.architecture is not None else UNKNOWN
    return Model(name=name if isinstance(name, str) else UNKNOWN, architecture=architecture, weights_dtype=dtype)


def _critic_rows(fields: Fields, config: VerlConfig) -> Rows:
    key = "critic.use_dynamic_bsz"
    if config.flag(key) if config.written(key) else config.flag(f"{ACTOR}.use_dynamic_bsz"):
        return _tokens(fields, config, "critic.ppo_max_token_len_per_gpu")
    return _sequences(fields, config, "critic", "ppo_micro_batch_size")
