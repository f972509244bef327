"""Packed reports: what was put in comes out, whatever it is, and takes little memory."""

from __future__ import annotations

import io
import tempfile
import tracemalloc
from typing import Any

import pytest

from memlint.findings import Finding, Location
from memlint.lint.many import packed_reports
from memlint.lint.many.packed_reports import BLOCK, PackedSequence
from memlint.report.model import FileReport

BASE = "model_name_or_path: Qwen/Qwen2.5-7B-Instruct\nstage: sft\nfinetuning_type: full\ncutoff_len: 4096\n"


def finding(path: str, line: int, message: str) -> Finding:
    return Finding("MEM001", "memory/x", "error", message, Location(path, line, 1, line, 2))


@pytest.mark.parametrize("number", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
def test_what_was_packed_comes_back(number: int) -> None:
    items = PackedSequence(range(number))

    assert list(items) == list(items) == list(range(number))
    assert len(items) == number
    for index in {0, BLOCK - 1, BLOCK, number - 1, -1, -number} & set(range(-number, number)):
        assert items[index] == range(number)[index]
    assert items[1:-1] == list(range(number))[1:-1]
    for beyond in (number, -number - 1):
        with pytest.raises(IndexError):
            items[beyond]


def test_what_cannot_be_pickled_is_kept_as_it_is() -> None:
    things = [(index, lambda: None) for index in range(2 * BLOCK + 1)]

    assert list(PackedSequence(things)) == things
    assert PackedSequence(things)[BLOCK] is things[BLOCK]


def test_a_packed_report_takes_little_memory() -> None:
    """At most 1 KiB a report (benchmarks/speed/scan.py measures a whole check)."""
    text = BASE * 8
    number = 40 * BLOCK
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = PackedSequence(
            FileReport(
                f"f{i}", "trainer", (finding(f"f{i}", i % 9, f"{i} GiB needed"),), texts={f"f{i}": f"# {i}\n{text}"}
            )
            for i in range(number)
        )
        assert len(kept) == number
        assert (tracemalloc.get_traced_memory()[0] - before) / number < 1024
    finally:
        tracemalloc.stop()


def test_what_does_not_fit_comes_back_from_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_reports, "KEPT_BYTES", 1000)
    texts = [f"{index} " * 99 for index in range(20 * BLOCK + 3)]
    kept = PackedSequence(texts)
    one, other = iter(kept), iter(kept)

    assert kept._file is not None
    assert [(next(one), next(other)) for _ in range(3 * BLOCK)] == [(text, text) for text in texts[: 3 * BLOCK]]
    assert list(kept) == texts
    kept.append("one more")
    assert (kept[5 * BLOCK], kept[-1]) == (texts[5 * BLOCK], "one more")


@pytest.mark.parametrize("written", [OSError(28, "No space left on device"), 3])
def test_a_full_disk_loses_nothing(monkeypatch: pytest.MonkeyPatch, written: OSError | int) -> None:
    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            if isinstance(written, OSError):
                raise written
            return super().write(memoryview(data)[:written])

    monkeypatch.setattr(packed_reports, "KEPT_BYTES", 0)
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Full())

    assert list(PackedSequence(range(3 * BLOCK))) == list(range(3 * BLOCK))
