"""Every answer of the disk is recorded while a record runs, and none is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import memlint.file_access as file_access


@pytest.fixture(autouse=True)
def record(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(file_access, "_has_read", False)
    file_access.start()
    yield
    monkeypatch.setattr(file_access, "_record", None)


def test_what_is_there_and_what_is_not_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert file_access.is_file(str(tmp_path / "a"))
    assert not file_access.is_folder(str(tmp_path / "b"))
    assert not file_access.exists(str(tmp_path / "c"))
    assert file_access.listed(str(tmp_path)) == ["a"]
    assert file_access.read(str(tmp_path / "a"), 3) == b"123"
    with pytest.raises(OSError):
        file_access.read(str(tmp_path / "d"), 3)
    with pytest.raises(OSError):
        file_access.listed(str(tmp_path / "e"))
    shared = {(kind, path[len(str(tmp_path)) :]): answer for (kind, path), answer in file_access.take().shared.items()}
    expected = {("file", "/a"): "True", ("folder", "/b"): "False", ("exists", "/c"): "False", ("listed", ""): b"a"}
    assert shared == {**expected, ("bytes 3", "/a"): b"123", ("bytes 3", "/d"): "", ("listed", "/e"): ""}


def test_a_checked_file_is_its_own_until_it_is_shared(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    file_access.read_checked(str(tmp_path / "a"), 9)
    file_access.share(str(tmp_path / "a"))
    recorded = file_access.take()
    assert recorded.own == {("bytes 9", str(tmp_path / "a")): b"12345"}
    assert recorded.shared == {("share", str(tmp_path / "a")): ""}
    assert file_access.take().own == {}


def test_two_answers_to_one_question_are_no_record(tmp_path: Path) -> None:
    assert not file_access.exists(str(tmp_path / "a"))
    (tmp_path / "a").touch()
    assert file_access.exists(str(tmp_path / "a"))
    assert not file_access.take().complete


def test_what_was_read_before_leaves_no_complete_record(tmp_path: Path) -> None:
    file_access.stop()
    file_access.start()
    assert not file_access.take().complete


def test_bytes_are_shortened_and_another_process_is_added(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    file_access.read(str(tmp_path / "a"), 9)
    file_access.shorten(lambda data: f"{len(data)} bytes")
    file_access.read(str(tmp_path / "a"), 2)
    file_access.add(file_access.Recorded({("exists", "/x"): "True"}, {}, True))
    recorded = file_access.take()
    assert [recorded.shared[f"bytes {most}", str(tmp_path / "a")] for most in (9, 2)] == ["5 bytes", "2 bytes"]
    assert recorded.shared["exists", "/x"] == "True" and recorded.complete
    file_access.add(file_access.Recorded({}, {}, False))
    assert not file_access.take().complete


def test_a_pipe_is_no_file_to_check(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError):
        file_access.read_checked(str(tmp_path / "pipe"), 9)
