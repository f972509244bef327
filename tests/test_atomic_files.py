"""Files that memlint writes appear whole or not at all, and what is no file of its own is never replaced by one."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from memlint import atomic_files as _files
from memlint.atomic_files import NotWritten, write_whole

ROOT = Path(__file__).parents[1]
posix = pytest.mark.skipif(sys.platform == "win32", reason="links, pipes and devices")
as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="gives files away")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_gets_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    before = os.umask(0o027)
    try:
        write_whole(str(path), [b"one ", b"two"])
    finally:
        os.umask(before)

    assert path.read_bytes() == b"one two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert names(tmp_path) == ["report.json"]


@posix
def test_an_old_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(b"an old and longer text")
    path.chmod(0o604)

    write_whole(str(path), [b"new"])

    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


@as_root
def test_an_old_file_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(b"old")
    os.chown(path, 1234, 4321)

    write_whole(str(path), [b"new"])

    assert (path.stat().st_uid, path.stat().st_gid, path.read_bytes()) == (1234, 4321, b"new")


@posix
def test_what_was_private_is_private_on_its_way(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(b"old")
    path.chmod(0o600)
    seen: list[int] = []

    def looked() -> Iterator[bytes]:
        yield b"new"
        seen.extend(stat.S_IMODE(item.stat().st_mode) for item in tmp_path.iterdir())

    write_whole(str(path), looked())

    assert seen == [0o600, 0o600]


def broken() -> Iterator[bytes]:
    yield b"half of the"
    raise RuntimeError("the report broke")


def stopped() -> Iterator[bytes]:
    yield b"half of the"
    raise KeyboardInterrupt


@pytest.mark.parametrize("pieces", [broken, stopped])
@pytest.mark.parametrize("there", [True, False])
def test_a_text_that_breaks_midway_leaves_what_was(tmp_path: Path, pieces: object, there: bool) -> None:
    path = tmp_path / "report.json"
    if there:
        path.write_bytes(b"old")

    with pytest.raises((RuntimeError, KeyboardInterrupt)):
        write_whole(str(path), pieces())  # type: ignore[operator]

    assert [(name, (tmp_path / name).read_bytes()) for name in names(tmp_path)] == [("report.json", b"old")] * there


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_disk_that_refuses_leaves_what_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, full)

    with pytest.raises(NotWritten, match=r"report\.json: No space left on device$"):
        write_whole(str(path), [b"new"])

    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["report.json"]


@posix
def test_a_link_stays_and_its_file_is_written(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "real.json").write_bytes(b"old")
    (tmp_path / "link.json").symlink_to("far/real.json")
    (tmp_path / "dangling.json").symlink_to("far/made.json")

    write_whole(str(tmp_path / "link.json"), [b"new"])
    write_whole(str(tmp_path / "dangling.json"), [b"made"])

    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "dangling.json").is_symlink()
    assert (tmp_path / "far" / "real.json").read_bytes() == b"new"
    assert (tmp_path / "far" / "made.json").read_bytes() == b"made"
    assert names(tmp_path / "far") == ["made.json", "real.json"]


@posix
def test_a_link_that_leads_nowhere_is_told(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")

    with pytest.raises(NotWritten, match="loop: Too many levels of symbolic links"):
        write_whole(str(tmp_path / "loop"), [b"new"])


@posix
def test_a_pipe_gets_the_text_and_stays_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()))
    reader.start()

    write_whole(str(path), [b"one ", b"two"])
    reader.join()

    assert read == [b"one two"]
    assert stat.S_ISFIFO(path.stat().st_mode)


@posix
def test_dev_null_stays_a_device() -> None:
    write_whole(os.devnull, [b"gone"])

    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def started(arguments: list[str], stdout: int) -> None:
    code = "import sys; from memlint.atomic_files import write_whole; write_whole(sys.argv[1], [b'it'])"
    subprocess.run([sys.executable, "-c", code, *arguments], stdout=stdout, cwd=ROOT, check=True)


@posix
@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "out.txt"])
def test_standard_output_sent_to_a_file_is_written_to_and_not_replaced(tmp_path: Path, name: str) -> None:
    path = tmp_path / "out.txt"
    path.write_bytes(b"of others\n")
    with path.open("ab") as stream:
        started([str(path) if name == "out.txt" else name], stream.fileno())
        stream.write(b" and more")

    assert path.read_bytes() == b"of others\nit and more"


@posix
def test_standard_output_may_be_a_socket() -> None:
    """A service's output often is, and no socket can be opened by its name."""
    import socket

    here, there = socket.socketpair()
    with here, there:
        started(["/dev/stdout"], there.fileno())
        there.close()

        assert here.recv(10) == b"it"


@posix
def test_another_open_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    with (tmp_path / "out.txt").open("w+b") as stream:
        write_whole(f"/dev/fd/{stream.fileno()}", [b"it"])

        assert stream.read() == b"it"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotWritten, match=r"report\.json: there is no folder .*reports$"):
        write_whole(str(tmp_path / "reports" / "report.json"), [b"new"])


@pytest.mark.parametrize("name", ["", "reports/", "there", "there/"])
def test_a_folder_is_no_place_for_a_text(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path)

    with pytest.raises(NotWritten, match=r"Is a directory|Permission denied"):
        write_whole(name, [b"new"])

    assert names(tmp_path) == ["there"]


def test_a_folder_that_takes_no_files_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write everywhere: the system's answers are played."""
    path = tmp_path / "report.json"

    def no(*_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", no)
    monkeypatch.setattr(os, "access", lambda *_: False)

    with pytest.raises(NotWritten, match=r"report\.json: Permission denied: no file can be made in "):
        write_whole(str(path), [b"new"])


def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rename would not ask. Root may write everywhere: the system's answer is played."""
    path = tmp_path / "report.json"
    path.write_bytes(b"old")
    monkeypatch.setattr(_files.os, "access", lambda name, _: name != str(path))

    with pytest.raises(NotWritten, match=r"report\.json: Permission denied$"):
        write_whole(str(path), [b"new"])

    assert path.read_bytes() == b"old"
