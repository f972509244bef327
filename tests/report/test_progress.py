"""What a long run says of itself on a terminal, and nowhere else."""

from __future__ import annotations

import time

import pytest

import memlint.report.progress as progress
from memlint.report.progress import Busy, watched
from tests.report.test_terminal import Stream


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "REDRAW", 0.0)


@pytest.mark.parametrize("total", [1, 3])
def test_files_go_by(total: int) -> None:
    pipe, terminal = Stream(False), Stream(True)

    def slow() -> list[int]:
        return list(watched(_each(total), total, terminal))

    assert list(watched(range(total), total, pipe)) == slow() == list(range(total))
    assert pipe.getvalue() == ""
    assert "memlint: " in terminal.getvalue() and terminal.getvalue().endswith("\r\x1b[2K")
    assert (f"{total} of {total} files" in terminal.getvalue()) == (total > 1)


def _each(total: int):  # type: ignore[no-untyped-def]
    for number in range(total):
        time.sleep(0.02)
        yield number


def test_one_long_thing() -> None:
    pipe, terminal = Stream(False), Stream(True)
    for stream in (pipe, terminal):
        with Busy("simulating a.yaml", stream):
            time.sleep(0.05)

    assert pipe.getvalue() == ""
    assert "memlint: simulating a.yaml, 0 s" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[2K")
