"""The result of recording one segment of the model (the embedding, a decoder layer, the head)."""

from __future__ import annotations

from memlint._record import NamedTuple
from memlint.memory.autograd.tape import PeakCandidates, Tape, Value


class Profile(NamedTuple):
    """The live tensors of one segment. `TensorBytes` computes their bytes for a batch and model size.

    `forward` and `backward` are candidates for the peak of each direction, the segment's input included. The others are
    one live set each, without the segment's output: `live_in_forward` stays until the forward of the model ends
    (autocast's cached casts included), `live_until_backward` until the segment's backward begins, and
    `live_after_backward` is left by that: gradients of the input and of the parameters.
    """

    forward: PeakCandidates
    live_in_forward: PeakCandidates
    live_until_backward: PeakCandidates
    backward: PeakCandidates
    live_after_backward: PeakCandidates
    width: int = 0  # bytes of one element of a layer's output


class LayerMode(NamedTuple):
    """How a layer runs. `checkpoint`: activation checkpointing recomputes it. `reentrant`: as `torch.utils.checkpoint`
    with `use_reentrant=True`, where input and output stay alive during the recomputation."""

    width: int  # bytes of one element of the residual stream
    input_needs_gradient: bool = True
    checkpoint: bool = False
    reentrant: bool = True
    offload: bool = False  # the saved input is kept in host memory
    stores_keys: bool = False  # the model holds the layer's keys and values (segments/shared_keys.py)


def finish_profile(tape: Tape, output: Value) -> Profile:
    """End a recording: leave autocast and run the backward from `output`. The input must have been dropped."""
    forward = tape.take_peaks()
    live_in_forward = tape.live_now(minus=output)
    tape.end_autocast()
    live_until_backward = tape.live_now(minus=output)
    tape.drop(output)
    tape.take_peaks()
    tape.backward(output)
    return Profile(forward, live_in_forward, live_until_backward, tape.take_peaks(), tape.live_now(), output.width)
