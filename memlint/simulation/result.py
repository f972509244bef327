"""The result of a simulated step, and the error for a run that cannot be simulated."""

from __future__ import annotations

from memlint._record import NamedTuple


class UnsupportedRun(ValueError):
    """This run cannot be simulated; the message says why."""


class Live(NamedTuple):
    """A group of `tensors` equal tensors that are alive at the same time.

    `module` has layer numbers replaced by `*`. `kind`: weights, gradients, optimizer_states, weight_casts,
    logits, activations, temporaries. `bytes` is their sum.
    """

    module: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    operator: str
    phase: str
    tensors: int
    bytes: int


class Moments(NamedTuple):
    """Positions in a trace's events: where the optimizer makes its states, where the step begins, where in it the
    optimizer's turn does, and where it ends."""

    states: int
    step: int
    optimizer: int
    end: int


class SimulatedStep(NamedTuple):
    """Bytes of live tensors in the steady (second) training step; 512-byte rounding included.

    `base`: alive before the step, without gradients and optimizer states: parameters, buffers, inputs.
    `forward`, `backward`, `optimizer_step`: the peak in the phase. `end_forward`: when the loss is computed.
    """

    parameters: int
    trainable_parameters: int
    base: int
    optimizer_states: int
    end_forward: int
    forward: int
    backward: int
    optimizer_step: int
    peak: int
    peak_phase: str
    live_at_end_forward: tuple[Live, ...]
    live_at_peak: tuple[Live, ...]
    live_by_phase: tuple[tuple[str, tuple[Live, ...]], ...]  # at the highest point of each phase
    events: tuple[int, ...]  # +index allocates sizes[index], ~index frees it
    sizes: tuple[int, ...]
    moments: Moments
    seconds: float

    def by_kind(self, phase: str = "") -> dict[str, int]:
        """Bytes of each kind at the peak, or at the highest point of `phase`."""
        live = dict(self.live_by_phase)[phase] if phase else self.live_at_peak
        totals: dict[str, int] = {}
        for group in live:
            totals[group.kind] = totals.get(group.kind, 0) + group.bytes
        return totals
