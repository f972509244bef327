"""What the rules found in one document, and what becomes of findings that have one cause."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from memlint._record import NamedTuple
from memlint.findings import Finding

Host = tuple[int, str]  # the index of a run, and a rule with a finding on it
FoldsInto = Callable[[str], tuple[str, ...]]  # by the id of a rule


class Found(NamedTuple):
    """A finding, the index of its run (-1: the whole file), and whether the planner should look for fixes."""

    finding: Finding
    run: int = -1
    plan: bool = False


def folded(into: FoldsInto, found: Sequence[Found]) -> Iterator[Found]:
    """One cause, one finding: what another finding on the same run names as a cause becomes a place beside it.

    `into`: the rules whose findings take a rule's findings in. For reports alone: a cause keeps its own fixes where
    fixes are applied.
    """
    causes = _causes(into, found)
    folded_away = {id(item) for item, _ in causes}
    for item in found:
        if id(item) in folded_away:
            continue
        own = [cause.finding for cause, host in causes if host == (item.run, item.finding.rule)]
        more = tuple((one.location, one.message) for one in own)
        whole = item.finding._replace(related=(*item.finding.related, *more), causes=tuple(own))
        yield item._replace(finding=whole) if more else item


def without_fixes_of_causes(into: FoldsInto, found: Sequence[Found]) -> tuple[Found, ...]:
    """The same without the fixes of what `folded` makes a place beside another finding."""
    causes = {id(item) for item, _ in _causes(into, found)}
    return tuple(
        item._replace(finding=item.finding._replace(fixes=())) if id(item) in causes else item for item in found
    )


def _causes(into: FoldsInto, found: Sequence[Found]) -> list[tuple[Found, Host]]:
    """Findings that another one names as a cause, with that one's run and rule."""
    hosts = {(item.run, item.finding.rule) for item in found}
    return [(item, host) for item in found if (host := _host(item, into, hosts)) is not None]


def _host(item: Found, into: FoldsInto, hosts: Collection[tuple[int, str]]) -> Host | None:
    """The run and the rule of the finding that takes `item` in."""
    wanted = ((item.run, rule) for rule in into(item.finding.rule))
    return next((host for host in wanted if host in hosts), None)
