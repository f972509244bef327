"""ZeRO-3's replay of fetches, prefetches and releases beside the same rules on plain sets, call by call."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import assume, given
from hypothesis import strategies as st

from memlint.memory.sharding.zero.trace import (
    NOTHING_READ,
    ModuleCall,
    PrefetchSettings,
    ReadByModel,
    RepeatedUnit,
    Replay,
    replay,
)

LARGE = 10_000
NO_LIMIT = PrefetchSettings(1, LARGE, LARGE, LARGE)
ON_DEMAND = PrefetchSettings(1, 0, LARGE, 0)


def layers(repeat: int, **changes: bool) -> RepeatedUnit:
    return RepeatedUnit((ModuleCall((30,)), ModuleCall(()), ModuleCall((10,))), repeat, **changes)


def test_without_prefetch_and_reuse_one_module_is_held() -> None:
    found = replay((layers(3),), ON_DEMAND)
    assert (found.units[0].forward, found.units[0].backward, found.at_loss) == (30, 30, 0)


def test_without_limits_the_whole_model_is_held() -> None:
    """All of it arrives in one buffer, beside which the parameters are copied out."""
    found = replay((layers(3),), NO_LIMIT)
    assert (found.units[0].forward, found.at_loss) == (30 + 90 + 90, 120)


def test_parameters_that_do_not_divide_evenly_are_padded() -> None:
    assert replay((layers(1),), ON_DEMAND._replace(ranks=7)).units[0].forward == 35


def test_a_head_that_the_model_reads_stays_until_the_end() -> None:
    found = replay((layers(3),), ON_DEMAND, ReadByModel(50))
    assert (found.units[0].forward, found.units[0].backward) == (50 + 30, 50 + 30)
    assert (found.at_loss, found.at_loss_backward) == (50, 50)


def test_a_tied_head_that_the_model_reads_is_gathered_once() -> None:
    embedding = RepeatedUnit((ModuleCall((50,)),))
    found = replay((embedding, layers(3)), ON_DEMAND, ReadByModel(50, tied=True))
    assert [(one.forward, one.backward) for one in found.units] == [(50, 50), (50 + 30, 50 + 30)]


def test_a_head_that_the_model_reads_counts_once_between_two_uses() -> None:
    """Once for the model's call at the turn: beyond it nothing nearer than 70 elements is used again."""
    within = ON_DEMAND._replace(max_reuse_distance=70)
    assert replay((layers(3),), within, ReadByModel(50)).at_loss == 50 + 10
    assert replay((layers(3),), within, ReadByModel(70)).at_loss == 70


def test_frozen_parameters_stay_through_a_recomputation() -> None:
    """All 40 of the layer, until the backward of its last module has ended; trainable ones are released one by one."""
    modules = (ModuleCall(()), ModuleCall((30,), depth=1, frozen=True), ModuleCall((10,), depth=1, frozen=True))
    frozen = replay((RepeatedUnit(modules, 1, checkpointed=True),), ON_DEMAND).units[0]
    trained = tuple(module._replace(frozen=False) for module in modules)
    alone = replay((RepeatedUnit(trained, 1, checkpointed=True, reentrant=True),), ON_DEMAND).units[0]
    assert (frozen.backward, alone.backward) == (40, 30)


def test_the_last_module_waits_for_the_recomputation() -> None:
    """Its hook before the backward comes first, so that its 10 are there while the 30 are used again."""
    modules = (ModuleCall(()), ModuleCall((30,), depth=1), ModuleCall((10,), depth=1))
    assert replay((RepeatedUnit(modules, 1, checkpointed=True),), ON_DEMAND).units[0].each_backward == ((40, 30),)


def _nested(modules: list[ModuleCall]) -> tuple[ModuleCall, ...]:
    """The modules, none more than one deeper than the one before it."""
    found = modules[:1]
    for module in modules[1:]:
        found.append(module._replace(depth=min(module.depth, found[-1].depth + 1)))
    return tuple(found)


SIZES = st.lists(st.integers(1, 40), max_size=3).map(tuple)
CALLS = st.builds(
    ModuleCall,
    SIZES,
    st.sampled_from((0, 3)),
    st.just(False),
    st.booleans(),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from(("both", "both", "forward", "backward")),
)
MODULES = st.builds(lambda others: _nested([ModuleCall(()), *others]), st.lists(CALLS, min_size=1, max_size=4)).filter(
    lambda modules: all(any(one.passes != other for one in modules[1:]) for other in ("forward", "backward"))
)
UNITS = st.builds(RepeatedUnit, MODULES, st.integers(1, 6), st.booleans(), st.booleans(), st.booleans())
AMOUNTS = st.sampled_from((0, 7, 30, 90, 400, LARGE))
SETTINGS = st.builds(PrefetchSettings, st.sampled_from((1, 3)), AMOUNTS, AMOUNTS, AMOUNTS)


READ = st.builds(ReadByModel, st.integers(0, 40), st.just(False))


@given(st.lists(UNITS, min_size=1, max_size=4).map(tuple), SETTINGS, st.booleans(), READ)
def test_the_replay_holds_what_the_rules_say(
    units: tuple[RepeatedUnit, ...], settings: PrefetchSettings, ties: bool, read: ReadByModel
) -> None:
    if ties:
        embedding = RepeatedUnit((ModuleCall((25,)),))
        units = (embedding, *units, RepeatedUnit((*units[-1].modules, ModuleCall((), tied=True))))
        read = NOTHING_READ
    found = replay(units, settings, read)
    assume(all(len(one.each_backward) == unit.repeat for one, unit in zip(found.units, units, strict=True)))
    assert found == _by_the_rules(units, settings, read, found)


class Call(NamedTuple):
    """`own`: parameters; `numel`: elements that count for the reuse distance; `outlive`: autograd keeps what was
    gathered; `stays`: none of them is released; `freed`: what is released whatever is used again."""

    own: tuple[int, ...]
    numel: int
    outlive: bool = False
    stays: bool = False
    freed: tuple[int, ...] = ()


def _by_the_rules(
    units: tuple[RepeatedUnit, ...], settings: PrefetchSettings, read: ReadByModel, like: Replay
) -> Replay:
    """The same from `_Rules`, with every repetition of every unit."""
    repetitions: list[tuple[RepeatedUnit, list[Call]]] = []
    numbers = []
    sizes = [read.elements] if read.elements else []
    model = Call((0,), read.elements) if read.elements else Call((), 0)
    for number, unit in enumerate(units):
        for _ in range(unit.repeat):
            calls = []
            for module in unit.modules:
                own = (0,) if module.tied else tuple(range(len(sizes), len(sizes) + len(module.gathered)))
                sizes += module.gathered
                calls.append(Call(own, module.persistent + sum(sizes[parameter] for parameter in own), module.outlive))
            repetitions.append((unit, calls))
            numbers.append(number)
    order = [(("forward", 0), model)] if read.elements else []
    order += [
        (("forward", place), call)
        for place, (unit, calls) in enumerate(repetitions)
        for call, module in zip(calls, unit.modules, strict=True)
        if module.passes != "backward"
    ]
    turn = len(order)
    order.append((("model", 0), model))
    for place, (unit, calls) in reversed(list(enumerate(repetitions))):
        order += [((name, place), call) for name, call in _backward(unit, calls)] if unit.backward else []
    rules = _Rules(sizes, [call for _, call in order], settings, stays=0 if read.elements else None)
    held: dict[tuple[str, int], int] = {}
    at_loss = 0
    for index, (place, _) in enumerate(order):
        at_loss = rules.held() if index == turn else at_loss
        held[place] = max(held.get(place, 0), rules.call(index))
    found = []
    for number in range(len(units)):
        places = [place for place, owner in enumerate(numbers) if owner == number]
        each = tuple((held.get(("again", place), 0), held.get(("own", place), 0)) for place in reversed(places))
        forward = max(held[("forward", place)] for place in places)
        found.append(like.units[number]._replace(forward=forward, backward=max(map(max, each)), each_backward=each))
    return Replay(tuple(found), at_loss, held[("model", 0)])


def _backward(unit: RepeatedUnit, calls: list[Call]) -> list[tuple[str, Call]]:
    """The hooks of a unit's backward; with its place, `again` for those until the layer was computed again."""
    modules, without = unit.modules, [call._replace(outlive=False) for call in calls]
    order = [place for place in _last_first(modules) if modules[place].passes != "forward"]
    if not unit.checkpointed:
        return [("own", without[place]) for place in order]
    rooted = order[:1] == [0] and len(order) > 1
    again = [place for place in range(rooted, len(modules)) if modules[place].passes != "backward"]
    frozen = tuple(one for place in again if modules[place].frozen for one in calls[place].own)
    recomputed = [without[place]._replace(stays=modules[place].frozen) for place in again]
    if unit.reentrant:
        later = [without[place]._replace(stays=modules[place].frozen) for place in order[rooted:]]
        later[-1] = later[-1]._replace(freed=frozen)
        return [("again", one) for one in [without[0]] * rooted + recomputed] + [("own", one) for one in later]
    opening = 1
    while opening < len(order) and modules[order[opening]].depth > modules[order[opening - 1]].depth:
        opening += 1
    waiting = [without[place]._replace(stays=True) for place in order[:opening]]
    closing = recomputed.pop()._replace(stays=False, freed=frozen)
    own = [closing, *(without[place] for place in order[opening:])]
    return [("again", one) for one in (*waiting, *recomputed)] + [("own", one) for one in own]


def _last_first(modules: tuple[ModuleCall, ...]) -> list[int]:
    """Every module after what contains it, and after its later siblings with all that they contain."""
    above: list[int] = []
    key: dict[int, tuple[int, ...]] = {}
    for place, module in enumerate(modules):
        above = [one for one in above if modules[one].depth < module.depth]
        above.append(place)
        key[place] = tuple(-one for one in above)
    return sorted(key, key=lambda place: key[place])


class _Rules:
    """partitioned_param_coordinator.py, one call at a time. `gathers`: parameters on their way together, with those of
    them that were waited for; `storages`: elements of what is gathered; `stays`: a parameter that is not released."""

    def __init__(self, sizes: list[int], calls: list[Call], settings: PrefetchSettings, stays: int | None) -> None:
        self.sizes, self.calls, self.settings, self.stays = sizes, calls, settings, stays
        self.uses = [(parameter, index) for index, (own, *_) in enumerate(calls) for parameter in own]
        self.passed: dict[int, int] = {}  # the last use of each parameter that the prefetcher has seen
        self.gathers: list[tuple[list[int], set[int]]] = []
        self.storages: dict[int, int] = {}

    def held(self) -> int:
        return sum(self.storages.values()) + sum(self._flat(together) for together, _ in self.gathers)

    def _flat(self, together: list[int]) -> int:
        return sum(-(-self.sizes[one] // self.settings.ranks) * self.settings.ranks for one in together)

    def _known(self) -> set[int]:
        on_their_way = {one for together, waited in self.gathers for one in together if one not in waited}
        return on_their_way | set(self.storages)

    def _gather(self, together: list[int]) -> None:
        if len(together) == 1:
            self.storages[together[0]] = self._flat(together)
        elif together:
            self.gathers.append((together, set()))

    def call(self, index: int) -> int:
        parameters, _, outlive, stays, freed = self.calls[index]
        self._gather([parameter for parameter in parameters if parameter not in self._known()])
        most = self.held()
        for parameter in parameters:
            most = max(most, self._wait(parameter))
        while self.uses and self.uses[0][1] <= index:
            parameter, use = self.uses.pop(0)
            self.passed[parameter] = use
        self._prefetch()
        most = max(most, self.held())
        if outlive:
            self.storages |= dict.fromkeys(parameters, 0)
        for parameter in parameters:
            if parameter == self.stays or stays:
                continue
            if not self._is_used_soon(index, parameters) and self.passed[parameter] <= index + 1:
                del self.storages[parameter]
        for parameter in freed:
            self.storages.pop(parameter, None)
        return most

    def _wait(self, parameter: int) -> int:
        for together, waited in self.gathers:
            if parameter in together and parameter not in waited:
                self.storages |= {one: self.sizes[one] for one in together if not waited}
                waited.add(parameter)
                break
        most = self.held()
        self.gathers = [(together, waited) for together, waited in self.gathers if len(waited) < len(together)]
        return most

    def _prefetch(self) -> None:
        live = sum(self.sizes[one] for one in self._known())
        room = min(self.settings.max_live_parameters - live, self.settings.prefetch_bucket_size)
        together: list[int] = []
        while room > 0 and self.uses:
            parameter, use = self.uses.pop(0)
            self.passed[parameter] = use
            if parameter not in together and parameter not in self._known():
                together.append(parameter)
                room -= self.sizes[parameter]
        self._gather(together)

    def _is_used_soon(self, index: int, parameters: tuple[int, ...]) -> bool:
        distance = 0
        for own, numel, *_ in self.calls[index + 1 :]:
            if own == parameters:
                return distance < self.settings.max_reuse_distance
            distance += numel
        return False
