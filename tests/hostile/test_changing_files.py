"""Files that change while memlint looks at them: judged as they were read, or said to be gone; never written over."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from memlint.cli import main
from memlint.commands import options
from memlint.lint import fix_files as fixing
from memlint.repository import workspace
from memlint.repository.files.discovery import FoundFile

ROOT = Path(__file__).parents[2]
CARD = ("--gpu", "RTX4090", "--gpus", "2", "--isolated")  # the way out writes both files
YAML, JSON = "llama3_8b_full_zero3.yaml", "deepspeed/zero3.json"


def deleted(path: Path) -> None:
    path.unlink()


def truncated(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def grown(path: Path) -> None:
    with path.open("ab") as stream:
        stream.write(b"\n# somebody's work\nseed: 7\n" if path.suffix == ".yaml" else b"\n \n")


def turned_into_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def turned_into_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def turned_into_a_link_to_nowhere(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nowhere.yaml"))


Change = Callable[[Path], None]
CHANGES: tuple[Change, ...] = (
    deleted,
    truncated,
    emptied,
    grown,
    turned_into_a_folder,
    turned_into_a_pipe,
    turned_into_a_link_to_nowhere,
)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "files"
    shutil.copytree(ROOT / "examples/llamafactory", folder)
    (folder / ".git").mkdir()
    for path in folder.glob("*.yaml"):
        if path.name != YAML:
            path.unlink()
    monkeypatch.chdir(folder)
    return folder


def changes_once_read(monkeypatch: pytest.MonkeyPatch, path: Path, change: Change) -> list[str]:
    """Makes `change` happen to the file right after its bytes were first read; what it was read for comes back."""
    read = workspace.read_bytes
    seen: list[str] = []

    def and_then(name: str) -> bytes:
        data = read(name)
        if os.path.abspath(name) == str(path) and not seen:
            seen.append(name)
            change(path)
        return data

    monkeypatch.setattr(workspace, "read_bytes", and_then)
    return seen


@pytest.mark.parametrize("name", [YAML, JSON])
@pytest.mark.parametrize("change", CHANGES)
def test_a_file_is_judged_as_it_was_read(
    files: Path, name: str, change: Change, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["check", YAML, *CARD])
    undisturbed = capsys.readouterr()
    assert "fix 1" in undisturbed.out  # plans were tried, each of which looks at the files again

    seen = changes_once_read(monkeypatch, files / name, change)

    assert main(["check", YAML, *CARD]) == code
    assert seen
    told = capsys.readouterr()
    assert told.err == ""
    if name == YAML or change in (truncated, emptied, grown):
        assert told == undisturbed
    else:  # a companion that is gone is seen to be: no way out may rest on it, what was found stays
        assert headlines(told.out) == headlines(undisturbed.out)


def headlines(text: str) -> list[str]:
    return [line.partition(" [fixable")[0] for line in text.splitlines() if line.startswith((YAML, JSON))]


@pytest.mark.parametrize("name", [YAML, JSON])
@pytest.mark.parametrize("change", CHANGES)
def test_a_fix_never_writes_over_a_file_that_changed_since_it_was_read(
    files: Path, name: str, change: Change, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settled, after = fixing.fix_files, dict[str, object]()

    def and_then(*words: object) -> object:
        found = settled(*words)  # type: ignore[arg-type]
        assert {Path(path).name for path in found.contents} >= {Path(name).name}
        change(files / name)
        after.update(everything(files))
        return found

    monkeypatch.setattr(fixing, "fix_files", and_then)

    code = main(["fix", YAML, "--unsafe", *CARD])

    told = capsys.readouterr()
    assert code == 2
    assert told.err.splitlines()[-1].startswith(f"memlint: {name}: ")
    assert told.err.splitlines()[-1].endswith(": nothing was written")
    assert "Traceback" not in told.err
    assert everything(files) == after


def everything(folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in folder.rglob("*"):
        found[str(path)] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
    return found


@pytest.mark.parametrize("change", CHANGES)
def test_a_patch_is_against_what_was_read(
    files: Path, change: Change, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["fix", YAML, "--unsafe", "--diff", *CARD])
    undisturbed = capsys.readouterr()
    assert undisturbed.out.count("--- a/") >= 1
    settled = fixing.fix_files

    def and_then(*words: object) -> object:
        found = settled(*words)  # type: ignore[arg-type]
        change(files / YAML)
        return found

    monkeypatch.setattr(fixing, "fix_files", and_then)

    assert main(["fix", YAML, "--unsafe", "--diff", *CARD]) == 1
    assert capsys.readouterr() == undisturbed


@pytest.mark.parametrize("change", [deleted, turned_into_a_folder, turned_into_a_pipe, turned_into_a_link_to_nowhere])
def test_a_file_that_goes_between_listing_and_reading_is_a_finding(
    files: Path, change: Change, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "other.yaml").write_bytes((files / YAML).read_bytes())
    listed = options.config_files

    def and_then(given: object) -> list[FoundFile]:
        found = listed(given)  # type: ignore[arg-type]
        change(files / YAML)
        return found

    monkeypatch.setattr(options, "config_files", and_then)

    code = main(["check", "--format", "concise", *CARD])

    told = capsys.readouterr()
    assert code == 2
    assert f"{YAML}:1:1: error SRC000 cannot be read: " in told.out
    assert "other.yaml:" in told.out  # the others are judged all the same
    assert told.err == ""


def test_a_folder_that_goes_while_its_parent_is_listed_is_passed_over(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "gone").mkdir()
    (files / "gone/x.yaml").write_text("a: 1\n")
    scan = os.scandir

    def and_then(path: str) -> object:
        if path == "gone":
            os.unlink("gone/x.yaml")
            os.rmdir("gone")
        return scan(path)

    monkeypatch.setattr(os, "scandir", and_then)

    assert main(["check", "--list-files", "--isolated"]) == 0
    assert capsys.readouterr().out == f"{YAML}\n" + "".join(
        f"deepspeed/{path.name}\n" for path in sorted((files / "deepspeed").iterdir())
    )
