"""Applies one fix after the other in memory and lints again, until no fix is left. Nothing is written.

Law 5 is checked here: at most `MAX_ROUNDS` rounds. A fix that is refused is tried again once others were applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from memlint._record import NamedTuple
from memlint.findings import Finding, Fix
from memlint.fixes.attempt import Attempt, attempt
from memlint.fixes.laws import MAX_ROUNDS, BrokenLaw, Identity, identity
from memlint.ruleset.engine import Analysis, Reanalyse


class Proposal(NamedTuple):
    """A fix of a finding, with the analysis that the finding is from."""

    finding: Finding
    fix: Fix
    analysis: Analysis
    reanalyse: Reanalyse


# The fixes for a file, with these bytes in place of what the files hold.
Propose = Callable[[Mapping[str, bytes]], Iterator[Proposal]]
# Whether a fix that was tried is wanted: it is asked once about each finding.
Accept = Callable[[Proposal, Attempt], bool]


class AppliedFix(NamedTuple):
    finding: Finding
    fix: Fix


class AppliedFixes(NamedTuple):
    """The result. `contents`: the changed files. `before`: what the newly changed ones held when they were read; a file
    that holds something else when it is written was changed by someone else. `refused`: fixes that have no safe place
    or do harm. `broken`: laws that failed, which is a bug of memlint.
    """

    contents: Mapping[str, bytes]
    applied: tuple[AppliedFix, ...] = ()
    refused: tuple[tuple[Finding, str], ...] = ()
    broken: tuple[tuple[Finding, BrokenLaw], ...] = ()
    before: Mapping[str, bytes] = {}


def accept_all(proposal: Proposal, tried: Attempt) -> bool:
    return True


def apply_fixes(propose: Propose, contents: Mapping[str, bytes], accept: Accept = accept_all) -> AppliedFixes:
    """Applies what `propose` offers on top of `contents`; a finding is fixed at most once a round."""
    declined: set[Identity] = set()
    applied: list[AppliedFix] = []
    before: dict[str, bytes] = {}
    refused: dict[Identity, tuple[Finding, str]] = {}
    for _ in range(MAX_ROUNDS):
        seen = set(declined)
        number = len(applied)
        while (step := _next(propose, contents, seen)) is not None:
            proposal, tried = step
            if tried.broken:
                broken = tuple((proposal.finding, law) for law in tried.broken)
                return AppliedFixes({}, (), tuple(refused.values()), broken)
            if tried.refused:
                refused[identity(proposal.finding)] = (proposal.finding, tried.refused)
                continue
            refused.pop(identity(proposal.finding), None)
            if not accept(proposal, tried):
                declined.add(identity(proposal.finding))
                continue
            before |= {path: data for path, data in tried.before.items() if path not in contents}
            contents = {**contents, **tried.contents}
            applied.append(AppliedFix(proposal.finding, proposal.fix))
        if len(applied) == number:
            return AppliedFixes(contents, tuple(applied), tuple(refused.values()), before=before)
    last = applied[-1].finding
    law = BrokenLaw("rounds", f"fixing did not come to rest in {MAX_ROUNDS} rounds")
    return AppliedFixes({}, (), tuple(refused.values()), ((last, law),))


def _next(propose: Propose, contents: Mapping[str, bytes], seen: set[Identity]) -> tuple[Proposal, Attempt] | None:
    """The first proposal not yet seen in this round, tried."""
    for proposal in propose(contents):
        key = identity(proposal.finding)
        if key not in seen:
            seen.add(key)
            return proposal, _tried(proposal)
    return None


def _tried(proposal: Proposal) -> Attempt:
    fix = proposal.fix
    if not fix.edits:
        return Attempt((), refused=f"{fix.title}: {fix.note or 'there is nothing to write'}")
    return attempt(proposal.analysis, fix.edits, proposal.finding, proposal.reanalyse)
