"""Memory of a run that only generates: weights, KV cache, prefill and decode. All in bytes."""

from __future__ import annotations

from memlint.memory.evaluation import cache_bytes, forward_without_gradients
from memlint.memory.phases import COMPONENTS, phase
from memlint.memory.step import training_step
from memlint.memory.storage import BYTES
from memlint.memory.values import ModelState, Phase, Unit
from memlint.run import Run


def phases(run: Run, units: tuple[Unit, ...], state: ModelState) -> tuple[Phase, ...]:
    """The phases load, prefill and decode.

    Generation asks for the last token's logits only (transformers 5.23 generation/utils.py).
    """
    batch = run.evaluation.batch_size or run.batch.micro_batch_size or 1
    run = run._replace(batch=run.batch._replace(micro_batch_size=batch), method=run.method._replace(stage="sft"))
    step = training_step(run, units)
    last = step._replace(counts={**step.counts, "logits": step.tokens.sequences * step.vocabulary})
    forward, logits = forward_without_gradients(last, units, state)
    new = run.sequence.max_new_tokens or run.evaluation.max_new_tokens
    beams = max(1, run.evaluation.num_beams)
    width = BYTES[str(run.precision.compute)]
    cache = beams * cache_bytes(step.architecture, step.tokens.sequences, step.tokens.length + new, width)
    token_share = max(1, step.tokens.length)
    return (
        phase("load", _parts(state)),
        phase("prefill", _parts(state, cache + forward - logits, logits)),
        phase("decode", _parts(state, cache + beams * (forward - logits) // token_share, beams * logits)),
    )


def _parts(state: ModelState, activations: int = 0, logits: int = 0) -> dict[str, int]:
    parts = dict.fromkeys(COMPONENTS, 0)
    parts["weights"] = state.weights
    parts["activations"] = activations
    parts["logits"] = logits
    return parts
