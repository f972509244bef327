"""Rules in their order, found by what a run is. The shipped ones are decoded one by one, when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache

from memlint.expressions.facts import Facts
from memlint.ruleset.index import Index, index_for
from memlint.ruleset.rule import Rule, concerns

Names = tuple[tuple[str, str], ...]  # (id, name)


class RuleSet:
    """`names()`: of each rule. `rule(number)`: the one at this place in them. `index(format)`: of the rules for runs of
    this format, by their numbers. Each is asked once for the same answer.

    `is_in_force`: which rules the set has (None: all of them), so that settings decode no rule that is never asked.
    """

    __slots__ = ("_index", "_is_in_force", "_names", "_numbers", "_rule")

    def __init__(
        self,
        names: Callable[[], Names],
        rule: Callable[[int], Rule],
        index: Callable[[str], Index],
        is_in_force: Callable[[Rule], bool] | None = None,
    ) -> None:
        self._names = cache(names)
        self._rule = read = cache(rule)
        self._index = cache(index)
        self._is_in_force = None if is_in_force is None else cache(lambda number: is_in_force(read(number)))
        self._numbers: dict[str, int] = {}  # by id, once one is asked for

    def where(self, is_in_force: Callable[[Rule], bool]) -> RuleSet:
        """The rules of this set, which has all there are, that are in force."""
        assert self._is_in_force is None
        return RuleSet(self._names, self._rule, self._index, is_in_force)

    @property
    def names(self) -> Names:
        return self._names() if self._is_in_force is None else tuple((rule.id, rule.name) for rule in self)

    def __iter__(self) -> Iterator[Rule]:
        return self._of(range(len(self._names())))

    def find(self, identifier: str) -> Rule | None:
        """The rule with this id."""
        if not self._numbers:
            self._numbers = {name: number for number, (name, _) in enumerate(self._names())}
        number = self._numbers.get(identifier)
        return None if number is None else next(self._of((number,)), None)

    def candidates(self, facts: Facts, format_name: str) -> list[Rule]:
        """The rules that may be true of a run, in their order."""
        found = self._of(self._index(format_name).candidates(facts))
        return [rule for rule in found if concerns(rule, format_name, facts.run.purpose)]

    def _of(self, numbers: Iterable[int]) -> Iterator[Rule]:
        left = numbers if self._is_in_force is None else filter(self._is_in_force, numbers)
        return map(self._rule, left)


def listed(rules: Iterable[Rule]) -> RuleSet:
    """A set of rules that are at hand."""
    rules = tuple(rules)
    return RuleSet(
        lambda: tuple((rule.id, rule.name) for rule in rules),
        rules.__getitem__,
        lambda format_name: index_for(rules, format_name),
    )
