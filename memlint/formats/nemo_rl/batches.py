"""How many sequences, or tokens, one forward of NeMo-RL takes: in the update and for log-probabilities.

A micro-batch has `train_micro_batch_size` sequences. With dynamic batching or packing it has as many tokens as
`train_mb_tokens` says, which is a product of the two unless somebody writes a number. A packed one is padded to them
(nemo_rl/models/automodel/data.py, `min_seq_len`), so that every micro-batch is full.
"""

from __future__ import annotations

from memlint.formats.fields import Fields
from memlint.formats.nemo_rl.config import NemoConfig

LENGTH, MICRO, SCORED = (
    *("policy.max_total_sequence_length", "policy.train_micro_batch_size", "policy.logprob_batch_size"),
)
GLOBAL = "policy.train_global_batch_size"
PACKING, DYNAMIC = "policy.sequence_packing", "policy.dynamic_batching"


def tokens_section(config: NemoConfig) -> str:
    """The section whose numbers of tokens bound a micro-batch; "" where sequences are counted."""
    return next((section for section in (PACKING, DYNAMIC) if config.flag(f"{section}.enabled")), "")


def _tokens(config: NemoConfig, name: str, rows: str) -> int | None:
    """The tokens of a micro-batch where they are not simply those of its sequences."""
    section = tokens_section(config)
    tokens = config.integer(f"{section}.{name}") if section else None
    length, sequences = config.integer(LENGTH), config.integer(rows)
    return None if tokens is None or (length and sequences and tokens == length * sequences) else tokens


def read_length(fields: Fields, config: NemoConfig) -> None:
    length = config.integer(LENGTH)
    if length is None:
        fields.unknown("sequence.length", config.origin(LENGTH).detail or f"`{LENGTH}` is not set")
        return
    fields.put("sequence.length", length, config.origin(LENGTH))
    if config.flag(f"{PACKING}.enabled"):
        fields.put("sequence.length_is_bound", False, config.origin(f"{PACKING}.enabled"))


def read_batch(fields: Fields, config: NemoConfig) -> None:
    """The update's micro-batch, and how many of them make the global batch."""
    rows, tokens, length = config.integer(MICRO), _tokens(config, "train_mb_tokens", MICRO), config.integer(LENGTH)
    if tokens is not None and length is not None:
        origin = config.origin(f"{tokens_section(config)}.train_mb_tokens")
        fields.put("batch.max_tokens", tokens, origin)
        rows = max(1, tokens // length)
        fields.put("batch.micro_batch_size", rows, origin)
    elif rows is None:
        fields.unknown("batch.micro_batch_size", config.origin(MICRO).detail or f"`{MICRO}` is not set")
    else:
        fields.put("batch.micro_batch_size", rows, config.origin(MICRO))
    ranks, total = fields.get("parallelism.data_parallel_size"), config.integer(GLOBAL)
    if rows is not None and total is not None and isinstance(ranks, int):
        fields.put("batch.gradient_accumulation_steps", max(1, -(-total // (ranks * rows))), config.origin(GLOBAL))
    else:
        reason = "it follows from the global batch and the number of GPUs"
        fields.unknown("batch.gradient_accumulation_steps", reason)


def read_log_probabilities(fields: Fields, config: NemoConfig) -> None:
    """The policy's forward before the update. That of the reference takes the same weights' place with others from
    host memory (nemo_rl/models/policy/workers/dtensor_policy_worker.py, use_reference_model)."""
    tokens, rows = _tokens(config, "logprob_mb_tokens", SCORED), config.integer(SCORED)
    name, length = "rollout.log_prob_micro_batch_size", "rollout.log_prob_length"
    if tokens is not None:
        origin = config.origin(f"{tokens_section(config)}.logprob_mb_tokens")
        fields.put(name, 1, origin)
        fields.put(length, tokens, origin)
    elif rows is None:
        fields.unknown(name, config.origin(SCORED).detail or f"`{SCORED}` is not set")
    else:
        fields.put(name, rows, config.origin(SCORED))
