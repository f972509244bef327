"""Examples that a framework ships are known by their place and contents; the frameworks' own files are not in the tree,
so the tests mark files of their own."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import memlint.repository.shipped_examples as shipped_examples
from memlint.cli import main
from memlint.repository.shipped_examples import (
    DATA,
    FILES_OF_CHECKS,
    FOLDERS,
    framework_of,
    has_checks_of,
    mark,
)
from tests.lint.test_selection import CONFIG
from tools.shipped_examples import EXAMPLES
from tools.shipped_examples import main as write_marks

PLACE = "examples/train_full/qwen_full_sft.yaml"


def _git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository with a copy of a framework, whose history has two versions of an example, and is not in it."""
    history = tmp_path / "history"
    example = history / PLACE
    example.parent.mkdir(parents=True)
    _git(tmp_path, "init", "-q", "history")
    for text in (CONFIG.replace("1024", "512"), CONFIG):
        example.write_text(text)
        _git(history, "add", ".")
        _git(history, "commit", "-q", "-m", "an example")
    monkeypatch.setattr(shipped_examples, "DATA", str(tmp_path / "marks.json"))
    monkeypatch.setattr("tools.shipped_examples.DATA", str(tmp_path / "marks.json"))
    monkeypatch.setattr("tools.generated.ROOT", tmp_path)
    shipped_examples._frameworks.cache_clear()
    assert write_marks([f"hiyouga/LLaMA-Factory={history / '.git'}"]) == 0
    repository = tmp_path / "mine"
    (repository / "LLaMA-Factory" / PLACE).parent.mkdir(parents=True)
    (repository / "LLaMA-Factory" / PLACE).write_text(CONFIG)
    monkeypatch.chdir(repository)
    yield repository
    shipped_examples._frameworks.cache_clear()


def test_every_version_of_the_history_is_known(copy: Path) -> None:
    path = copy / "LLaMA-Factory" / PLACE
    assert framework_of(str(path)) == "LLaMA-Factory"
    path.write_text(CONFIG.replace("1024", "512"))
    assert framework_of(str(path)) == "LLaMA-Factory"
    path.write_bytes(CONFIG.replace("\n", "\r\n").encode())
    assert framework_of(str(path)) == "LLaMA-Factory", "git writes such ends of lines on Windows"


def test_a_changed_a_moved_and_a_missing_file_are_not_the_frameworks(copy: Path) -> None:
    path = copy / "LLaMA-Factory" / PLACE
    moved = copy / "configs" / "qwen_full_sft.yaml"
    moved.parent.mkdir()
    moved.write_text(CONFIG)
    assert framework_of(str(moved)) == ""
    path.write_text(CONFIG.replace("1024", "2048"))
    assert framework_of(str(path)) == ""
    path.unlink()
    assert framework_of(str(path)) == ""


def _check(*words: str) -> int:
    return main(["check", *words, "--gpu", "T4", "--gpus", "1", "--format", "concise", "--no-cache"])


SKIPS = "shipped_examples: skip\n"


def test_a_folder_leaves_unchanged_examples_out_and_says_so(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / "memlint.yaml").write_text(SKIPS)
    own = copy / "LLaMA-Factory" / "examples" / "own.yaml"
    own.write_text(CONFIG)
    assert _check(".") == 1
    shown = capsys.readouterr()
    assert "own.yaml" in shown.out and "qwen_full_sft.yaml" not in shown.out
    assert "train_full: 1 file is an example of LLaMA-Factory as it ships them, not checked" in shown.err


def test_examples_are_checked_like_other_files_unless_settings_say_otherwise(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _check(".") == 1
    assert "qwen_full_sft.yaml" in capsys.readouterr().out


def test_a_named_example_is_checked(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / "memlint.yaml").write_text(SKIPS)
    assert _check(f"LLaMA-Factory/{PLACE}") == 1
    shown = capsys.readouterr()
    assert "qwen_full_sft.yaml" in shown.out and "not checked" not in shown.err


def test_a_candidate_of_a_hook_is_left_out(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / "memlint.yaml").write_text(SKIPS)
    assert _check("--hook", f"LLaMA-Factory/{PLACE}") == 0
    assert "not checked" in capsys.readouterr().err


def test_settings_have_examples_checked_where_they_say_so(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    overrides = 'overrides:\n  - files: ["LLaMA-Factory/**"]\n    shipped_examples: check\n'
    (copy / "memlint.yaml").write_text(SKIPS + overrides)
    assert _check(".") == 1
    assert "qwen_full_sft.yaml" in capsys.readouterr().out
    (copy / "memlint.yaml").write_text("shipped_examples: maybe\n")
    assert _check(".") == 2


def test_the_data_have_marks_of_every_framework_and_nothing_else() -> None:
    data = json.loads(Path(DATA).read_text(encoding="utf-8"))
    assert set(data) == {name for name, _ in EXAMPLES.values()}
    for each in data.values():
        marks = each["marks"].split()
        assert marks and marks == sorted(set(marks))
        assert all(re.fullmatch("[0-9a-f]{10}", one) for one in marks)


def test_a_mark_is_of_the_place_and_the_contents() -> None:
    assert mark("examples/a.yaml", "0" * 40) != mark("examples/b.yaml", "0" * 40) != mark("examples/b.yaml", "1" * 40)
    assert {folder.split("/")[0] for _, folders in EXAMPLES.values() for folder in folders} == FOLDERS


def test_the_files_that_check_arguments_are_told_from_changed_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, place = tmp_path / "history", FILES_OF_CHECKS["verl"][0]
    (history / place).parent.mkdir(parents=True)
    _git(tmp_path, "init", "-q", "history")
    for text in ("a = 1\n", "a = 2\n"):
        (history / place).write_text(text)
        _git(history, "add", ".")
        _git(history, "commit", "-q", "-m", "a version")
    monkeypatch.setattr(shipped_examples, "DATA", str(tmp_path / "marks.json"))
    monkeypatch.setattr("tools.shipped_examples.DATA", str(tmp_path / "marks.json"))
    monkeypatch.setattr("tools.generated.ROOT", tmp_path)
    shipped_examples._frameworks.cache_clear()
    assert write_marks([f"verl-project/verl={history / '.git'}"]) == 0
    copies = [(f"/r/a/{place}", b"a = 1\n"), (f"/r/b/{place}", b"a = 2\r\n"), ("/r/train.py", b"x")]
    assert has_checks_of("verl", copies)
    assert not has_checks_of("verl", [*copies, (f"/r/c/{place}", b"a = 3\n")])
    assert not has_checks_of("verl", copies[2:])
    shipped_examples._frameworks.cache_clear()
