"""A record of one segment of forward code, as autograd keeps it, and its backward.

Blocks (norms, projections, attention, ...) are written as calls on a `Tape`, in the order in which the
framework runs them. The tape follows PyTorch's rules: a tensor lives while Python code holds it or a
node saved it; a node saves what the gradients it must produce need; backward runs the nodes in reverse,
holds the incoming gradient, the saved tensors and the produced gradients together, and frees the first
two when the node is done (torch 2.13 torch/csrc/autograd/engine.cpp, call_function).

Sizes stay symbolic: a tensor is `extent` (the name of an element count) times `width` (bytes an element),
and the live set is one integer with a counter field per such pair. So one recording serves every batch,
length and model size with the same structure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from operator import itemgetter
from struct import unpack

from memlint._record import NamedTuple

_FIELD = 16  # bits of one counter; its top bit is the guard of comparisons
_MASK = (1 << _FIELD) - 1

# Extents that stand for gradients which stay after backward; the engine may keep them elsewhere.
KEPT = "kept:"
# Extents of memory that a kernel allocates for itself.
KERNEL = "kernel:"


class Storage:
    """One allocation: its counter increment and how many holders it has."""

    __slots__ = ("holders", "unit")

    def __init__(self, unit: int) -> None:
        self.unit = unit
        self.holders = 1


class Value:
    """A tensor handle: views share a `storage`, each with a gradient of its own."""

    __slots__ = ("extent", "gradient", "requires_grad", "storage", "width")

    def __init__(self, storage: Storage, extent: str, width: int, requires_grad: bool) -> None:
        self.storage = storage
        self.extent = extent
        self.width = width
        self.requires_grad = requires_grad
        self.gradient: Storage | None = None

    @classmethod
    def external(cls, extent: str, width: int) -> Value:
        """A tensor that someone else counts."""
        return cls(Storage(0), extent, width, False)


class Parameter(NamedTuple):
    """A parameter as an op sees it. `extent` names its element count."""

    extent: str
    width: int
    trains: bool = False
    quantized: bool = False
    adapted: bool = False  # stacked experts with an adapter folded in


class ParameterGradient(NamedTuple):
    """Gradient of a parameter: computed in `computed` bytes an element, kept in `kept`."""

    extent: str
    computed: int
    kept: int


class Node(NamedTuple):
    """What backward does for one op."""

    outputs: tuple[Value, ...]
    inputs: tuple[Value, ...]
    saved: tuple[Storage, ...]
    temporaries: tuple[int, ...]
    aliases: bool  # the gradient passes through without a new tensor, or takes the place of what was saved
    weights: tuple[ParameterGradient, ...]
    computed: int  # bytes an element in which gradients are computed before they take their tensor's dtype; 0 = its own
    over_arriving: bool = False  # with `aliases`: in place of the arriving gradient, whatever was saved


class TensorSize(NamedTuple):
    """A size that tensors of a recording have: `name` counts its elements, `kept` gradients may live elsewhere."""

    extent: str
    width: int
    name: str
    kept: bool


class PeakCandidates(NamedTuple):
    """Live sets as counts of `units`; `packed` holds one per moment, a counter a unit (see `counters`).

    `units` is the recording's own list, the same for all of its moments, so that it is sized once. For arithmetic, the
    moments follow one another as changes (four to five times fewer terms than they have): `pick` takes the units that
    change from all of them, `numbers` says by how much, and `ends` where each moment's changes end. Within a moment
    what goes comes before what is new, so no partial sum exceeds the moments on both sides.
    """

    units: Sequence[TensorSize]
    packed: tuple[int, ...]
    pick: Callable[[Sequence[int]], tuple[int, ...]]
    numbers: tuple[int, ...]
    ends: tuple[int, ...]


class Tape:
    """One recording. `in_place`: gradients of a tensor with several readers are summed in place."""

    def __init__(self, grad: bool = True, in_place: bool = True) -> None:
        self.grad = grad
        self.in_place = in_place
        self.live = 0
        self.moments: set[int] = set()
        self.nodes: list[Node] = []
        self._units: dict[tuple[str, int], int] = {}
        self._listed: list[TensorSize] = []
        self._cast_weights: dict[str, Storage] = {}

    # -- allocation -------------------------------------------------------------------------

    def unit(self, extent: str, width: int) -> int:
        """The increment that stands for one tensor of this size."""
        key = (extent, width)
        found = self._units.get(key)
        if found is None:
            found = self._units[key] = 1 << (_FIELD * len(self._units))
            name = extent.removeprefix(KEPT).removeprefix(KERNEL)
            self._listed.append(TensorSize(extent, width, name, extent.startswith(KEPT)))
        return found

    def new(self, extent: str, width: int, requires_grad: bool = False) -> Value:
        """Allocate a tensor that the running code holds."""
        storage = Storage(self.unit(extent, width))
        self.live += storage.unit
        return Value(storage, extent, width, requires_grad and self.grad)

    def view(self, value: Value, extent: str | None = None) -> Value:
        """Another handle on the same memory, whose gradient passes back without a copy."""
        value.storage.holders += 1
        found = Value(value.storage, extent or value.extent, value.width, value.requires_grad)
        if value.requires_grad and self.grad:
            self.nodes.append(Node((found,), (value,), (), (), True, (), 0))
        return found

    def drop(self, *values: Value) -> None:
        """The running code lets go of its handles."""
        for value in values:
            self.release(value.storage)

    def release(self, storage: Storage) -> None:
        storage.holders -= 1
        if storage.holders == 0:
            self.moments.add(self.live)
            self.live -= storage.unit

    def spike(self, *sizes: tuple[str, int]) -> None:
        """Memory that lives only inside one op."""
        self.moments.add(self.live + sum(self.unit(extent, width) for extent, width in sizes))

    # -- recording --------------------------------------------------------------------------

    def node(
        self,
        outputs: tuple[Value, ...],
        inputs: tuple[Value, ...],
        saved: Iterable[Value | Storage] = (),
        temporaries: tuple[tuple[str, int], ...] = (),
        aliases: bool = False,
        weights: tuple[ParameterGradient, ...] = (),
        computed: int = 0,
        over_arriving: bool = False,
        late: tuple[tuple[str, int], ...] = (),
    ) -> None:
        """Record an op; does nothing when no gradient can flow. `late`: gradients made when `temporaries` are gone."""
        wanting = tuple(value for value in inputs if value.requires_grad)
        if not self.grad or not (wanting or weights):
            return
        held = tuple(value if isinstance(value, Storage) else value.storage for value in saved)
        for storage in held:
            storage.holders += 1
        for value in outputs:
            value.requires_grad = True
        units = tuple(self.unit(extent, width) for extent, width in temporaries)
        units += tuple(-self.unit(extent, width) for extent, width in late)
        self.nodes.append(Node(outputs, wanting, held, units, aliases, weights, computed, over_arriving))

    def cached_cast(self, weight: Parameter, width: int) -> Storage:
        """The half-precision copy of a parameter under autocast.

        Copies of trainable fp32 parameters stay in autocast's cache (torch 2.13 aten/src/ATen/autocast_mode.cpp,
        cached_cast); what stays until the context ends is let go by `end_autocast`.
        """
        found = self._cast_weights.get(weight.extent)
        if found is None:
            found = Storage(self.unit(weight.extent, width))
            self.live += found.unit
            if weight.trains:
                self._cast_weights[weight.extent] = found
        return found

    def end_autocast(self) -> None:
        """Leave the autocast context: its cache is cleared."""
        for storage in self._cast_weights.values():
            self.release(storage)
        self._cast_weights.clear()

    # -- backward ---------------------------------------------------------------------------

    def arriving(self, output: Value) -> Storage:
        """The gradient of `output`, which the segment above left; every moment so far is counted with it."""
        gradient = Storage(self.unit(output.extent, output.width))
        self.live += gradient.unit
        self.moments = {moment + gradient.unit for moment in self.moments}
        return gradient

    def backward(self, output: Value, gradient: Storage | None = None) -> None:
        """Run the recorded nodes in reverse from `output`'s gradient (allocated here unless given)."""
        if gradient is None:
            gradient = self.arriving(output)
        output.gradient = gradient
        self.moments.add(self.live)
        for node in reversed(self.nodes):
            self._run(node)
        self.moments.add(self.live)
        self.nodes.clear()

    def _run(self, node: Node) -> None:
        arrived = [value.gradient for value in node.outputs if value.gradient is not None]
        produced: list[tuple[Value, Storage]] = []
        if arrived:
            produced = self._gradients(node, arrived[0])
            weights = [(entry, Storage(self.unit(entry.extent, entry.computed))) for entry in node.weights]
            self.live += sum(storage.unit for _, storage in weights)
            self.moments.update((self.live, self.live + sum(node.temporaries)))
            # casts happen while the node still has what it saved and what arrived (engine.cpp, validate_outputs)
            produced = [(value, self._in_dtype_of(value, gradient)) for value, gradient in produced]
        for storage in node.saved:
            self.release(storage)
        for value in node.outputs:
            if value.gradient is not None:
                self.release(value.gradient)
                value.gradient = None
        if arrived:
            for entry, storage in weights:
                self._keep(entry, storage)
        for value, gradient in produced:
            self._accumulate(value, gradient)

    def _in_dtype_of(self, value: Value, gradient: Storage) -> Storage:
        """The engine casts a gradient to its tensor's dtype after the node (validate_outputs)."""
        wanted = self.unit(value.extent, value.width)
        if gradient.unit == wanted or gradient.unit not in self._promoted(value):
            return gradient
        cast = Storage(wanted)
        self.live += wanted
        self.moments.add(self.live)
        self.release(gradient)
        return cast

    def _promoted(self, value: Value) -> tuple[int, ...]:
        return tuple(self._units.get((value.extent, width), 0) for width in (2, 4) if width != value.width)

    def _gradients(self, node: Node, arriving: Storage) -> list[tuple[Value, Storage]]:
        produced = []
        taken = () if node.over_arriving else node.saved
        for index, value in enumerate(node.inputs):
            width = node.computed or value.width
            if node.aliases:
                passed = taken[min(index, len(taken) - 1)] if taken else arriving
                passed.holders += 1
                produced.append((value, passed))
                continue
            gradient = Storage(self.unit(value.extent, width))
            self.live += gradient.unit
            produced.append((value, gradient))
        return produced

    def _keep(self, entry: ParameterGradient, storage: Storage) -> None:
        """A parameter's gradient arrives at its leaf: cast to the parameter's dtype, then kept."""
        if entry.computed != entry.kept:
            self.live += self.unit(entry.extent, entry.kept)
            self.release(storage)
        else:
            self.moments.add(self.live)
            self.live -= storage.unit
            self.live += self.unit(KEPT + entry.extent, entry.kept)
            return
        self.moments.add(self.live)
        self.live += self.unit(KEPT + entry.extent, entry.kept) - self.unit(entry.extent, entry.kept)

    def _accumulate(self, value: Value, gradient: Storage) -> None:
        old = value.gradient
        if old is None:
            value.gradient = gradient
            return
        if self.in_place and old.holders == 1:
            self.release(gradient)
            return
        total = Storage(self.unit(value.extent, value.width))
        self.live += total.unit
        self.moments.add(self.live)
        self.release(old)
        self.release(gradient)
        value.gradient = total

    # -- results ----------------------------------------------------------------------------

    def take_moments(self) -> PeakCandidates:
        """The peaks since the last call, without those that another one dominates."""
        guard = _lowest_bits(len(self._units)) << (_FIELD - 1)
        front: list[int] = []
        guarded: list[int] = []  # the same with the guards set
        self.moments.add(self.live)
        for moment in sorted(self.moments, key=_weight, reverse=True):
            if not any((other - moment) & guard == guard for other in guarded):
                front.append(moment)
                guarded.append(moment | guard)
        self.moments = set()
        return self._pack(front)

    def now(self, minus: Value | None = None) -> PeakCandidates:
        """What is live now, without `minus`."""
        return self._pack([self.live - (minus.storage.unit if minus is not None else 0)])

    def _pack(self, moments: list[int]) -> PeakCandidates:
        ordered = _in_order(moments, len(self._units))
        rows = [sorted(_difference(*pair), key=itemgetter(1)) for pair in zip((0, *ordered), ordered)]
        changes = [change for row in rows for change in row] + [(0, 0), (0, 0)]  # `itemgetter` of one gives no tuple
        pick = itemgetter(*[index for index, _ in changes])
        ends = tuple(accumulate(len(row) for row in rows))
        return PeakCandidates(self._listed, tuple(ordered), pick, tuple(number for _, number in changes), ends)


def counters(packed: int, units: int = 0) -> tuple[int, ...]:
    """How many tensors of each unit a live set has; at least `units` of them."""
    count = max(units, -(-packed.bit_length() // _FIELD))
    return unpack(f"<{count}H", packed.to_bytes(2 * count, "little"))


def _weight(packed: int) -> int:
    """Sum of the counters (2^16 is 1 modulo 2^16 - 1; a live set has far fewer tensors than that)."""
    return packed % _MASK


def _lowest_bits(units: int) -> int:
    """The lowest bit of each counter."""
    return ((1 << (_FIELD * units)) - 1) // _MASK


def _in_order(moments: list[int], units: int) -> list[int]:
    """Each time the moment of which the fewest counters differ from the last's."""
    lowest = _lowest_bits(units)
    left = list(moments)
    found: list[int] = []
    last = 0
    while left:
        steps = []
        for moment in left:
            folded = last ^ moment
            folded |= folded >> 8
            folded |= folded >> 4
            folded |= folded >> 2
            folded |= folded >> 1
            steps.append((folded & lowest).bit_count())
        last = left.pop(steps.index(min(steps)))
        found.append(last)
    return found


def _difference(before: int, after: int) -> list[tuple[int, int]]:
    """(unit index, by how much) where two live sets differ."""
    units = -(-max(before, after).bit_length() // _FIELD)
    both = zip(counters(before, units), counters(after, units))
    return [(index, new - old) for index, (old, new) in enumerate(both) if new != old]
