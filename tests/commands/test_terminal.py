"""What people see in a terminal: at 60, 80 and 120 columns, with and without colour; questions and their answers."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest
from syrupy.assertion import SnapshotAssertion

from memlint.report.terminal import columns
from memlint.report.wrap import visible
from tests.commands.running import ROOT, memlint, write
from tests.commands.terminal import in_terminal
from tests.report.test_snapshots import FILES, NUMBER

LONG = (ROOT / "examples" / "llamafactory" / "qwen2_5_1_5b_eager_long.yaml").read_text(encoding="utf-8")
PROGRESS = re.compile("\r\x1b\\[2K(memlint: [^\n\r\x1b]*(?=\r))?")
WIDTHS = (60, 80, 120)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, FILES)
    return tmp_path


def shown(folder: Path, *arguments: str, width: int, colour: str = "auto") -> str:
    found = in_terminal(folder, *arguments, "--color", colour, width=width)
    # Figures move when the model of memory gets better; their places on the line do not, as long as they are as long.
    return NUMBER.sub(lambda one: re.sub(r"\d", "0", one[0]), PROGRESS.sub("", found.text))


@pytest.mark.parametrize("colour", ["auto", "never"])
@pytest.mark.parametrize("width", WIDTHS)
def test_check(folder: Path, width: int, colour: str, snapshot: SnapshotAssertion) -> None:
    assert shown(folder, "check", ".", "--select", "CFG,MEM001", width=width, colour=colour) == snapshot


@pytest.mark.parametrize("width", WIDTHS)
def test_estimate(folder: Path, width: int, snapshot: SnapshotAssertion) -> None:
    assert shown(folder, "estimate", "train.yaml", width=width, colour="never") == snapshot


@pytest.mark.parametrize("verb", ["check", "estimate"])
@pytest.mark.parametrize("width", [60, 67, 80, 99, 120, 200])
def test_no_line_is_wider_than_the_terminal(verb: str, width: int) -> None:
    told = shown(ROOT / "examples", verb, *(["llamafactory"] if verb == "check" else ["."]), width=width)

    wide = [line for line in map(visible, told.split("\n")) if columns(line) > width]

    assert [line for line in wide if len(line.split()) > 1] == []


def test_a_pipe_has_no_width_and_no_escapes(folder: Path) -> None:
    told = memlint(folder, "check", ".").out

    assert "train.yaml:12:1: error CFG001 " in told and "\x1b" not in told
    assert max(map(len, told.split("\n"))) > 120
    assert "\x1b[1;31m" in memlint(folder, "check", ".", "--color", "always").out


def test_quiet_and_verbose(folder: Path) -> None:
    quiet, plain, verbose = (memlint(folder, "check", ".", *more) for more in (["--quiet"], [], ["--verbose"]))

    assert quiet.code == plain.code == verbose.code == 1
    assert plain.out.startswith(quiet.out) and "recognised:" not in quiet.out
    assert "\n  why    " in verbose.out and "\n  more   memlint explain CFG001\n" in verbose.out
    assert "\n  fix 4  " in verbose.out and "\n  fix 4  " not in plain.out


def test_verbose_shows_what_a_fix_changes(folder: Path) -> None:
    told = memlint(folder, "check", "train.yaml", "--verbose").out

    assert "\n    | - gradient_accumulation_step: 8\n    | + gradient_accumulation_steps: 8\n" in told


def test_what_is_shown_can_be_less_or_more(tmp_path: Path) -> None:
    three = LONG.replace("batch_size: 4", "batch_size: 3").replace("A100-80GB", "A100-40GB").replace("8192", "4000")
    write(tmp_path, {"long.yaml": three.replace("disabled  #", "disabled  # memlint: ignore[ATT001] a test #")})
    plain, more, less = (
        memlint(tmp_path, "check", "long.yaml", *options).out
        for options in ([], ["--no-ignores"], ["--min-severity", "error", "--no-ignores"])
    )

    assert "1 suppressed" in plain and "suppressed" not in more
    assert [rule for _, rule in sorted(_found(plain))] == ["MEM001"]
    assert [rule for _, rule in sorted(_found(more))] == ["ATT001", "MEM001"]
    assert [rule for _, rule in sorted(_found(less))] == ["MEM001"]


def test_watch_checks_again_after_a_change(folder: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "memlint", "check", "train.yaml", "--watch", "--select", "CFG001"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        first = _until_it_waits(process.stdout)
        write(folder, {"train.yaml": FILES["train.yaml"].replace("_step:", "_steps:")})
        second = _until_it_waits(process.stdout)
    finally:
        process.send_signal(signal.SIGINT)
    assert "train.yaml:12:1: error" in first and "train.yaml:12:1: error" not in second
    assert process.wait(timeout=60) == 130
    process.stdout.close()


def _until_it_waits(stream: IO[str]) -> str:
    lines = []
    for line in stream:
        lines.append(line)
        if "waiting for a change" in line:
            break
    return "".join(lines)


def test_check_fixes_before_it_checks(folder: Path) -> None:
    first = memlint(folder, "check", ".", "--fix", "--unsafe", "--select", "CFG001")
    second = memlint(folder, "check", ".", "--fix", "--unsafe", "--select", "CFG001")

    assert "CFG001 fixed: rename it to `gradient_accumulation_steps`" in first.err
    assert "2 fixed in 2 files" in first.err and "0 fixed in 0 files" in second.err
    assert first.code == second.code == 0 and first.out == second.out
    assert "CFG001" not in first.out


@pytest.mark.parametrize(
    ("answers", "changes"),
    [
        ("n\nn\nn\nn\nn\n", ()),
        ("q\n", ()),
        ("", ()),
        ("n\ny\nq\n", ("flash_attn: sdpa",)),
        ("what\ny\nq\n", ("flash_attn: sdpa", "enable_liger_kernel: true")),
        ("a\n", ("flash_attn: sdpa", "enable_liger_kernel: true")),
    ],
)
def test_answers(tmp_path: Path, answers: str, changes: tuple[str, ...]) -> None:
    write(tmp_path, {"long.yaml": LONG})

    # The end of the file is what Ctrl-D is in a terminal.
    done = in_terminal(tmp_path, "fix", "long.yaml", "--interactive", "--isolated", answers=f"{answers}\x04", width=200)

    text = (tmp_path / "long.yaml").read_text(encoding="utf-8")
    possible = ("flash_attn: sdpa", "enable_liger_kernel: true")
    assert tuple(change for change in possible if change in text) == changes, done.text
    assert "+flash_attn: sdpa" in done.text and "[a]ll that are left" in done.text
    assert ("y  write this fix" in done.text) == ("what" in answers)
    assert f"{min(1, len(changes))} fixed" in done.text


def test_what_is_marked_is_what_fix_does(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for option in ((), ("--unsafe",)):
        marked = _marked(memlint(tmp_path, "check", "examples").out, option)
        memlint(tmp_path, "fix", "examples", *option)
        left = _found(memlint(tmp_path, "check", "examples").out)
        assert marked and not marked & left


def _found(told: str) -> set[tuple[str, str]]:
    return set(re.findall(r"^(\S+?):\d+:\d+: \w+ ([A-Z]{3}\d{3}) ", told, re.MULTILINE))


def _marked(told: str, option: tuple[str, ...]) -> set[tuple[str, str]]:
    """(path, rule) of findings that fix solves, of rules that are found once in the file."""
    mark = r" \[fixable( with --unsafe)?(: fix \d)?\]$" if option else r" \[fixable(: fix \d)?\]$"
    lines = told.split("\n")
    marked = {found for line in lines if re.search(mark, line) for found in _found(line)}
    return {found for found in marked if sum(found in _found(line) for line in lines) == 1}


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("chekc", "train.yaml", "--no-such-option"), "did you mean `memlint check`?"),
        (("hlep",), "did you mean `memlint help`?"),
        (("MEM001",), "did you mean `memlint explain MEM001`?"),
        (("check", "trian.yaml"), "trian.yaml: no such file or folder; did you mean train.yaml?"),
        (("check", "--formt", "json"), "did you mean --format?"),
        (("check", "--profile", "strct"), "did you mean strict?"),
        (("check", "--select", "MEM999"), "did you mean MEM0"),
        (("check", "--gpu", "H10"), "H100"),
        (("check", "--color", "sometimes"), "auto, always, never"),
    ],
)
def test_a_slip_is_answered_with_what_was_meant(folder: Path, arguments: tuple[str, ...], hint: str) -> None:
    done = memlint(folder, *arguments)

    assert (done.code, done.out) == (2, "")
    assert hint in done.err and done.err.count("\n") == 1, done.err


def test_help_of_a_verb(tmp_path: Path) -> None:
    assert memlint(tmp_path, "help", "fix") == memlint(tmp_path, "fix", "--help")
    assert memlint(tmp_path, "help") == memlint(tmp_path, "--help")
    assert "did you mean `memlint fix`?" in memlint(tmp_path, "help", "fxi").err
