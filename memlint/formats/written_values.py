"""A neutral value as a file would write it; None where it cannot be said so."""

from __future__ import annotations

from typing import Any


def whole(value: Any) -> Any:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def flag(value: Any) -> Any:
    return value if isinstance(value, bool) else None


def word(value: Any) -> Any:
    return value if isinstance(value, str) and value else None
