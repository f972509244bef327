"""Writing: all files or none, never over what somebody else wrote meanwhile, nothing left behind."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

import pytest

from memlint.fixes import write as module
from memlint.fixes.write import Write, WriteRefused, write_all


def two(folder: Path) -> list[Write]:
    for name in ("a", "b"):
        (folder / name).write_bytes(b"old")
    return [Write(str(folder / name), b"old", b"new") for name in ("a", "b")]


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_every_file_is_written_and_keeps_its_mode(tmp_path: Path) -> None:
    writes = [*two(tmp_path), Write(str(tmp_path / "c"), None, b"made")]
    os.chmod(tmp_path / "a", 0o640)

    write_all(writes, [str(tmp_path)])

    assert held(tmp_path) == {"a": b"new", "b": b"new", "c": b"made"}
    assert stat.S_IMODE(os.stat(tmp_path / "a").st_mode) == 0o640


def grown(path: Path) -> None:
    path.write_bytes(b"old and more")


def cut(path: Path) -> None:
    path.write_bytes(b"ol")


def replaced_by_a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def replaced_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replaced_by_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


CHANGES = (grown, cut, Path.unlink, replaced_by_a_link, replaced_by_a_folder, replaced_by_a_pipe)


@pytest.mark.parametrize("change", CHANGES)
def test_one_file_that_changed_stops_all(tmp_path: Path, change: object) -> None:
    writes = two(tmp_path)
    change(tmp_path / "b")  # type: ignore[operator]
    before = held(tmp_path)

    with pytest.raises(WriteRefused, match=r"b: .*nothing was written"):
        write_all(writes, [str(tmp_path)])

    assert held(tmp_path) == before


@pytest.mark.parametrize("change", CHANGES)
def test_one_that_changes_while_the_others_are_written_stops_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: object
) -> None:
    writes = two(tmp_path)
    write_temporary = module.write_temporary
    before: dict[str, bytes] = {}

    def and_then(path: str, pieces: Iterable[bytes]) -> str:
        made = write_temporary(path, pieces)
        if path.endswith("b"):
            change(tmp_path / "a")  # type: ignore[operator]
            before.update({name: data for name, data in held(tmp_path).items() if not name.startswith(".memlint")})
        return made

    monkeypatch.setattr(module, "write_temporary", and_then)

    with pytest.raises(WriteRefused, match=r"a: .*nothing was written"):
        write_all(writes, [str(tmp_path)])

    assert held(tmp_path) == before


def test_a_full_disk_stops_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = two(tmp_path)
    synced: list[int] = []

    def full(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(WriteRefused, match="b: No space left on device: nothing was written"):
        write_all(writes, [str(tmp_path)])

    assert held(tmp_path) == {"a": b"old", "b": b"old"}


def test_what_was_written_is_said_where_the_last_step_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = two(tmp_path)
    replace = os.replace

    def fails_at_b(source: str, target: str) -> None:
        if target.endswith("b"):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        replace(source, target)

    monkeypatch.setattr(os, "replace", fails_at_b)

    with pytest.raises(WriteRefused, match=r"b: Permission denied: only .*a was written"):
        write_all(writes, [str(tmp_path)])

    assert held(tmp_path) == {"a": b"new", "b": b"old"}


def test_a_folder_that_became_a_link_to_elsewhere_is_refused(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside / "x", outside):
        folder.mkdir(parents=True)
    writes = two(inside / "x")
    two(outside)
    (inside / "x").rename(tmp_path / "away")
    (inside / "x").symlink_to(outside)

    with pytest.raises(WriteRefused, match="outside of the folders"):
        write_all(writes, [str(inside)])

    assert held(outside) == held(tmp_path / "away") == {"a": b"old", "b": b"old"}


def test_a_file_to_be_made_may_not_exist(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()

    with pytest.raises(WriteRefused, match="exists already"):
        write_all([Write(str(tmp_path / "c"), None, b"made")], [str(tmp_path)])
