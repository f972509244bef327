"""The result of recording one segment of the model (the embedding, a decoder layer, the head)."""

from __future__ import annotations

from memlint._record import NamedTuple
from memlint.memory.autograd.tape import PeakCandidates, Tape, Value


class Profile(NamedTuple):
    """Live bytes of one segment, to be evaluated for a batch and model size.

    PeakCandidates are candidates for a peak, counted from what earlier segments hold, with the segment's own input
    included. `held_forward` is what stays until the forward ends (autocast's cached casts included), `held`
    what stays until the backward comes; neither includes the output. `after` is what stays when the backward
    is done: the input's gradient and the parameters' gradients.
    """

    forward: PeakCandidates
    held_forward: PeakCandidates
    held: PeakCandidates
    backward: PeakCandidates
    after: PeakCandidates
    width: int = 0  # bytes of one element of a layer's output


class Mode(NamedTuple):
    """`checkpoint`: the layer is recomputed. `reentrant`: its outputs and input stay alive while it is."""

    width: int  # bytes of one element of the residual stream
    input_needs_gradient: bool = True
    checkpoint: bool = False
    reentrant: bool = True
    offload: bool = False  # the kept input waits in host memory


def finish(tape: Tape, output: Value) -> Profile:
    """Close a recording whose input was let go: run its backward and pack the moments."""
    forward = tape.take_moments()
    held_forward = tape.now(minus=output)
    tape.end_autocast()
    held = tape.now(minus=output)
    tape.drop(output)
    tape.take_moments()
    tape.backward(output)
    return Profile(forward, held_forward, held, tape.take_moments(), tape.now(), output.width)
