"""Bash's own parser is asked about scripts that are to be written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from memlint.fixes.edits.shell_opinion import shell_disagreements

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")


def test_a_script_that_bash_can_no_longer_read_is_refused() -> None:
    found = shell_disagreements(b"echo a\n", b"if echo a\n")

    assert len(found) == 1 and "bash can no longer read it" in found[0]


def test_a_script_that_bash_reads_is_fine() -> None:
    assert shell_disagreements(b"echo a\n", b"echo b\n") == ()


def test_nothing_is_run(tmp_path: Path) -> None:
    shell_disagreements(b"true\n", f"touch {tmp_path}/made\n".encode())

    assert list(tmp_path.iterdir()) == []


def test_a_script_that_was_broken_before_is_nobodys_fault() -> None:
    assert shell_disagreements(b"if\n", b"if x\n") == ()
