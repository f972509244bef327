"""What the rules found in one document, and how a finding that is the cause of another one is folded into it."""

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
    """The findings, each cause folded into the finding that it explains: as a related place and in `causes`.

    `into`: rule -> the rules whose findings on the same run take its findings in (`Rule.folds_into`). Only reports call
    this; where fixes are applied, causes stay findings with fixes of their own.
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
    """All findings, without the fixes of those that `folded` would fold into another one."""
    causes = {id(item) for item, _ in _causes(into, found)}
    return tuple(
        item._replace(finding=item.finding._replace(fixes=())) if id(item) in causes else item for item in found
    )


def _causes(into: FoldsInto, found: Sequence[Found]) -> list[tuple[Found, Host]]:
    """Each finding that would be folded, with the run and rule of the finding that takes it in."""
    hosts = {(item.run, item.finding.rule) for item in found}
    return [(item, host) for item in found if (host := _host(item, into, hosts)) is not None]


def _host(item: Found, into: FoldsInto, hosts: Collection[tuple[int, str]]) -> Host | None:
    """The run and the rule of the finding that takes `item` in."""
    wanted = ((item.run, rule) for rule in into(item.finding.rule))
    return next((host for host in wanted if host in hosts), None)
