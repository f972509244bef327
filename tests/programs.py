"""Programs that a few tests run: a browser, an editor, shells. `.ci/run` installs them."""

from __future__ import annotations

import os
import shutil

import pytest


def needed(*names: str) -> str:
    """The path of the first of these programs; without one the test fails in CI and is skipped elsewhere."""
    found = next((path for path in map(shutil.which, names) if path), None)
    if found is None and not os.environ.get("CI"):
        pytest.skip(f"{names[0]} is not on this machine (.ci/run installs it)")
    assert found is not None, f"CI has to have {names[0]}: see .ci/run"
    return found
