"""A set of rules that finds the ones which may apply to a run. Shipped rules are decoded one by one, on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache

from memlint.expressions.facts import Facts
from memlint.ruleset.index import Index, index_for
from memlint.ruleset.rule import Rule, concerns

Names = tuple[tuple[str, str], ...]  # (id, name)


class RuleSet:
    """A rule's number is its place among all rules. `names()`: id and name of every rule. `rule(number)`: decodes that
    rule. `index(format)`: finds the numbers of the rules that may apply to a run of this format. All are cached.

    `condition`: the set has only the rules for which it is true (None: all). It is tested when a rule is asked for, so
    that rules which no file needs are never decoded.
    """

    __slots__ = ("_condition", "_index", "_is_in_set", "_names", "_numbers", "_rule")

    def __init__(
        self,
        names: Callable[[], Names],
        rule: Callable[[int], Rule],
        index: Callable[[str], Index],
        condition: Callable[[Rule], bool] | None = None,
    ) -> None:
        self._names = cache(names)
        self._rule = read = cache(rule)
        self._index = cache(index)
        self._condition = condition
        self._is_in_set = None if condition is None else cache(lambda number: condition(read(number)))
        self._numbers: dict[str, int] = {}  # id -> number; filled on demand

    def where(self, condition: Callable[[Rule], bool]) -> RuleSet:
        """The rules of this set for which `condition` is true."""
        outer = self._condition
        both = condition if outer is None else lambda rule: outer(rule) and condition(rule)
        return RuleSet(self._names, self._rule, self._index, both)

    @property
    def names(self) -> Names:
        """(id, name) of each rule of the set."""
        return self._names() if self._condition is None else tuple((rule.id, rule.name) for rule in self)

    def __iter__(self) -> Iterator[Rule]:
        return self._of(range(len(self._names())))

    def find(self, identifier: str) -> Rule | None:
        """The rule with this id."""
        if not self._numbers:
            self._numbers = {name: number for number, (name, _) in enumerate(self._names())}
        number = self._numbers.get(identifier)
        return None if number is None else next(self._of((number,)), None)

    def candidates(self, facts: Facts, format_name: str) -> list[Rule]:
        """The rules that may apply to a run, in their order."""
        found = self._of(self._index(format_name).candidates(facts))
        return [rule for rule in found if concerns(rule, format_name, facts.run.purpose)]

    def _of(self, numbers: Iterable[int]) -> Iterator[Rule]:
        in_set = numbers if self._is_in_set is None else filter(self._is_in_set, numbers)
        return map(self._rule, in_set)


def listed(rules: Iterable[Rule]) -> RuleSet:
    """A set of rules that are already in memory."""
    rules = tuple(rules)
    return RuleSet(
        lambda: tuple((rule.id, rule.name) for rule in rules),
        rules.__getitem__,
        lambda format_name: index_for(rules, format_name),
    )
