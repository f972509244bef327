"""How many tokens one forward of AReaL takes.

Sequences are packed first fit, decreasing, up to `max_tokens_per_mb`; one that is longer ends the run (1.0.4
areal/utils/seqpack.py, ffd_allocate). A micro-batch is padded to a multiple of 256 tokens, or with `pad_to_maximum` to
the bound (areal/utils/data.py, pad_mb_list). Without a bound a rank's part of an update is divided into `n_mbs`.
"""

from __future__ import annotations

from memlint.formats.areal.config import ArealConfig
from memlint.formats.fields import Fields

TOKENS, PARTS, UPDATES = "actor.mb_spec.max_tokens_per_mb", "actor.mb_spec.n_mbs", "actor.ppo_n_minibatches"
PROMPTS, PROMPT = "train_dataset.batch_size", "train_dataset.max_length"
ANSWER, SAMPLES, WHOLE = "gconfig.max_new_tokens", "gconfig.n_samples", "gconfig.max_tokens"
_PAGE = 256
_PADS = "actor.pad_to_maximum"


def padded(config: ArealConfig, tokens: int) -> int:
    return tokens if config.flag(_PADS) else -(-tokens // _PAGE) * _PAGE


def read_length(fields: Fields, config: ArealConfig) -> None:
    """A prompt and an answer of one turn, no longer than a micro-batch. What a workflow of several turns writes is not
    said; its sequences have to fit into a micro-batch as well."""
    rl = config.algorithm() == "rl"
    unknown = config.is_unknown(TOKENS, PROMPT, *((ANSWER,) if rl else ()))
    if unknown:
        fields.unknown("sequence.length", config.unknown_origin(unknown).detail)
        return
    bound, prompt = config.integer(TOKENS), config.integer(PROMPT)
    answer = config.integer(ANSWER) if rl else 0
    if rl and answer:
        fields.put("sequence.max_new_tokens", answer, config.origin(ANSWER))
    if prompt is not None:
        fields.put("sequence.max_prompt_length", prompt, config.origin(PROMPT))
    lengths = [one for one in (bound, config.integer(WHOLE) if rl else None) if one]
    if prompt is None and not bound:
        fields.unknown("sequence.length", f"neither `{PROMPT}` nor `{TOKENS}` is set")
    elif prompt is None and not rl:
        fields.put("sequence.length", bound, config.origin(TOKENS))
    else:
        words = "train_dataset.max_length + gconfig.max_new_tokens, within a micro-batch"
        fields.infer("sequence.length", min((prompt or 0) + (answer or 0), *lengths, 1 << 62), words)


def read_batch(fields: Fields, config: ArealConfig) -> None:
    bound, length = config.integer(TOKENS), fields.get("sequence.length")
    held = sequences_a_rank(fields, config)
    if config.is_unknown(TOKENS):
        fields.unknown("batch.max_tokens", config.unknown_origin(TOKENS).detail)
    rows: int | None
    if bound:
        fields.put("batch.max_tokens", padded(config, bound), config.origin(TOKENS))
        rows = max(1, bound // length) if isinstance(length, int) and length else 1
        fields.put("batch.micro_batch_size", rows, config.origin(TOKENS))
    else:
        parts = config.integer(PARTS) or 1
        rows = -(-held // parts) if held else None
        if rows is None:
            fields.unknown("batch.micro_batch_size", f"`{TOKENS}` is not set, nor what a rank's part of a batch is")
        else:
            fields.put("batch.micro_batch_size", rows, config.origin(PARTS))
    if held and rows:
        fields.put("batch.gradient_accumulation_steps", max(1, -(-held // rows)), config.origin(PROMPTS))
    else:
        fields.unknown("batch.gradient_accumulation_steps", "it follows from the batch and the number of GPUs")


def sequences_a_rank(fields: Fields, config: ArealConfig) -> int | None:
    """Sequences of one update on one rank; None where one of the sizes is not known."""
    prompts, ranks = config.integer(PROMPTS), fields.get("parallelism.data_parallel_size")
    if not prompts or not isinstance(ranks, int):
        return None
    if config.algorithm() != "rl":
        return max(1, prompts // ranks)
    each, updates = config.integer(SAMPLES) or 1, config.integer(UPDATES) or 1
    return max(1, prompts * each // ranks // updates)


def read_log_probabilities(fields: Fields, config: ArealConfig) -> None:
    """The forward for the actor's log-probabilities, in micro-batches as the update's (1.0.4 areal/api/cli_args.py,
    should_compute_prox_logp)."""
    asked = config.flag("actor.recompute_logprob")
    if config.flag("actor.use_decoupled_loss"):
        asked = config.word("actor.prox_logp_method") != "loglinear"
    origin = config.origin("actor.recompute_logprob")
    if config.algorithm() != "rl" or not asked:
        fields.put("rollout.log_prob_micro_batch_size", 0, origin)
        return
    put_forward(fields, config, "log_prob", TOKENS)


def put_forward(fields: Fields, config: ArealConfig, role: str, key: str) -> None:
    """A forward of packed sequences, or of as many as the update's where there is no bound."""
    tokens = config.integer(key)
    rows = 1 if tokens else fields.get("batch.micro_batch_size")
    if not isinstance(rows, int):
        fields.unknown(f"rollout.{role}_micro_batch_size", f"`{key}` is not set")
        return
    fields.put(f"rollout.{role}_micro_batch_size", rows, config.origin(key))
    fields.put(f"rollout.{role}_length", padded(config, tokens) if tokens else 0, config.origin(key))
