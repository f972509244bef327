"""memlint: lints LLM training configs for GPU memory before a GPU is touched.

As a library: `estimate`, `check`, `plan` and `fix` (docs/api.md). Nothing of them is imported before it is used.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memlint.api.public import (
        CheckResult,
        Error,
        Estimate,
        Finding,
        FixResult,
        PlanResult,
        Run,
        check,
        estimate,
        estimates,
        fix,
        plan,
    )

__all__ = [
    "CheckResult",
    "Error",
    "Estimate",
    "Finding",
    "FixResult",
    "PlanResult",
    "Run",
    "__version__",
    "check",
    "estimate",
    "estimates",
    "fix",
    "plan",
]


def __getattr__(name: str) -> object:
    """The public names, each imported when it is first read (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module 'memlint' has no attribute {name!r}")
    from memlint.api import public

    found: object = getattr(public, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
