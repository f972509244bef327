"""The same files give the same bytes: whatever the hash seed, the locale, the folder, the workers, the line ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from memlint.hardware import find
from memlint.lint.linter import Linter
from memlint.lint.request import LintRequest, StatedFacts

ROOT = Path(__file__).parents[2]
FORMATS = ("text", "json", "sarif")


def check(folder: Path, name: str = "json", *more: str, **environment: str) -> bytes:
    command = [sys.executable, "-m", "memlint", "check", "--format", name, "--gpu", "A100-40GB", "--gpus", "4", *more]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr.decode()
    return done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one") / "project"
    shutil.copytree(ROOT / "examples", folder)
    (folder / ".git").mkdir()
    return folder


@pytest.fixture(scope="module")
def few(project: Path) -> Path:
    """Configs of three frameworks, whose findings name files, bytes and characters of several languages."""
    folder = project.parent / "few"
    for name in ("llamafactory", "trainer", "deepspeed"):
        shutil.copytree(project / name, folder / name)
    (folder / ".git").mkdir()
    return folder


@cache
def usual(folder: Path, name: str) -> bytes:
    return check(folder, name)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("seed", ["0", "1", "4294967295"])
def test_hash_seeds_change_nothing(project: Path, name: str, seed: str) -> None:
    assert check(project, name, PYTHONHASHSEED=seed) == usual(project, name)


@pytest.mark.parametrize("locale", ["C", "POSIX", "C.UTF-8", "tr_TR.UTF-8", "de_DE.ISO-8859-1", "no_SUCH"])
def test_locales_change_nothing(few: Path, locale: str) -> None:
    for name in FORMATS:
        told = check(few, name, LC_ALL=locale, LANG=locale, LANGUAGE=locale, PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
        assert told == usual(few, name)


@pytest.mark.parametrize("name", FORMATS)
def test_the_folder_changes_nothing(project: Path, tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "a b" / "é" / "deeper"
    shutil.copytree(project, elsewhere)

    assert check(elsewhere, name) == usual(project, name)


@pytest.mark.parametrize("workers", ["1", "2", "4"])
@pytest.mark.parametrize("name", FORMATS)
def test_the_number_of_workers_changes_nothing(project: Path, name: str, workers: str) -> None:
    assert check(project, name, "--jobs", workers) == usual(project, name)


@pytest.mark.parametrize("name", FORMATS)
def test_kept_results_are_those_of_a_fresh_check(project: Path, tmp_path: Path, name: str) -> None:
    for _ in range(2):  # without results, then from those that were kept
        assert check(project, name, "--cache-dir", str(tmp_path)) == usual(project, name)
    assert list(tmp_path.glob("*.results")) or name == "html"  # a page's what-if grid is not kept


@pytest.mark.parametrize("example", sorted((ROOT / "examples").rglob("*.yaml")), ids=lambda path: path.name)
def test_line_ends_and_a_byte_order_mark_change_nothing(example: Path, project: Path) -> None:
    """What is found, and at which lines and columns, is the same with LF and CRLF, with and without a mark."""
    path = project / example.relative_to(ROOT / "examples")
    text = path.read_bytes()
    contents = {"lf": text, "crlf": text.replace(b"\n", b"\r\n"), "bom": b"\xef\xbb\xbf" + text}
    told = {}
    for name, data in contents.items():
        linter = Linter(
            LintRequest(StatedFacts(gpu=find("RTX4090"), gpus=2, isolated=True), contents=((str(path), data),))
        )
        told[name] = [
            (item.rule, item.message, item.location.line, item.location.column, [fix.title for fix in item.fixes])
            for item in linter.report_file(str(path)).findings
        ]

    assert told["crlf"] == told["lf"]
    assert told["bom"] == told["lf"]
