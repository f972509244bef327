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


@pytest.mark.parametrize(
    ("done", "total", "seconds", "said"),
    [
        (3_000, 100_000, 7.5, "3,000 of 100,000 files, 400 files/s, 4 min 2 s left"),
        (1, 20, 2.0, "1 of 20 files, 0.5 files/s, 38 s left"),
        (1, 100_000, 1.0, "1 of 100,000 files, 1.0 files/s, 27 h 46 min left"),
        (20, 20, 0.0, "20 of 20 files, 20,000,000,000 files/s, 0 s left"),
    ],
)
def test_how_far_how_fast_how_long(done: int, total: int, seconds: float, said: str) -> None:
    assert progress.progress(done, total, seconds) == said
