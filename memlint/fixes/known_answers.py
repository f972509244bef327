"""Whether a combination of changes is enough, as far as other combinations tell: of two, the one with more or stronger
changes needs no more memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from memlint.fixes.moves.catalog import GRADED_GROUPS, MAY_COST_MEMORY
from memlint.fixes.proposed_change import ProposedChange

Titles = Mapping[str, str]  # of the changes of a combination, by group


def by_group(chosen: Iterable[ProposedChange]) -> Titles:
    return {step.group: step.title for step in chosen}


class KnownAnswers:
    """The combinations that were enough and those that were not."""

    def __init__(self) -> None:
        self._too_few: list[Titles] = []
        self._enough: list[Titles] = []
        self._strengths: dict[str, int] = {}  # of changes within their group, by title: the weakest has 0

    def see(self, steps: Iterable[ProposedChange]) -> None:
        """Learns how strong changes are, which stand from the weakest of a group to its strongest."""
        for _, group in groupby(sorted(steps, key=_group), _group):
            for strength, step in enumerate(group):
                self._strengths.setdefault(step.title, strength)

    def put(self, chosen: Titles, is_enough: bool) -> None:
        (self._enough if is_enough else self._too_few).append(chosen)

    def are_enough(self, chosen: Titles) -> bool:
        """Whether these are more or stronger changes than some that were enough."""
        return any(self._is_no_more(few, chosen) for few in self._enough)

    def are_too_few(self, chosen: Titles) -> bool:
        """Whether these are fewer or weaker changes than some that were not enough."""
        return any(self._is_no_more(chosen, many) for many in self._too_few)

    def _is_no_more(self, few: Titles, many: Titles) -> bool:
        """Whether a run with `few` needs at least what one with `many` needs: `many` has each of its changes or a
        stronger one, and beyond them none that may raise a peak."""
        if not all(group in many and self._is_as_strong(many[group], few[group], group) for group in few):
            return False
        return not any(group in many and group not in few for group in MAY_COST_MEMORY)

    def _is_as_strong(self, title: str, other: str, group: str) -> bool:
        if title == other:
            return True
        return group in GRADED_GROUPS and self._strengths.get(title, 0) > self._strengths.get(
            other, len(self._strengths)
        )


def _group(step: ProposedChange) -> str:
    return step.group
