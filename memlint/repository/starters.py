"""Which Python programs may start others: a quick test of their text, before they are followed."""

from __future__ import annotations

import re

# A program without any of these starts no other. The patterns are compiled when the first Python file is read: this
# module is loaded at each start.
_STARTS = (
    r"\bsubprocess\b|\bos\.(?:system|popen|exec)|create_subprocess|\bCommandFunction\b|\bsagemaker\b|^#!/bin/|[\"']#!/"
)
_IS_TEST = r"(?:^|/)(?:tests?/|test_[^/]*$|[^/]*_test\.py$|conftest\.py$)"


def may_start_commands(path: str, text: str) -> bool:
    """Whether a Python file may start programs and must be followed. What tests start trains nothing."""
    return re.search(_STARTS, text) is not None and re.search(_IS_TEST, path) is None
