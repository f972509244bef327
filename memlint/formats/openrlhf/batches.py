"""How many sequences, and how many tokens, one forward of OpenRLHF takes."""

from __future__ import annotations

from memlint.formats.fields import Fields
from memlint.formats.openrlhf.config import OpenRLHFConfig
from memlint.run import UNKNOWN


def is_dynamic(config: OpenRLHFConfig) -> bool:
    """Whether a bound on tokens makes the micro-batches (trainer/ppo_utils/replay_buffer.py, setup_dynamic_batch)."""
    return config.trains_with_rewards and config.flag("train.dynamic_batch_enable")


def read_length(fields: Fields, config: OpenRLHFConfig) -> None:
    """`--data.max_len` bounds prompt and response together. Before 0.9.6 PPO had a bound for each, 1024 by default."""
    key = "data.max_len"
    whole, prompt, response = (config.whole(one) for one in (key, "prompt_max_len", "rollout.max_new_tokens"))
    parts = [config.written(one) for one in ("prompt_max_len", "rollout.max_new_tokens")]
    if config.get(key) is UNKNOWN:
        fields.unknown("sequence.length", config.origin(key).detail)
    elif config.trains_with_rewards and config.written(key) is None and any(parts) and not config.has_sections:
        _from_parts(fields, config, prompt, response)
    elif whole:
        fields.put("sequence.length", whole, config.origin(key))
        if config.trains_with_rewards:
            fields.put("sequence.max_prompt_length", whole, config.origin(key))
            fields.put("sequence.max_new_tokens", min(response or whole, whole), config.origin(key))
    else:
        fields.unknown("sequence.length", f"`{key}` is not a whole number")


def _from_parts(fields: Fields, config: OpenRLHFConfig, prompt: int | None, response: int | None) -> None:
    unknown = [one for one in ("prompt_max_len", "rollout.max_new_tokens") if config.get(one) is UNKNOWN]
    if unknown:
        fields.unknown("sequence.length", config.origin(unknown[0]).detail)
        return
    prompt, response = prompt or 1024, response or 1024
    fields.put("sequence.max_prompt_length", prompt, config.origin("prompt_max_len"))
    fields.put("sequence.max_new_tokens", response, config.origin("rollout.max_new_tokens"))
    fields.infer("sequence.length", prompt + response, "prompt_max_len + generate_max_len")


def read_batch(fields: Fields, config: OpenRLHFConfig) -> None:
    """The update's micro-batch: sequences, or as many as have at most so many tokens together. A ring and tensor
    parallelism multiply that bound (utils/seqlen_balancing.py:237)."""
    if is_dynamic(config):
        _dynamic(fields, config)
    else:
        key = "train.micro_batch_size"
        _put_whole(fields, config, key, "batch.micro_batch_size")
    _accumulation(fields, config)


def _dynamic(fields: Fields, config: OpenRLHFConfig) -> None:
    key = "train.max_tokens_per_gpu"
    bound, length = config.whole(key), fields.get("sequence.length")
    if not bound or not isinstance(length, int):
        detail = config.origin(key).detail if not bound else fields.origins["sequence.length"].detail
        fields.unknown("batch.micro_batch_size", detail or f"`{key}` is not known")
        return
    tokens = max(bound * _ranks_of_a_sequence(config), length)
    fields.put("batch.max_tokens", tokens, config.origin(key))
    fields.put("batch.micro_batch_size", max(1, tokens // length), config.origin(key))


def _ranks_of_a_sequence(config: OpenRLHFConfig) -> int:
    return (config.whole("ds.ring_attn_size") or 1) * (config.whole("ds.tensor_parallel_size") or 1)


def _put_whole(fields: Fields, config: OpenRLHFConfig, key: str, field: str) -> None:
    value = config.whole(key)
    if value:
        fields.put(field, value, config.origin(key))
    else:
        fields.unknown(field, config.origin(key).detail or f"`{key}` is not a whole number")


def _accumulation(fields: Fields, config: OpenRLHFConfig) -> None:
    """`accumulated_gradient` (utils/deepspeed/deepspeed.py:110)."""
    total, micro = config.whole("train.batch_size"), fields.get("batch.micro_batch_size")
    copies = fields.get("parallelism.data_parallel_size")
    name = "batch.gradient_accumulation_steps"
    if total and isinstance(micro, int) and isinstance(copies, int):
        fields.put(name, max(1, total // micro // copies), config.origin("train.batch_size"))
    else:
        fields.unknown(name, "it follows from the batch size and the number of GPUs")


def read_experience(fields: Fields, config: OpenRLHFConfig) -> None:
    """Forwards before the update, of the policy and of the reference, in micro-batches of their own
    (trainer/ppo_utils/experience_maker.py, split_rollout_samples)."""
    roles = ("log_prob", "reference")
    if is_dynamic(config):
        key = "rollout.max_tokens_per_gpu"
        bound = config.whole(key) or config.whole("train.max_tokens_per_gpu")
        length = fields.get("sequence.length")
        for role in roles:
            if not bound or not isinstance(length, int):
                fields.unknown(f"rollout.{role}_micro_batch_size", f"`{key}` is not known")
                continue
            fields.put(f"rollout.{role}_micro_batch_size", 1, config.origin(key))
            tokens = max(bound * _ranks_of_a_sequence(config), length)
            fields.put(f"rollout.{role}_length", tokens, config.origin(key))
        return
    for role in roles:
        _put_whole(fields, config, "rollout.micro_batch_size", f"rollout.{role}_micro_batch_size")
