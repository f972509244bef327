"""Dates in suppressions and settings: YYYY-MM-DD."""

from __future__ import annotations

import datetime
import re

import memlint.file_access as file_access

_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"  # Python 3.11 takes other ISO forms, too


def is_date(text: str) -> bool:
    """Whether `text` is an existing date, written YYYY-MM-DD."""
    try:
        return bool(re.fullmatch(_DATE, text)) and bool(datetime.date.fromisoformat(text))
    except ValueError:
        return False


def is_past(date: str, today: str) -> bool:
    """Whether a date lies before `today`; "" (no date) does not. The answer is recorded for the result cache."""
    if not date:
        return False
    found = date < today
    file_access.note_date(date, str(found))
    return found
