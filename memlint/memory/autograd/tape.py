"""Records what PyTorch's autograd keeps alive while a segment of forward code and its backward run.

The code of a segment (norms, projections, attention, ...) is written as calls on a `Tape`, in the order in which the
framework runs it. The tape follows PyTorch's rules:

- A tensor lives while Python code holds it or a node of the graph saved it.
- A node saves what it needs for the gradients that it must produce.
- Backward runs the nodes in reverse. While a node runs, its incoming gradient, the tensors that it saved and the
  gradients that it produces are alive together. The first two are freed when it is done (torch 2.13
  torch/csrc/autograd/engine.cpp, call_function).

Sizes stay symbolic, so that one recording serves every batch size, length and model size of the same structure. The
size of a tensor is a `TensorSize`: `extent` (the name of an element count) times `width` (bytes of an element). A live
set says how many tensors of each size are alive. It is one integer with a counter of 16 bits for each size, so that
allocating a tensor is an addition and freeing it a subtraction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, compress, islice, pairwise
from operator import itemgetter, ne
from struct import unpack

from memlint._record import NamedTuple

_COUNTER_BITS = 16  # of one counter; its top bit is left free for comparisons
_COUNTER_MASK = (1 << _COUNTER_BITS) - 1

# Prefix of extents of parameters' gradients: they stay after backward, and an engine may store them elsewhere.
KEPT_GRADIENT = "kept:"
# Prefix of extents of memory that a kernel allocates for itself.
KERNEL_MEMORY = "kernel:"


class Storage:
    """One allocation. It is freed with its last reference. `increment`: what it adds to a live set."""

    __slots__ = ("increment", "references")

    def __init__(self, increment: int) -> None:
        self.increment = increment
        self.references = 1


class Value:
    """A tensor. Views share a `storage`; each has a gradient of its own."""

    __slots__ = ("extent", "gradient", "requires_grad", "storage", "width")

    def __init__(self, storage: Storage, extent: str, width: int, requires_grad: bool) -> None:
        self.storage = storage
        self.extent = extent
        self.width = width
        self.requires_grad = requires_grad
        self.gradient: Storage | None = None

    @classmethod
    def external(cls, extent: str, width: int) -> Value:
        """A tensor whose memory is counted elsewhere."""
        return cls(Storage(0), extent, width, False)


class Parameter(NamedTuple):
    """A parameter as an op sees it. `extent` names its element count; `width` is bytes of an element."""

    extent: str
    width: int
    trainable: bool = False
    quantized: bool = False
    adapter_width: int = 0  # bytes of an element of an adapter folded in (stacked experts, routers); 0 without
    int8_product: bool = False  # bitsandbytes' LLM.int8 multiplies it with quantised inputs


class ParameterGradient(NamedTuple):
    """The gradient of a parameter: bytes of an element as it is computed, and as it is accumulated."""

    extent: str
    computed_width: int
    kept_width: int


class Node(NamedTuple):
    """A node of autograd's graph: what backward does for one op.

    `temporaries` are increments of live sets. `aliases`: the gradient passes through without a new tensor, or is
    written over a saved tensor. `gradient_width`: bytes of an element in which gradients are computed before they are
    cast to their tensor's dtype; 0 = that dtype.
    """

    outputs: tuple[Value, ...]
    inputs: tuple[Value, ...]
    saved: tuple[Storage, ...]
    temporaries: tuple[int, ...]
    aliases: bool
    weights: tuple[ParameterGradient, ...]
    gradient_width: int
    over_incoming: bool = False  # with `aliases`: written over the incoming gradient, whatever was saved
    packs: bool = False  # whether it may have saved something, be it a parameter


class TensorSize(NamedTuple):
    """The size of tensors in a recording. `name` is the extent without its prefix; `kept_gradient`: a parameter's
    gradient, which an engine may store elsewhere."""

    extent: str
    width: int
    name: str
    kept_gradient: bool


@lru_cache(maxsize=4096)  # recordings name the same sizes: one object for all of them
def tensor_size(extent: str, width: int) -> TensorSize:
    name = extent.removeprefix(KEPT_GRADIENT).removeprefix(KERNEL_MEMORY)
    return TensorSize(extent, width, name, extent.startswith(KEPT_GRADIENT))


class PeakCandidates(NamedTuple):
    """Live sets that may be the largest: each counts tensors by `tensor_sizes`.

    `packed` holds the live sets as integers (see `counters`). `tensor_sizes` is the recording's own list, the same for
    all of its live sets, so that bytes are computed once for each size.

    To add up bytes, the live sets are stored once more as changes from one to the next, which are four to five times
    fewer terms: `pick` selects the sizes that change, `numbers` says by how many tensors, `ends` where the changes of
    each live set end. Frees come before allocations, so that no partial sum exceeds the live sets on both sides.
    """

    tensor_sizes: Sequence[TensorSize]
    packed: tuple[int, ...]
    pick: Callable[[Sequence[int]], tuple[int, ...]]
    numbers: tuple[int, ...]
    ends: tuple[int, ...]


class Tape:
    """One recording.

    `grad`: whether autograd records. `in_place`: whether gradients of a tensor with several readers are summed in
    place, as on CUDA; on fake tensors they are not. `keeps_linear_inputs`: see `KernelConfig`. `leaves`: what a
    checkpointed layer that runs again reads, which torch detaches from the graph before it (`CheckpointFunction`).
    """

    def __init__(self, grad: bool = True, in_place: bool = True, keeps_linear_inputs: bool = False) -> None:
        self.grad = grad
        self.in_place = in_place
        self.keeps_linear_inputs = keeps_linear_inputs
        self.live = 0  # the live set now
        self.live_sets: dict[int, None] = {}  # those seen since the last `take_peaks`, in the order of time
        self.nodes: list[Node] = []
        self._increments: dict[tuple[str, int], int] = {}
        self._tensor_sizes: list[TensorSize] = []
        self._cast_weights: dict[str, Storage] = {}
        self.leaves: list[Value] = []
        self._cast_leaves: dict[Value, Value] = {}
        self._last_packed = (0, 0)  # how many live sets there were as a node saved something last, and the live set

    # -- allocation -------------------------------------------------------------------------

    def increment(self, extent: str, width: int) -> int:
        """What one tensor of this size adds to a live set."""
        key = (extent, width)
        found = self._increments.get(key)
        if found is None:
            found = self._increments[key] = 1 << (_COUNTER_BITS * len(self._increments))
            self._tensor_sizes.append(tensor_size(extent, width))
        return found

    def new(self, extent: str, width: int, requires_grad: bool = False) -> Value:
        """Allocate a tensor, which Python code holds until `drop`."""
        storage = Storage(self.increment(extent, width))
        self.live += storage.increment
        return Value(storage, extent, width, requires_grad and self.grad)

    def view(self, value: Value, extent: str | None = None) -> Value:
        """A view of `value`. Its gradient passes back without a copy."""
        value.storage.references += 1
        found = Value(value.storage, extent or value.extent, value.width, value.requires_grad)
        if value.requires_grad and self.grad:
            self.nodes.append(Node((found,), (value,), (), (), True, (), 0))
        return found

    def drop(self, *values: Value) -> None:
        """Python code no longer holds these tensors."""
        for value in values:
            self.release(value.storage)

    def release(self, storage: Storage) -> None:
        """One reference less; the last one frees the storage."""
        storage.references -= 1
        if storage.references == 0:
            self.live_sets[self.live] = None
            self.live -= storage.increment

    def spike(self, *sizes: tuple[str, int]) -> None:
        """Tensors of these sizes (extent, width) live only inside of one op."""
        self.live_sets[self.live + sum(self.increment(extent, width) for extent, width in sizes)] = None

    # -- recording --------------------------------------------------------------------------

    def node(
        self,
        outputs: tuple[Value, ...],
        inputs: tuple[Value, ...],
        saved: Iterable[Value | Storage] = (),
        temporaries: tuple[tuple[str, int], ...] = (),
        aliases: bool = False,
        weights: tuple[ParameterGradient, ...] = (),
        gradient_width: int = 0,
        over_incoming: bool = False,
        after_temporaries: tuple[tuple[str, int], ...] = (),
        packs: bool = True,
        packs_first: bool = False,
    ) -> None:
        """Record an op, see `Node`. Does nothing where nothing needs a gradient. Sizes are (extent, width).

        `after_temporaries`: gradients that are allocated only when the temporaries are freed. `packs`: whether the op
        may save anything, be it a parameter; `packs_first`: all that it saves are inputs, before it allocates.
        """
        differentiable = tuple([value for value in inputs if value.requires_grad])
        if not self.grad or not (differentiable or weights):
            return
        if packs:
            made = sum([value.storage.increment for value in outputs]) if packs_first else 0
            self._last_packed = (len(self.live_sets), self.live - made)
        storages = tuple(value if isinstance(value, Storage) else value.storage for value in saved)
        for storage in storages:
            storage.references += 1
        for value in outputs:
            value.requires_grad = True
        extra: tuple[int, ...] = ()
        if temporaries:
            extra = tuple([self.increment(extent, width) for extent, width in temporaries])
        if after_temporaries:
            extra += tuple([-self.increment(extent, width) for extent, width in after_temporaries])
        self.nodes.append(
            Node(outputs, differentiable, storages, extra, aliases, weights, gradient_width, over_incoming, packs)
        )

    def cached_cast(self, weight: Parameter, width: int) -> Storage:
        """The half-precision copy of a parameter under autocast.

        Copies of trainable fp32 parameters stay in autocast's cache (torch 2.13 aten/src/ATen/autocast_mode.cpp,
        cached_cast) until `end_autocast`.
        """
        found = self._cast_weights.get(weight.extent)
        if found is None:
            found = Storage(self.increment(weight.extent, width))
            self.live += found.increment
            if weight.trainable:
                self._cast_weights[weight.extent] = found
        return found

    def cached_leaf(self, leaf: Value, make: Callable[[], Value]) -> Value:
        """The half-precision copy of one of `leaves`, which stays in the same cache: its readers share it."""
        found = self._cast_leaves.get(leaf)
        if found is None:
            found = self._cast_leaves[leaf] = make()
        found.storage.references += 1
        return found

    def end_autocast(self) -> None:
        """Leave the autocast context, which clears its cache."""
        self.drop(*self._cast_leaves.values())
        self._cast_leaves.clear()
        for storage in self._cast_weights.values():
            self.release(storage)
        self._cast_weights.clear()

    def stop_at_last_saved(self) -> None:
        """Forget the live sets after the last op that saved something, whose inputs are alive then: non-reentrant
        checkpointing ends a recomputation as soon as it has all that the first forward saved (torch 2.13
        utils/checkpoint.py, `_StopRecomputationError`)."""
        count, live = self._last_packed
        self.live_sets = dict.fromkeys([*islice(self.live_sets, count), live])

    # -- backward ---------------------------------------------------------------------------

    def incoming_gradient(self, output: Value) -> Storage:
        """The gradient of `output`, which the next segment produced. All live sets so far are counted with it."""
        gradient = Storage(self.increment(output.extent, output.width))
        self.live += gradient.increment
        self.count_in_all(gradient)
        return gradient

    def count_in_all(self, storage: Storage) -> None:
        """Counts a storage in all live sets so far."""
        self.live_sets = {live + storage.increment: None for live in self.live_sets}

    def backward(self, output: Value, gradient: Storage | None = None, recomputed: bool = False) -> None:
        """Run the recorded nodes in reverse, from the gradient of `output` (allocated here unless given).

        `recomputed`: the forward that was recorded runs when the backward first reads what a node saved.
        """
        if gradient is None:
            gradient = self.incoming_gradient(output)
        output.gradient = gradient
        if recomputed:
            self._run_to_first_saved()
        self.live_sets[self.live] = None
        for node in reversed(self.nodes):
            self._run(node)
        self.live_sets[self.live] = None
        self.nodes.clear()

    def _run_to_first_saved(self) -> None:
        """Run the last nodes that saved nothing, and count what they leave in all live sets so far (torch 2.13
        utils/checkpoint.py, `unpack_hook`)."""
        live_sets, before = self.live_sets, self.live
        self.live_sets = {}  # of these nodes: nothing is computed again yet
        while self.nodes and not self.nodes[-1].packs:
            self._run(self.nodes.pop())
        left = self.live - before
        self.live_sets = {live + left: None for live in live_sets}

    def _run(self, node: Node) -> None:
        incoming = [value.gradient for value in node.outputs if value.gradient is not None]
        produced: list[tuple[Value, Storage]] = []
        if incoming:
            produced = self._gradients(node, incoming[0])
            weights = [(entry, Storage(self.increment(entry.extent, entry.computed_width))) for entry in node.weights]
            self.live += sum(storage.increment for _, storage in weights)
            self.live_sets[self.live] = None
            self.live_sets[self.live + sum(node.temporaries)] = None
            # casts happen while the node still has what it saved and its incoming gradient (engine.cpp,
            # validate_outputs)
            produced = [(value, self._in_dtype_of(value, gradient)) for value, gradient in produced]
        for storage in node.saved:
            self.release(storage)
        for value in node.outputs:
            if value.gradient is not None:
                self.release(value.gradient)
                value.gradient = None
        if incoming:
            for entry, storage in weights:
                self._keep(entry, storage)
        for value, gradient in produced:
            self._accumulate(value, gradient)

    def _in_dtype_of(self, value: Value, gradient: Storage) -> Storage:
        """The engine casts a gradient to its tensor's dtype after the node (validate_outputs)."""
        target = self.increment(value.extent, value.width)
        if gradient.increment == target or gradient.increment not in self._other_dtypes(value):
            return gradient
        cast = Storage(target)
        self.live += target
        self.live_sets[self.live] = None
        self.release(gradient)
        return cast

    def _other_dtypes(self, value: Value) -> tuple[int, ...]:
        return tuple(self._increments.get((value.extent, width), 0) for width in (2, 4) if width != value.width)

    def _gradients(self, node: Node, incoming: Storage) -> list[tuple[Value, Storage]]:
        produced = []
        overwritten = () if node.over_incoming else node.saved
        for index, value in enumerate(node.inputs):
            width = node.gradient_width or value.width
            if node.aliases:
                gradient_storage = overwritten[min(index, len(overwritten) - 1)] if overwritten else incoming
                gradient_storage.references += 1
                produced.append((value, gradient_storage))
                continue
            gradient = Storage(self.increment(value.extent, width))
            self.live += gradient.increment
            produced.append((value, gradient))
        return produced

    def _keep(self, entry: ParameterGradient, storage: Storage) -> None:
        """A parameter's gradient arrives at its leaf: it is cast to the parameter's dtype, then kept."""
        kept_increment = self.increment(KEPT_GRADIENT + entry.extent, entry.kept_width)
        if entry.computed_width == entry.kept_width:
            self.live_sets[self.live] = None
            self.live += kept_increment - storage.increment
            return
        cast_increment = self.increment(entry.extent, entry.kept_width)
        self.live += cast_increment
        self.release(storage)
        self.live_sets[self.live] = None
        self.live += kept_increment - cast_increment

    def _accumulate(self, value: Value, gradient: Storage) -> None:
        old = value.gradient
        if old is None:
            value.gradient = gradient
            return
        if self.in_place and old.references == 1:
            self.release(gradient)
            return
        total = Storage(self.increment(value.extent, value.width))
        self.live += total.increment
        self.live_sets[self.live] = None
        self.release(old)
        self.release(gradient)
        value.gradient = total

    # -- results ----------------------------------------------------------------------------

    def take_peaks(self) -> PeakCandidates:
        """The live sets since the last call, without those that have no more of any tensor than another one."""
        guard = _lowest_bits(len(self._increments)) << (_COUNTER_BITS - 1)
        self.live_sets[self.live] = None
        peaks = _without_slopes(self.live_sets, guard)
        largest: dict[int, int] = {}  # with the top bit of each counter set
        for live in sorted(peaks, key=_tensor_count, reverse=True):
            for other in largest.values():
                if (other - live) & guard == guard:
                    break
            else:
                largest[live] = live | guard
        candidates = [live for live in peaks if live in largest]
        self.live_sets = {}
        return _pack(self._tensor_sizes, candidates)

    def live_now(self, minus: Value | None = None) -> PeakCandidates:
        """What is alive now, without `minus`."""
        return _pack(self._tensor_sizes, [self.live - (minus.storage.increment if minus is not None else 0)])


def _without_slopes(live_sets: Iterable[int], guard: int) -> list[int]:
    """Live sets in the order of time without those that have no more of any tensor than the one before or after them:
    half of them lie on the way up to a peak or down from it. `guard`: the top bit of each counter."""
    peaks: list[int] = []
    for live in live_sets:
        while peaks and ((live | guard) - peaks[-1]) & guard == guard:
            peaks.pop()
        if not peaks or ((peaks[-1] | guard) - live) & guard != guard:
            peaks.append(live)
    return peaks


def with_one_less(candidates: PeakCandidates, size: TensorSize) -> PeakCandidates:
    """The live sets with one tensor of this size less in each."""
    increment = 1 << (_COUNTER_BITS * candidates.tensor_sizes.index(size))
    return _pack(candidates.tensor_sizes, [live - increment for live in candidates.packed])


def _pack(tensor_sizes: Sequence[TensorSize], live_sets: Sequence[int]) -> PeakCandidates:
    counts = [counters(live, len(tensor_sizes)) for live in (0, *live_sets)]
    rows = [sorted(_changes(*pair), key=itemgetter(1)) for pair in pairwise(counts)]
    changes = [change for row in rows for change in row] + [(0, 0), (0, 0)]  # `itemgetter` of one gives no tuple
    pick = itemgetter(*[index for index, _ in changes])
    ends = tuple(accumulate(len(row) for row in rows))
    return PeakCandidates(tensor_sizes, tuple(live_sets), pick, tuple(number for _, number in changes), ends)


def _changes(before: Sequence[int], after: Sequence[int]) -> list[tuple[int, int]]:
    """(index of a size, by how many tensors) where the counters of two live sets differ."""
    differing = compress(range(len(before)), map(ne, before, after))
    return [(index, after[index] - before[index]) for index in differing]


def changes_of(candidates: PeakCandidates) -> list[tuple[int, int]]:
    """(index of a size, by how many tensors): the changes from one live set to the next, padding included."""
    indexes = candidates.pick(range(len(candidates.tensor_sizes) or 1))
    return list(zip(indexes, candidates.numbers))


def from_changes(indexes: Sequence[int], numbers: Sequence[int], ends: Iterable[int]) -> tuple[int, ...]:
    """The live sets that such changes lead to; those of each live set end where `ends` says."""
    levels = [0, *accumulate(number << (_COUNTER_BITS * index) for index, number in zip(indexes, numbers))]
    return tuple(levels[end] for end in ends)


def counters(packed: int, sizes: int = 0) -> tuple[int, ...]:
    """How many tensors of each size a live set has; counters for at least `sizes` sizes."""
    count = max(sizes, -(-packed.bit_length() // _COUNTER_BITS))
    return unpack(f"<{count}H", packed.to_bytes(2 * count, "little"))


def _tensor_count(packed: int) -> int:
    """Sum of the counters (2^16 is 1 modulo 2^16 - 1; a live set has far fewer tensors than that)."""
    return packed % _COUNTER_MASK


def _lowest_bits(sizes: int) -> int:
    """The lowest bit of each counter."""
    return ((1 << (_COUNTER_BITS * sizes)) - 1) // _COUNTER_MASK
