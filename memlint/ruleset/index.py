"""An index of rules by one necessary condition of each (`necessary`), which tells the rules that can be true of a run.

A rule that needs `parallelism.engine == "fsdp"`, or a key that the file does not have, need not be evaluated. Most
rules are like that: of several hundred, about ten remain for a run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from operator import attrgetter
from typing import Any

from memlint.expressions.derived_facts import READERS
from memlint.expressions.facts import Evaluate, Facts
from memlint.expressions.values import equal
from memlint.ruleset.rule import Rule, concerns_format

Table = dict[Any, list[int]]  # the numbers of the rules, by a value that they need


class Index:
    """Which of some rules, by their numbers, may be true of a run.

    `always`: those of which no condition is known. `tables`: by kind and name of atoms, for each value the rules with
    that atom.
    """

    __slots__ = ("_always", "_by_key", "_by_value", "_unlike")

    def __init__(self, always: Iterable[int], tables: Mapping[tuple[str, str], Table]) -> None:
        self._always = tuple(always)
        self._by_key = [(name, table) for (kind, name), table in tables.items() if kind == "key"]
        self._by_value = _readers(tables, ("said", "field", "fact"))
        self._unlike = _readers(tables, ("unlike",))

    def candidates(self, facts: Facts) -> list[int]:
        """The rules that may be true of a run, in their order."""
        found = set(self._always)
        for section, keys in self._by_key:
            present = facts.raw.get(section)
            if isinstance(present, dict):
                for key in present.keys() & keys.keys():
                    found.update(keys[key])
        for read, values in self._by_value:
            try:
                found.update(values.get(read(facts), ()))
            except Exception:  # it cannot be read or hashed
                found.update(chain.from_iterable(values.values()))
        for read, values in self._unlike:
            found.update(_numbers_of_others(read, values, facts))
        return sorted(found)


def index_for(rules: Iterable[Rule], format_name: str) -> Index:
    """The index of the rules for runs of this format; a rule's number is its place in `rules`."""
    return Index(*tables_for(rules, format_name))


def tables_for(rules: Iterable[Rule], format_name: str) -> tuple[list[int], dict[tuple[str, str], Table]]:
    """What an index for this format is made of."""
    always: list[int] = []
    tables: dict[tuple[str, str], Table] = {}
    for number, rule in enumerate(rules):
        if not concerns_format(rule, format_name):
            continue
        if rule.needs is None:
            always.append(number)
        for kind, name, value in rule.needs or ():
            tables.setdefault((kind, name), {}).setdefault(value, []).append(number)
    return always, tables


def _readers(tables: Mapping[tuple[str, str], Table], kinds: Collection[str]) -> list[tuple[Evaluate, Table]]:
    return [(_reader_of(*key), table) for key, table in tables.items() if key[0] in kinds]


def _numbers_of_others(read: Evaluate, values: dict[Any, list[int]], facts: Facts) -> Iterable[int]:
    """The rules that need another value than the one that is read."""
    try:
        here = read(facts)
    except Exception:
        here = _ABSENT
    return [number for value, numbers in values.items() if equal(here, value) is False for number in numbers]


_ABSENT = object()


def _reader_of(kind: str, name: str) -> Evaluate:
    if kind == "fact":
        return READERS[name]
    if kind == "said":
        section, _, key = name.partition("/")
        return lambda facts: facts.raw.get(section, {}).get(key, _ABSENT)
    read = attrgetter(name)
    return lambda facts: read(facts.run)
