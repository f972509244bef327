"""Whether a run is over the card at its maximum length alone, which hardly any sample or batch has.

Few samples come near a long maximum. In a batch of several most are shorter than the maximum, too, and with a quarter
of the length, or 1,024 tokens where that is less, the run may fit. Then an estimate at the full length is a warning
about the longest batch, not a verdict on the run: rule MEM010 in place of MEM001. The limits are judgement, settled on
public configs that are known to run.
"""

from __future__ import annotations

from memlint.memory.segments.step import sequences_per_sample
from memlint.memory.unknown.readings import least_bytes
from memlint.memory.values import Estimate, Phase
from memlint.run import Run

_LONG = 8_192  # tokens of a maximum beyond which hardly any sample comes near it
_RARELY_FILLED = 4_096  # tokens of a maximum that few samples come near
_SEVERAL = 4  # sequences of a batch that are hardly all long at once
_PLAIN_SAMPLE = 1_024  # tokens of a sample that is not short: recipes of 8,192 tokens train on Alpaca, with fewer
_PHASES = ("forward", "backward", "evaluation", "log_probabilities")  # whose peak grows with the length


def is_loose_bound(run: Run) -> bool:
    """Whether the maximum length is far above the length of most samples or batches."""
    return _is_long(run) or _is_rarely_filled(run)


def is_over_at_full_length_alone(run: Run, estimate: Estimate) -> bool:
    """Whether shorter sequences fit, where the length is a loose bound. False where the figures do not say it."""
    peak = _phase(estimate, estimate.peak_phase)
    least, budget = least_bytes(estimate), estimate.budget_bytes
    if peak is None or peak.name not in _PHASES or least is None or not is_loose_bound(run):
        return False
    growing = peak.components.get("activations", 0) + peak.components.get("logits", 0)
    if not _is_long(run) and least - _share_of_the_rest(run) * growing > budget:
        return False
    step = _phase(estimate, "optimizer_step")
    if step is None:
        return False
    # What no shorter sequence does without; another reading may hold less of the model.
    steps = (one.step_bytes for one in estimate.readings if one.step_bytes is not None)
    return min((step.allocated_bytes, *steps)) <= budget


def _share_of_the_rest(run: Run) -> float:
    """How much of the activations and logits comes from what the maximum is longer than a shorter sample."""
    length = run.sequence.length
    return 1 - min(0.25, _PLAIN_SAMPLE / length) if isinstance(length, int) else 0.75


def _phase(estimate: Estimate, name: str) -> Phase | None:
    return next((phase for phase in estimate.phases if phase.name == name), None)


def _is_long(run: Run) -> bool:
    length = run.sequence.length
    return run.sequence.length_is_bound and isinstance(length, int) and length > _LONG


def _is_rarely_filled(run: Run) -> bool:
    """Whether few samples or batches come near the maximum: both texts of a pair, an encoder's and a decoder's would
    have to at once. Nobody chose a default for the data. The groups of GRPO differ in length anyway."""
    sequence, rows = run.sequence, run.batch.micro_batch_size
    if not sequence.length_is_bound or not isinstance(sequence.length, int) or not isinstance(rows, int):
        return False
    origin = run.origins.get("sequence.length")
    is_default = origin is not None and origin.kind == "default"
    has_encoder = isinstance(sequence.source_length, int) and sequence.source_length > 0
    is_several = rows >= _SEVERAL or sequences_per_sample(run) > 1 or has_encoder
    return is_several or is_default or run.method.stage == "grpo" or sequence.length >= _RARELY_FILLED
