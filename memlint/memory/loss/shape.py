"""How a run's loss is computed from the hidden states: the facts that `memory.loss.head` records a profile of.

`loss_kind(run)` is "plain" (all logits, then cross entropy), "fused_ce" (a kernel over them), or one of `FUSED_LOSSES`,
which never build them all.
"""

from __future__ import annotations

import memlint.memory.families.lookup as families
from memlint._record import NamedTuple
from memlint.run import Run

LIKELIEST = "likeliest"  # as in `run.Loss.divergence`
COMPILED_CHUNKS = "compiled_chunks"  # as in `run.Loss.selection`
FUSED_LOSSES = ("liger", "cut", "unsloth", "chunked", "fused_head")
# Extents of parts of the logits.
HALF = "logits_half"  # one of the two answers of each pair
SCORED = "logits_scored"  # those whose log-softmax is taken, or that are compared with a teacher's
SCORED_ROW = "logits_scored_row"  # one sequence's of them
LOGITS_ROW = "logits_row"  # one sequence's
# By how much two sequences' are more than all: the gradients of one row's log-softmax, before any is stacked with
# others'.
LOGITS_ROWS_BEYOND = "logits_rows_beyond"
CHUNK, REST = "logits_rows", "logits_before"  # the rows compared with a teacher's at a time, and all before the last
CHUNK_ROWS = 512  # ms-swift 4.6.0 rlhf_trainers/gkd_loss.py:103, `chunk_size`
_LOGITS_STAY_HALF_SINCE = (4, 46)  # before, the model itself converted its logits to fp32


class LossShape(NamedTuple):
    """How the loss is computed from the hidden states: by the model, the trainer, the algorithm and its kernels.

    `upcasts_logits`: the model converts its logits to fp32 and drops those in half precision (transformers up to 4.45,
    models/llama/modeling_llama.py:1214). `copies_shifted`: the loss makes a contiguous copy of the fp32 logits of all
    tokens but the last (up to 4.48, loss/loss_utils.py, ForCausalLMLoss; from 4.49 on the labels are shifted instead).
    `in_logits_dtype`: that copy is in the model's dtype (models/opt/modeling_opt.py:1031, v4.45.2).
    """

    kind: str = "plain"  # as `run.Loss.kind`
    stage: str = ""  # "" cross entropy, logps (preference stages: log-probabilities), value (a value head)
    needs_gradient: bool = True  # else a forward under `no_grad`, which saves nothing
    # The model, up to its logits: traits of its family (`families.traits`, Family and LossTraits).
    norm: str = "rms"
    streams: int = 1  # residual streams that are merged before the final norm (Gemma 3n)
    activation: str = "gelu"  # between the dense layer and the norm before the scores of masked words
    drops_norm: bool = False
    scales_input: bool = False
    bias_width: int = 0  # bytes of an element of a buffer that is added to the logits; 0 = none
    softcap: bool = False
    scales_logits: bool = False
    upcasts_logits: bool = False
    # The model's own loss, in this release.
    shifts: bool = True  # as `families.traits.LossTraits.shifts`
    copies_shifted: bool = False
    in_logits_dtype: bool = False
    holds_chunks: bool = False  # as `run.Loss.holds_chunks`
    # The trainer, around the model's forward.
    outputs_to_fp32: bool = False  # accelerate converts the model's output
    parts: int = 0  # as `run.Loss.parts`, and the two after it
    logits_first: bool = False
    compiled: bool = False
    keeps_logits: bool = False  # that output stays alive through backward
    label_smoothing: bool = False
    # Log-probabilities of tokens: preference and reinforcement learning.
    runs_reference: bool = False  # a reference forward runs while the policy's graph is alive
    reference_converted: bool = True  # as `run.Loss.reference_converted`
    scores_mismatched: bool = False  # KTO: a forward on answers of other samples follows that on a sample's own
    likelihood_of_chosen: bool = False  # of the answers that are preferred, beside their log-probabilities
    selection: str = ""  # as `run.Loss.selection`
    scores_in_fp32: bool = True  # as `run.Loss.scores_in_fp32`, or the model returns fp32
    scores_completions: bool = False  # as `run.Loss.scores_completions`
    entropy: str = "none"  # beside log-probabilities, as `run.Loss.entropy`
    gradient_apart: bool = False  # as `run.Loss.gradient_apart`
    divides_in_place: bool = False  # as `run.Loss.divides_in_place`
    joins_logits: bool = False  # as `run.Loss.joins_logits`
    one_chunk: bool = False  # all tokens are one of the chunks that log-probabilities are taken of
    one_sequence: bool = False  # the forward has one sequence, whose slice is not copied
    # Distillation.
    divergence: str = ""  # as `run.Loss.divergence`
    labels_beside_teacher: bool = False  # as `run.Loss.labels_beside_teacher`
    in_row_chunks: bool = False  # the divergence is taken of some rows at a time


def loss_kind(run: Run) -> str:
    """The loss that runs. The Trainer's label smoothing takes the labels away from the model, so that the model's fused
    loss does not run and the logits are built (transformers 5.23 trainer.py, compute_loss)."""
    kind = str(run.loss.kind)
    return "plain" if run.loss.label_smoothing and run.method.stage in ("pt", "sft") and kind in FUSED_LOSSES else kind


def keeps_logits_dtype(run: Run) -> bool:
    """Whether the loss, the model's own or the trainer's, makes no fp32 copy of the logits: cross entropy reads them in
    their dtype, and only autocast converts them to fp32."""
    releases = families.of(run.model.architecture).loss.in_own_dtype
    own = releases.include(run.stack.transformers) or run.loss.in_logits_dtype
    return own and run.loss.kind == "plain"


def copies_shifted_logits(run: Run) -> bool:
    """Whether this release's loss converts the logits to fp32 and then makes a contiguous copy of the shifted ones."""
    releases = families.of(run.model.architecture).loss.copies_logits
    return (
        releases.include(run.stack.transformers) and run.loss.upcast_logits is not False and not keeps_logits_dtype(run)
    )


def upcasts_logits(run: Run) -> bool:
    """Whether the model itself converts its logits to fp32."""
    return copies_shifted_logits(run) and run.stack.transformers < _LOGITS_STAY_HALF_SINCE
