"""GPUs, batch and lengths of a command of slime (0.3.1 slime/utils/arguments.py, slime_validate_args, and
slime/utils/dp_schedule.py; 0.1.0 to 0.2.4 slime/backends/megatron_utils/data.py)."""

from __future__ import annotations

from memlint.formats.fields import Fields
from memlint.formats.slime.config import SlimeConfig

GPUS, NODES = "actor_num_gpus_per_node", "actor_num_nodes"
ANSWER, PROMPT, CONTEXT = (f"rollout_max_{name}_len" for name in ("response", "prompt", "context"))
DYNAMIC, TOKENS, FORWARD = "use_dynamic_batch_size", "max_tokens_per_gpu", "log_probs_max_tokens_per_gpu"
MICRO, BATCH, STEPS = "micro_batch_size", "global_batch_size", "num_steps_per_rollout"
PROMPTS, SAMPLES = "rollout_batch_size", "n_samples_per_prompt"
_SHARES = "context_parallel_size"


def read_world(fields: Fields, config: SlimeConfig) -> None:
    """The policy's GPUs, unless the command line says otherwise."""
    if isinstance(fields.get("parallelism.world_size"), int):
        return
    each, nodes = config.whole(GPUS), config.whole(NODES)
    if each is None or nodes is None:
        fields.unknown("parallelism.world_size", config.why(GPUS if each is None else NODES))
        return
    fields.put("parallelism.world_size", each * nodes, config.origin(GPUS))
    fields.put("parallelism.gpus_per_node", each, config.origin(GPUS))


def read_lengths(fields: Fields, config: SlimeConfig) -> None:
    """A prompt and an answer, together no longer than the context. Without a bound on prompts they may be of any
    length."""
    prompt, answer, context = (config.whole(name) for name in (PROMPT, ANSWER, CONTEXT))
    if answer is not None:
        fields.put("sequence.max_new_tokens", answer, config.origin(ANSWER))
    if prompt is not None:
        fields.put("sequence.max_prompt_length", prompt, config.origin(PROMPT))
    given = next((name for name in (CONTEXT, PROMPT, ANSWER) if not config.is_known(name) and config.written(name)), "")
    whole = prompt + answer if prompt is not None and answer is not None else None
    if given:
        fields.unknown("sequence.length", config.why(given))
    elif context is not None:
        fields.put("sequence.length", min(context, whole) if whole else context, config.origin(CONTEXT))
    elif whole is not None:
        fields.infer("sequence.length", whole, f"{PROMPT} + {ANSWER}")
    else:
        missing = ANSWER if answer is None else PROMPT
        fields.unknown("sequence.length", f"sequences have no greatest length (`{missing}`, `{CONTEXT}`)")


def read_batch(fields: Fields, config: SlimeConfig) -> None:
    """Micro-batches of as many sequences, or filled with sequences up to a number of tokens; one that is longer stands
    alone."""
    tokens = _tokens(fields, config)
    if config.flag(DYNAMIC):
        if tokens is None:
            fields.unknown("batch.max_tokens", config.why(TOKENS))
        else:
            fields.put("batch.max_tokens", tokens, config.origin(TOKENS))
            length = fields.get("sequence.length")
            rows = max(1, tokens // length) if isinstance(length, int) and length else 1
            fields.put("batch.micro_batch_size", rows, config.origin(TOKENS))
    elif config.whole(MICRO) is None:
        fields.unknown("batch.micro_batch_size", config.why(MICRO))
    else:
        fields.put("batch.micro_batch_size", config.whole(MICRO), config.origin(MICRO))
    _read_accumulation(fields, config)


def _tokens(fields: Fields, config: SlimeConfig) -> int | None:
    """Tokens of a filled micro-batch, which ranks of context parallelism share, but no more than a rank has."""
    each, shares = config.whole(TOKENS), 1 if config.is_fsdp else config.whole(_SHARES)
    if each is None or shares is None:
        return None
    length, held = fields.get("sequence.length"), sequences_a_rank(fields, config)
    if not isinstance(length, int):
        return each * shares
    most = max(each * shares, length)
    return min(most, held * length) if held else most


def _read_accumulation(fields: Fields, config: SlimeConfig) -> None:
    held, micro = sequences_a_rank(fields, config), fields.get("batch.micro_batch_size")
    if held is None or not isinstance(micro, int):
        reason = "it follows from the global batch and the number of GPUs"
        fields.unknown("batch.gradient_accumulation_steps", reason)
    else:
        fields.put("batch.gradient_accumulation_steps", max(1, -(-held // micro)), config.origin(BATCH))


def sequences_of_update(config: SlimeConfig) -> int | None:
    """`global_batch_size`, or a rollout's sequences over its updates; None where that is not known."""
    given, steps = config.whole(BATCH), config.whole(STEPS)
    if given is not None or not config.is_known(STEPS):
        return given
    whole = sequences_of_rollout(config)
    return whole // steps if whole and steps else None


def sequences_of_rollout(config: SlimeConfig) -> int | None:
    prompts, each = config.whole(PROMPTS), config.whole(SAMPLES)
    return prompts * each if prompts and each else None


def sequences_a_rank(fields: Fields, config: SlimeConfig) -> int | None:
    """Sequences of an update on one data-parallel rank; None where one of the sizes is not known."""
    whole, ranks = sequences_of_update(config), fields.get("parallelism.data_parallel_size")
    return max(1, whole // ranks) if whole and isinstance(ranks, int) else None
