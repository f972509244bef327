"""What is generated is fresh: rule pages, shown output, what frameworks check, pages and descriptions of keys."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


GENERATORS = [
    *("tools/rule_pages.py", "tools/readme.py", "tools/coverage.py"),
    *("tools/keys_pages.py", "tools/schema_descriptions.py", "tools/cost_page.py", "tools/guide_figures.py"),
    "tools/man_page.py",
]


@pytest.mark.parametrize("tool", GENERATORS)
def test_generated_pages_are_fresh(tool: str) -> None:
    done = subprocess.run(
        [sys.executable, tool, "--check"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, ""), f"run `python {tool}`"
