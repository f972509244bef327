"""Every answer of the disk is recorded while a record runs, and none is lost."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


_STEPS = st.sampled_from(["a", "b", "link", "loop", "gone", "..", "."])


@given(paths=st.lists(st.lists(_STEPS, max_size=6), max_size=8))
def test_real_paths_are_those_of_the_system(paths: list[list[str]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        for folder in ("a/a/b", "a/b/a", "b/a"):
            os.makedirs(os.path.join(name, folder))
        for place, target in (("a/link", "../b"), ("b/link", f"{name}/a/b"), ("link", "a/link"), ("a/loop", "loop")):
            os.symlink(target, os.path.join(name, place))
        real = file_access.RealPaths()
        for steps in paths:
            path = os.path.join(name, *steps)
            assert real.of(path) == os.path.realpath(path)
            assert real.folder(path) == os.path.realpath(path)


def test_real_paths_of_many_folders_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_access, "MOST_FOLDERS", 10)
    real = file_access.RealPaths()
    for number in range(40):
        assert real.of(str(tmp_path / f"{number}/x")) == str(tmp_path / f"{number}/x")
    assert len(real._folders) <= 10 + len(tmp_path.parts) + 1


def test_a_folder_too_deep_for_the_system_has_a_real_path() -> None:
    deep = "/" + "/".join("a" * 3000)
    assert file_access.RealPaths().of(deep) == deep


def test_one_listing_answers_for_many_names(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    (tmp_path / "other").write_text("")
    assert file_access.among(str(tmp_path), frozenset(("a", "b"))) == {"a"}
    assert file_access.among(str(tmp_path), frozenset(("a", "oth*"))) == {"a", "other"}
    file_access.take()
    file_access.among(str(tmp_path), frozenset(("a", "b")))
    assert file_access.among(str(tmp_path / "none"), frozenset("a")) == frozenset()
    assert file_access.take().shared == {
        ("among a/b", str(tmp_path)): "a",
        ("among a", str(tmp_path / "none")): "",
    }


@pytest.mark.parametrize("most", [0, 1, 70_000, 200_000])
def test_large_files_are_read_in_pieces(tmp_path: Path, most: int) -> None:
    data = bytes(range(256)) * 500
    (tmp_path / "a").write_bytes(data)
    assert file_access.regular(str(tmp_path / "a"), most) == data[:most]
