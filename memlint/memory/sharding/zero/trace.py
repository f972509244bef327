"""A replay of ZeRO-3's fetch, prefetch and release rules: how many gathered elements are alive during a step.

DeepSpeed 0.19.8 runtime/zero/partitioned_param_coordinator.py. Four facts decide the peak:
- Each call of a module prefetches another `prefetch_bucket_size` elements, however much is in flight already, until
  `max_live_parameters` are available (:453-454). Only prefetching obeys that limit.
- A parameter stays gathered after its use if it is used again within `max_reuse_distance` elements of module calls
  (:654-664), or if the prefetcher has passed its next use (:648-650).
- Parameters gathered together share one flat buffer, and each is copied out of it. The buffer is freed when the last of
  them was waited for (partition_parameters.py:761-802). A parameter gathered by itself is used in place (:1373-1413).
- Hooks run in the order of autograd: the backward of a module comes before that of the modules in it, and the hooks of
  a checkpointed layer, of what its output comes from last and of what contains that run before the layer is computed
  again, which they wait for. A frozen parameter that is gathered for the recomputation stays until the backward of the
  module whose backward was the last to begin has ended, and is released then whatever is used again (:389-394, :500).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate

from memlint._record import NamedTuple


class ModuleCall(NamedTuple):
    """One call of a module: elements of each of its own parameters that is gathered, and of all that are persistent.

    `tied`: the head of tied embeddings, which uses the first module's parameters again. `outlive`: autograd keeps what
    was gathered for the forward; from then on it counts as an activation. `depth`: a module contains those that follow
    with a greater depth. `frozen`: none of its parameters trains. `passes`: "both", or the one of "forward" and
    "backward" in which it is called.
    """

    gathered: tuple[int, ...]
    persistent: int = 0
    tied: bool = False
    outlive: bool = False
    depth: int = 0
    frozen: bool = False
    passes: str = "both"


class PrefetchSettings(NamedTuple):
    """ZeRO-3's settings, in elements. `ranks`: how many share a parameter."""

    ranks: int
    prefetch_bucket_size: int
    max_live_parameters: int
    max_reuse_distance: int


class Gathered(NamedTuple):
    """Most elements held at once while a unit runs. `each_backward`: in each repetition, the last one first, while its
    forward is computed again and in its own backward; empty where not all of them were replayed."""

    forward: int
    backward: int
    each_backward: tuple[tuple[int, int], ...] = ()


class Replay(NamedTuple):
    """The result for each unit. `at_loss`: elements still gathered when the forward of the last unit has ended.
    `at_loss_backward`: with what the model itself, whose backward begins before that of any of its modules, prefetches
    then."""

    units: tuple[Gathered, ...]
    at_loss: int
    at_loss_backward: int


class ReadByModel(NamedTuple):
    """A head whose weight the model itself reads, without a call of the head. `elements`: 0 where there is none.
    `tied`: the weight is the first parameter of the model, its embedding.

    DeepSpeed makes it an external parameter of the model (parameter_offload.py:88): fetched with the model's own call,
    before everything else, and in use (`ds_active_sub_modules`, :640) until the model's forward ends. The model's
    backward fetches it again. What it gets are token ids, which need no gradient, so that no hook ends its backward:
    the weight stays until the backward of the step has ended (`release_backward_leftovers`).
    """

    elements: int = 0
    tied: bool = False


NOTHING_READ = ReadByModel()


class RepeatedUnit(NamedTuple):
    """`repeat` equal units of the model, one after the other. `modules`: in the order of the forward, each before what
    it contains. `checkpointed`: their backward runs the forward again; `reentrant`: by the older of torch's two ways.
    `backward`: there is one, since something before or in the unit trains."""

    modules: tuple[ModuleCall, ...]
    repeat: int = 1
    checkpointed: bool = False
    backward: bool = True
    reentrant: bool = False


def replay(
    units: tuple[RepeatedUnit, ...], settings: PrefetchSettings, read_by_model: ReadByModel = NOTHING_READ
) -> Replay:
    """Peak of gathered elements for each unit, in forward and backward, once DeepSpeed knows the order of module calls
    (from the third step on).

    The number of ranks matters only for parameters that do not divide evenly among them, which are padded.
    """
    sizes = {size for unit in units for module in unit.modules for size in module.gathered}
    even = not any(size % settings.ranks for size in (*sizes, read_by_model.elements))
    return _replay(units, settings._replace(ranks=1) if even else settings, read_by_model)


@lru_cache(maxsize=512)
def _replay(
    units: tuple[RepeatedUnit, ...], settings: PrefetchSettings, read_by_model: ReadByModel = NOTHING_READ
) -> Replay:
    step, owners = _forward(units, settings, read_by_model)
    count, turn = len(owners), len(step.places)
    step.append(_model_call(read_by_model), 0, 0)
    _append_backward(step, owners)
    coordinator = _Coordinator(step, settings)
    forward = coordinator.peaks(0, turn, count)
    at_loss = coordinator.held
    (at_loss_backward,) = coordinator.peaks(turn, turn + 1, 1)
    after = coordinator.peaks(turn + 1, len(step.places), 2 * count)
    backward, recomputed = after[:count], after[count:]
    found = []
    for number, unit in enumerate(units):
        places = [place for place, owner in enumerate(owners) if owner.unit == number]
        each = tuple((recomputed[place], backward[place]) for place in reversed(places))
        most = max((forward[place] for place in places), default=0)
        found.append(Gathered(most, max(map(max, each), default=0), each if len(each) == unit.repeat else ()))
    return Replay(tuple(found), at_loss, at_loss_backward)


class _Repetition(NamedTuple):
    """One repetition of a unit: the unit's number, its calls, and the number of its first parameter in the model."""

    unit: int
    calls: _UnitCalls
    first: int


def _forward(
    units: tuple[RepeatedUnit, ...], settings: PrefetchSettings, read_by_model: ReadByModel
) -> tuple[_Step, list[_Repetition]]:
    """A step with the calls of its forward, and the repetitions that they are of. Their places are their indexes."""
    step = _Step(first_stays=read_by_model.elements > 0)
    if read_by_model.elements:
        step.append(_model_call(read_by_model), 0, 0)
        step.sizes += [] if read_by_model.tied else [read_by_model.elements]
    found: list[_Repetition] = []
    for number, unit in enumerate(units):
        tied_to = (len(step.sizes), step.sizes[0]) if any(module.tied for module in unit.modules) else _NOTHING_TIED
        calls = _unit_calls(unit._replace(repeat=1), *tied_to)
        for _ in range(_replayed(unit, settings)):
            step.append(calls.forward, len(step.sizes), len(found))
            found.append(_Repetition(number, calls, len(step.sizes)))
            step.sizes += calls.sizes
    return step, found


def _append_backward(step: _Step, repetitions: list[_Repetition]) -> None:
    """Appends the calls of the backward, whose places are the indexes of the repetitions; those of a recomputation come
    after all of them."""
    for place in range(len(repetitions) - 1, -1, -1):
        _, calls, first = repetitions[place]
        for section in calls.backward:
            step.append(section.calls, first, place + (len(repetitions) if section.again else 0))


def _replayed(unit: RepeatedUnit, settings: PrefetchSettings) -> int:
    """Repetitions of a unit that are replayed; those beyond which nothing changes are left out."""
    return min(unit.repeat, _units_to_replay(unit, settings))


def _units_to_replay(unit: RepeatedUnit, settings: PrefetchSettings) -> int:
    """Repetitions that prefetching and reuse can span before and after the turn from forward to backward, and some."""
    size = sum(sum(module.gathered) for module in unit.modules)
    if not size:
        return 3
    ahead = settings.max_live_parameters if settings.prefetch_bucket_size else 0
    return 8 + 3 * (ahead // size + 1) + settings.max_reuse_distance // size


class _Call(NamedTuple):
    """One call. `parameters`: numbered from the unit's first one; `numel`: elements of all its parameters, persistent
    ones included. `outlive`, `frozen`: as in `ModuleCall`. `stay`: its parameters are not released after it. `freed`:
    parameters that are released after it, whatever is used again."""

    parameters: tuple[int, ...]
    numel: int
    outlive: bool = False
    frozen: bool = False
    stay: bool = False
    freed: tuple[int, ...] = ()


class _Calls(NamedTuple):
    """Calls in their order. `parameters`: of all of them; `ends`: where those of each call end. `freed`: the places of
    calls that free something."""

    calls: tuple[_Call, ...]
    parameters: tuple[int, ...]
    ends: tuple[int, ...]
    freed: tuple[int, ...]


def _in_order(calls: tuple[_Call, ...]) -> _Calls:
    parameters = tuple(parameter for call in calls for parameter in call.parameters)
    ends = tuple(accumulate(len(call.parameters) for call in calls))
    return _Calls(calls, parameters, ends, tuple(place for place, call in enumerate(calls) if call.freed))


def _model_call(read: ReadByModel) -> _Calls:
    """The call of the model itself, which has no parameters but the one that it reads, the first of all."""
    return _in_order((_Call((0,) if read.elements else (), read.elements),))


class _Section(NamedTuple):
    """Calls of a backward. `again`: their peak counts as the recomputation's."""

    calls: _Calls
    again: bool = False


class _UnitCalls(NamedTuple):
    """The calls of one repetition of a unit. `sizes`: elements of each of its parameters."""

    forward: _Calls
    backward: tuple[_Section, ...]
    sizes: tuple[int, ...]


_NOTHING_TIED = (0, 0)


@lru_cache(maxsize=256)
def _unit_calls(unit: RepeatedUnit, before: int, first_size: int) -> _UnitCalls:
    """The calls of one repetition of a unit. Where a module is tied to the model's first parameter: `before`: how many
    parameters come before the unit's own; `first_size`: elements of the first."""
    sizes: list[int] = []
    calls: list[_Call] = []
    for module in unit.modules:
        own = (-before,) if module.tied else tuple(range(len(sizes), len(sizes) + len(module.gathered)))
        elements = module.persistent + (first_size if module.tied else sum(module.gathered))
        calls.append(_Call(own, elements, module.outlive, module.frozen))
        sizes += module.gathered
    forward = tuple(call for call, module in zip(calls, unit.modules, strict=True) if module.passes != "backward")
    return _UnitCalls(_in_order(forward), _backward(unit, calls, forward) if unit.backward else (), tuple(sizes))


def _backward(unit: RepeatedUnit, calls: list[_Call], forward: tuple[_Call, ...]) -> tuple[_Section, ...]:
    """The calls of a unit's backward.

    The forward of a layer is checkpointed without the layer's own hooks (transformers 5.23 modeling_layers.py:84). It
    is computed again when something saved in it is needed: after the hooks of the modules whose output is the layer's.
    The recomputation ends with the last saved tensor, inside of the last module, whose hook after the forward does not
    run (torch 2.13 utils/checkpoint.py, early stop). The reentrant one runs all of the forward, and there are no hooks
    for the backward before it but the layer's.
    """
    order = [place for place in _backward_order(unit.modules) if unit.modules[place].passes != "forward"]
    backward = tuple(calls[place]._replace(outlive=False) for place in order)
    if not unit.checkpointed:
        return (_Section(_in_order(backward)),)
    depths = [unit.modules[place].depth for place in order]
    has_root = len(depths) > 1 and min(depths[1:]) > depths[0]
    again = tuple(call._replace(outlive=False, stay=call.frozen) for call in forward[has_root:])
    frozen = tuple(parameter for call in again if call.frozen for parameter in call.parameters)
    if unit.reentrant:
        first, others = backward[:has_root], [call._replace(stay=call.frozen) for call in backward[has_root:]]
        others[-1] = others[-1]._replace(freed=frozen)
        return _Section(_in_order((*first, *again)), True), _Section(_in_order(tuple(others)))
    opening = _opening(depths)
    first = tuple(call._replace(stay=True) for call in backward[:opening])
    last = again[-1]._replace(stay=False, freed=frozen)
    return _Section(_in_order((*first, *again[:-1])), True), _Section(_in_order((last, *backward[opening:])))


def _backward_order(modules: tuple[ModuleCall, ...], first: int = 0) -> list[int]:
    """Places of the modules, the last one first, but each before what it contains. `first`: the place of the first."""
    found: list[int] = []
    end = len(modules)
    for place in range(len(modules) - 1, -1, -1):
        if modules[place].depth == modules[0].depth:
            found += [first + place, *_backward_order(modules[place + 1 : end], first + place + 1)]
            end = place
    return found


def _opening(depths: list[int]) -> int:
    """How many modules begin with each containing the next, the last of them included."""
    count = 1
    while count < len(depths) and depths[count] > depths[count - 1]:
        count += 1
    return count


class _Step:
    """All calls of a step in their order, in lists by call, by use and by parameter.

    By call: `begins`, its first use; `calls`; `freed`, by number in the model; `places`, where its peak counts. By use:
    `queue`, its parameter. DeepSpeed's prefetcher goes through these uses once, ahead of the calls. By parameter:
    `sizes`, its elements. `first_stays`: the first parameter is never released.
    """

    def __init__(self, first_stays: bool = False) -> None:
        self.first_stays = first_stays
        self.sizes: list[int] = []
        self.queue: list[int] = []
        self.begins = [0]
        self.calls: list[_Call] = []
        self.freed: dict[int, tuple[int, ...]] = {}
        self.places: list[int] = []

    def append(self, calls: _Calls, first: int, place: int) -> None:
        """Appends the calls of a repetition, whose parameters are numbered from `first` on."""
        begin = len(self.queue)
        for place_of_call in calls.freed:
            freed = calls.calls[place_of_call].freed
            self.freed[len(self.calls) + place_of_call] = tuple(first + parameter for parameter in freed)
        self.queue += [first + parameter for parameter in calls.parameters]
        self.begins += [begin + end for end in calls.ends]
        self.calls += calls.calls
        self.places += [place] * len(calls.ends)

    def passed_when_kept(self, max_reuse_distance: int) -> list[int]:
        """For each use of a parameter: the later use for which it is kept once the prefetcher has passed that one. -1
        where it is kept whatever the prefetcher does: its next use is nearer than `max_reuse_distance` (:654-664), or
        it stays.

        The later use is the next one, or the one after it where the very next call has the next one: DeepSpeed counts
        calls up before it compares, so that this one does not count (:648-650).
        """
        never, calls = len(self.queue), len(self.places)
        elements_before = [0, *accumulate(call.numel for call in self.calls)]  # by call
        next_use, next_call = [never] * len(self.sizes), [calls] * len(self.sizes)  # by parameter
        following, found = [never] * (never + 1), [never] * never  # by use; no use follows the one that never comes
        if self.first_stays:
            found = [-1 if parameter == 0 else never for parameter in self.queue]
        for call in range(calls - 1, -1, -1):
            begin, end = self.begins[call], self.begins[call + 1]
            if begin == end:
                continue
            reused_before = elements_before[call + 1] + max_reuse_distance
            for use in range(begin, end):
                parameter = self.queue[use]
                later, caller = next_use[parameter], next_call[parameter]
                next_use[parameter], next_call[parameter] = use, call
                if later == never:
                    continue
                following[use] = later
                if elements_before[caller] < reused_before:
                    found[use] = -1
                elif found[use] != -1:
                    found[use] = following[later] if caller == call + 1 else later
        return found


class _AllGather:
    """One all-gather of several parameters: its flat buffer's elements and the parameters in it."""

    __slots__ = ("arrived", "not_waited_for", "parameters", "size")

    def __init__(self, size: int, parameters: list[int]) -> None:
        self.size = size
        self.parameters = parameters
        self.not_waited_for = len(parameters)
        self.arrived = False


class _Coordinator:
    """DeepSpeed's parameter coordinator in one step. Counts are elements, not bytes.

    `live`: gathered or on its way, which `max_live_parameters` limits. `held`: what memory holds: the parameters' own
    storages and the flat buffers of all-gathers. `passed`: uses that the prefetcher or a call has passed.
    """

    def __init__(self, step: _Step, settings: PrefetchSettings) -> None:
        self.step = step
        self.settings = settings
        self.padded = [-(-size // settings.ranks) * settings.ranks for size in step.sizes]
        self.passed_when_kept = step.passed_when_kept(settings.max_reuse_distance)
        self.passed = self.live = self.held = 0
        self.is_gathered = [False] * len(step.sizes)  # or on its way
        self.in_flight: dict[int, _AllGather] = {}  # by parameter, until it was waited for
        self.own_elements = [0] * len(step.sizes)  # of each parameter's own storage

    def peaks(self, first: int, end: int, places: int) -> list[int]:
        """Most elements held at once in the calls from `first` to `end`, by place: a repetition of a unit, or its
        recomputation."""
        found = [0] * places
        step, most, last = self.step, self.settings.max_live_parameters, len(self.step.queue)
        calls = zip(step.begins[first:end], step.begins[first + 1 : end + 1], step.calls[first:end])
        for number, (begin, stop, call) in enumerate(calls, first):
            peak = self._fetch(begin, stop) if begin < stop else 0
            if self.passed < last and self.live < most:
                self._prefetch()
            if self.held > peak:
                peak = self.held
            place = step.places[number]
            if peak > found[place]:
                found[place] = peak
            if begin < stop:
                if call.outlive:
                    self._leave_to_autograd(begin, stop)
                if not call.stay:
                    self._release(begin, stop)
            if number in step.freed:
                for parameter in step.freed[number]:
                    self._free(parameter)
        return found

    def _leave_to_autograd(self, begin: int, stop: int) -> None:
        """What the call uses is counted no more, whenever it is released."""
        for parameter in self.step.queue[begin:stop]:
            self.held -= self.own_elements[parameter]
            self.own_elements[parameter] = 0

    def _fetch(self, begin: int, stop: int) -> int:
        """Gathers what a call uses and waits for it. Returns the most elements held meanwhile."""
        if self.passed < stop:
            self.passed = stop
        if stop == begin + 1:  # most calls use one parameter
            parameter = self.step.queue[begin]
            if not self.is_gathered[parameter]:
                self._gather_in_place(parameter)
            elif parameter in self.in_flight:
                return self._wait(parameter)
            return self.held
        parameters = self.step.queue[begin:stop]
        missing = [parameter for parameter in parameters if not self.is_gathered[parameter]]
        if missing:
            self._gather(missing)
        return max(map(self._wait, parameters)) if self.in_flight else 0

    def _gather(self, parameters: list[int]) -> None:
        """Gathers parameters together, into one flat buffer."""
        if len(parameters) == 1:
            self._gather_in_place(parameters[0])
            return
        sizes = self.step.sizes
        for parameter in parameters:
            self.is_gathered[parameter] = True
            self.live += sizes[parameter]
        gather = _AllGather(sum([self.padded[p] for p in parameters]), parameters)
        self.in_flight.update(dict.fromkeys(parameters, gather))
        self.held += gather.size

    def _gather_in_place(self, parameter: int) -> None:
        """Gathers one parameter alone; it does not matter when it is waited for."""
        self.is_gathered[parameter] = True
        self.live += self.step.sizes[parameter]
        self.own_elements[parameter] = self.padded[parameter]
        self.held += self.padded[parameter]

    def _wait(self, parameter: int) -> int:
        """Waits for a parameter: the first wait copies all parameters out of the flat buffer, the last one frees it."""
        gather = self.in_flight.pop(parameter, None)
        if gather is None:
            return self.held
        if not gather.arrived:
            gather.arrived = True
            for other in gather.parameters:
                self.own_elements[other] = self.step.sizes[other]
                self.held += self.step.sizes[other]
        peak = self.held
        gather.not_waited_for -= 1
        if not gather.not_waited_for:
            self.held -= gather.size
        return peak

    def _prefetch(self) -> None:
        room = min(self.settings.max_live_parameters - self.live, self.settings.prefetch_bucket_size)
        queue, passed, is_gathered = self.step.queue, self.passed, self.is_gathered
        wanted: list[int] = []
        while room > 0 and passed < len(queue):
            parameter = queue[passed]
            passed += 1
            if not is_gathered[parameter]:
                is_gathered[parameter] = True
                wanted.append(parameter)
                room -= self.step.sizes[parameter]
        self.passed = passed
        if wanted:
            self._gather(wanted)

    def _release(self, begin: int, stop: int) -> None:
        """Releases the parameters of a call that are not kept for their next use."""
        passed, kept = self.passed, self.passed_when_kept
        for use in range(begin, stop):
            if passed <= kept[use]:
                self._free(self.step.queue[use])

    def _free(self, parameter: int) -> None:
        if self.is_gathered[parameter]:
            self.is_gathered[parameter] = False
            self.live -= self.step.sizes[parameter]
            self.held -= self.own_elements[parameter]
