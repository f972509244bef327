"""Days as people write them in suppressions and settings."""

from __future__ import annotations

from typing import Any

from memlint._lazy import Lazy
from memlint._pattern import pattern

_DATETIME: Any = Lazy("datetime")
_DATE = pattern(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")  # Python 3.11 takes other ISO forms, too


def is_date(text: str) -> bool:
    """Whether `text` is a day of the calendar as YYYY-MM-DD."""
    try:
        return bool(_DATE.fullmatch(text)) and bool(_DATETIME.date.fromisoformat(text))
    except ValueError:
        return False
