"""Imports all public names; `memlint/__init__.py` imports each when it is first used."""

from memlint.api.calls import check, estimate, estimates, fix, plan
from memlint.api.results import CheckResult, FixResult, PlanResult
from memlint.api.results import RunEstimate as Estimate
from memlint.errors import Error
from memlint.findings import Finding
from memlint.run import Run

__all__ = [
    "CheckResult",
    "Error",
    "Estimate",
    "Finding",
    "FixResult",
    "PlanResult",
    "Run",
    "check",
    "estimate",
    "estimates",
    "fix",
    "plan",
]
