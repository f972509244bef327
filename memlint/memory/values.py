"""The values inside the estimator, and the `Estimate` that it returns.

The peak is a maximum over moments, so the placement of model state (one GPU, DDP, ZeRO, FSDP, ...)
is described per *unit*: the embedding, each decoder layer, the head. The step is then walked unit by
unit (phases.py): forward from first to last, backward from last to first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.card_bytes import CardBytes


class Tensor(NamedTuple):
    """`copies` equal parameter tensors of one unit as this run holds them (adapters are tensors of their own)."""

    name: str
    numel: int  # of one tensor, unsharded
    shape: tuple[int, ...]
    kind: str  # as architectures.model.Weight.kind, or "adapter"
    trainable: bool
    dtype: str  # float32, bfloat16, float16, nf4, int8, gptq4, ...
    stored_bytes: int  # of one tensor, unsharded, quantisation constants included
    copies: int = 1


class Unit(NamedTuple):
    """A segment of the model: the embedding, one decoder layer, the head, a tower or one of its layers."""

    name: str  # embedding, layer, head, tower, projector, speech
    tensors: tuple[Tensor, ...]
    repeat: int = 1  # consecutive identical units
    layer_index: int = -1


_COMPONENT_WORDS: Mapping[str, str] = {"kv_cache": "KV cache", "engine": "inference engine"}


def component_words(component: str) -> str:
    """The name of a component in all outputs."""
    return _COMPONENT_WORDS.get(component, component.replace("_", " "))


def with_tensors(units: tuple[Unit, ...], change: Callable[[Tensor], Tensor]) -> tuple[Unit, ...]:
    """The units with `change` applied to each tensor. Layers that share one tuple of tensors still share the result, so
    that later results can be cached by the tuple's identity."""
    known: dict[int, tuple[Tensor, ...]] = {}
    for unit in units:
        if id(unit.tensors) not in known:
            known[id(unit.tensors)] = tuple(map(change, unit.tensors))
    return tuple(unit._replace(tensors=known[id(unit.tensors)]) for unit in units)


class Moment(NamedTuple):
    """Bytes of gradients and their buffers during one unit's backward, including those that other units left.

    `live`: the most while its activations are alive. `end`: the most after these are freed. `begin`: when it begins.
    `released`: how many bytes fewer parameters are gathered than the most for units of this kind.
    """

    live: int
    end: int
    released: int = 0
    begin: int = 0


class UnitState(NamedTuple):
    """The bytes that one unit adds on this GPU while its forward or backward runs."""

    gathered_forward: int = 0  # unsharded parameters alive during its forward (prefetched units included)
    gathered_backward: int = 0
    gradient_live: int = 0  # gradients and their buffers at the peak of its activations, beyond what later units left
    gradient_kept: int = 0  # gradients that stay after its backward (negative: what its backward frees)
    gradient_end: int = 0  # as gradient_live, at the end of its backward, when its own activations are gone
    moments: tuple[Moment, ...] = ()  # instead of the three above: one per repetition of the unit, the last one first
    gathered_entering: int = 0  # as gathered_forward, when its forward begins and has no activations of its own yet


class ModelState(NamedTuple):
    """Placement of weights, gradients and optimizer states on one GPU, bytes. `units` runs embedding, layers, head."""

    weights: int
    optimizer_states: int
    gradients_resident: int  # alive before the backward begins (accumulation, flat buffers)
    communication: int  # buckets and flat buffers alive through forward and backward
    units: tuple[UnitState, ...]
    gradients_at_step: int  # alive when the optimizer steps
    step_temporaries: int
    communication_at_step: int = 0
    save_temporaries: int = 0
    load_peak: int = 0
    host_bytes: int = 0  # host RAM per node
    notes: tuple[str, ...] = ()
    gathered_at_loss: int = 0  # unsharded parameters alive while the loss runs, after the head's forward
    gathered_at_loss_backward: int = 0  # as gathered_at_loss, while the loss's backward runs


class Phase(NamedTuple):
    """`components` sum to `allocated_bytes`."""

    name: str  # load, forward, backward, optimizer_step, evaluation, save (inference: load, prefill, decode)
    allocated_bytes: int
    components: Mapping[
        str, int
    ]  # weights, gradients, optimizer_states, activations, logits, temporaries, communication


class UnknownField(NamedTuple):
    """A field of the run that the estimate needs and that is unknown. `reason`: why, and what to do about it."""

    field: str
    reason: str


class Assumption(NamedTuple):
    """A value that the estimate depends on, and where it came from."""

    field: str
    value: Any
    origin: str  # "train.yaml:14:13", "default of transformers 5.23", ...


class ReadingEstimate(NamedTuple):
    """The card's figures, bytes, under one of several readings of the same files; see `memlint.run.Reading`.

    `step_bytes`: what tensors take in the optimizer's step, which no shorter sequence does without.
    """

    label: str
    device_bytes: int | None
    device_low_bytes: int | None
    device_high_bytes: int | None
    verdict: str
    step_bytes: int | None = None


class Estimate(NamedTuple):
    """The peak on one GPU. Figures are None if a field that they need is unknown; `unknown` lists those fields."""

    phases: tuple[Phase, ...]
    peak_phase: str
    allocated_bytes: int | None
    reserved_bytes: int | None
    device_bytes: int | None
    device_low_bytes: int | None
    device_high_bytes: int | None
    host_bytes: int | None
    verdict: str  # fits, tight, out_of_memory, unknown
    parameters: int | None = None
    trainable_parameters: int | None = None
    allocated_low_bytes: int | None = None  # with *_high: where a block is only known as an interval
    allocated_high_bytes: int | None = None
    budget_bytes: int = 0  # what the verdict compares with; 0 = no card known
    fits_on: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    unknown: tuple[UnknownField, ...] = ()
    readings: tuple[ReadingEstimate, ...] = ()  # where nobody says which holds: the run as it stands, then the others
    details: Mapping[str, int] = {}  # named terms for `explain` and rules: logits_bytes, attention_scores_bytes, ...
    device_unclamped_high_bytes: int | None = None  # see CardBytes

    @property
    def on_card(self) -> CardBytes | None:
        """The memory that the run takes of its card; None if unknown."""
        figure, low, high = self.device_bytes, self.device_low_bytes, self.device_high_bytes
        if figure is None or low is None or high is None:
            return None
        return CardBytes(figure, low, high, self.device_unclamped_high_bytes or high, self.budget_bytes)


class TensorEstimate(NamedTuple):
    """What of an estimate its tensors alone decide. Fields as those of `Estimate`; the card's figures are not here."""

    phases: tuple[Phase, ...]
    peak_phase: str
    allocated_bytes: int | None
    allocated_low_bytes: int | None
    allocated_high_bytes: int | None
    host_bytes: int | None
    parameters: int | None
    trainable_parameters: int | None
    verdict: str  # unknown: no card is named
    budget_bytes: int
    unknown: tuple[UnknownField, ...]
    details: Mapping[str, int]  # without CARD_DETAILS


# Terms that come from a replay of the allocator.
CARD_DETAILS = ("step_reserve_bytes", "other_step_reserve_bytes")


def tensors_of(found: Estimate) -> TensorEstimate:
    """The part of the estimate of a run that names no card."""
    return TensorEstimate(*(getattr(found, name) for name in TensorEstimate._fields))


class Stages(NamedTuple):
    """How the estimate of a run that names no card is made. `basis`: the values that its figures depend on; `origins`:
    those that its words do, where there are no figures. `tensors`: makes the tensors' part, or the whole estimate where
    that is no more work; `whole`: makes the whole estimate."""

    basis: tuple[Any, ...]
    origins: Mapping[str, Any]
    tensors: Callable[[], TensorEstimate | Estimate]
    whole: Callable[[], Estimate]


class StagedEstimate:
    """The estimate of a run. That of a run that names no card is made in stages, each when it is first asked for: its
    tensors, and then the card's figures as well. Its verdict needs neither: without a card there is none."""

    __slots__ = ("_stages", "_tensors", "_whole")

    def __init__(self, made: Estimate | Stages) -> None:
        self._stages = made if isinstance(made, Stages) else None
        self._whole = made if isinstance(made, Estimate) else None
        self._tensors: TensorEstimate | Estimate | None = self._whole

    @property
    def is_in_stages(self) -> bool:
        """Whether it is that of a run that names no card."""
        return self._stages is not None

    @property
    def verdict(self) -> str:
        return "unknown" if self._stages is not None else self.whole.verdict

    @property
    def budget_bytes(self) -> int:
        return 0 if self._stages is not None else self.whole.budget_bytes

    @property
    def known(self) -> TensorEstimate | Estimate | None:
        """What was estimated until now."""
        return self._tensors

    @property
    def tensors(self) -> TensorEstimate | Estimate:
        if self._tensors is None:
            assert self._stages is not None  # an estimate without stages is whole
            self._tensors = self._stages.tensors()
        return self._tensors

    @property
    def whole(self) -> Estimate:
        if self._whole is None:
            assert self._stages is not None
            self._whole = self.tensors if isinstance(self.tensors, Estimate) else self._stages.whole()
        return self._whole

    def is_of_same_run(self, other: StagedEstimate) -> bool:
        """Whether the whole estimates are equal, as far as can be said without computing them."""
        mine, theirs = self._stages, other._stages
        if mine is None or theirs is None:
            return self.tensors is other.tensors
        return mine.basis == theirs.basis and (mine.origins == theirs.origins or not self.tensors.unknown)
