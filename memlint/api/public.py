"""The public names in one place; `memlint/__init__.py` hands them out one by one."""

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
