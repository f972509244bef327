"""The line about a long run: how far, how fast, how long yet; on a terminal alone, and gone at the end."""

from __future__ import annotations

import io

import pytest

import memlint.report.progress as progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


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


def test_on_a_terminal_the_line_comes_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    out = Terminal()
    assert list(progress.watched(range(3), 3, out)) == [0, 1, 2]
    assert "1 of 3 files" in out.getvalue()
    assert out.getvalue().endswith("\r\x1b[2K")


def test_nothing_is_said_in_a_pipe_or_before_a_second() -> None:
    for out in (io.StringIO(), Terminal()):
        assert list(progress.watched(range(3), 3, out)) == [0, 1, 2]
        assert out.getvalue() == ""
