"""Where the data that people edit is: the wheel's copy below `_shipped/`, else the checkout's folders."""

from __future__ import annotations

import posixpath

_HERE = __file__.replace("\\", "/").rpartition("/")[0]
_CHECKOUT = _HERE.rpartition("/")[0]


def path(kind: str) -> str:
    """The folder of `kind`: "rules" or "schemas". Raises FileNotFoundError where an install lacks it."""
    for folder in (f"{_HERE}/_shipped/{kind}", f"{_CHECKOUT}/{kind}"):
        if posixpath.isdir(folder):
            return folder
    raise FileNotFoundError(f"memlint is not installed completely: no folder `{kind}`")
