"""What no command can work with: one line that says what and how to mend it, exit code 2, no output."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from memlint import commands
from memlint.cli import EXIT_BROKEN_PIPE, VERBS, main
from tests.commands.history import LLAMA
from tests.commands.running import ROOT, memlint, write

CARD = ("--gpu", "RTX4090", "--gpus", "1", "--isolated")
RULE = """
id: OWN001
name: own/rule
title: A rule of somebody
severity: warning
when: batch.micro_batch_size > 64
at: [batch.micro_batch_size]
message: too many
why: A batch of this size has never fitted.
sources: [a run of ours]
"""
EXAMPLES = """
examples:
  - fails: |
      model_name_or_path: Qwen/Qwen2.5-1.5B
      per_device_train_batch_size: 128
      max_length: 1024
      output_dir: out
    format: trainer
    file: sft.yaml
  - passes: |
      model_name_or_path: Qwen/Qwen2.5-1.5B
      per_device_train_batch_size: 8
      max_length: 1024
      output_dir: out
    format: trainer
    file: sft.yaml
"""
FILES = {
    "train.yaml": LLAMA,
    "vague.yaml": LLAMA.replace("meta-llama/Meta-Llama-3-8B", "us/our-own"),
    "other.yaml": "x: 1\n",
    "good/own.yaml": RULE + EXAMPLES,
    "large/own.yaml": "#" * 300_000,
    "several/own.yaml": "a: 1\n---\nb: 2\n",
    "twice/a.yaml": RULE + EXAMPLES,
    "twice/b.yaml": RULE + EXAMPLES,
    "bare/own.yaml": RULE,
    "twice.yaml": "rules_dirs: [twice]\n",
    "unused.yaml": "ignore: [nothing/here]\n",
    "plugin.py": "raise ValueError('of its own')\n",
}

REFUSED = {
    "an estimate as SARIF": (("estimate", ".", "--format", "sarif"), "unknown format 'sarif' for estimate: text or"),
    "a format that is none": (("--format", "yaml"), "unknown format 'yaml': one of "),
    "two formats on one output": (("--format", "json", "--format", "sarif"), "two formats would go to standard output"),
    "more outputs than formats": (
        ("--format", "json", "--output", "a", "--output", "b"),
        "more --output than --format",
    ),
    "no repository": (("diff", "main"), "git rev-parse: fatal: not a git repository"),
    "a diff as SARIF": (("diff", "main", "--format", "sarif"), "unknown format 'sarif' for diff: text, markdown or"),
    "a rule's name that is taken": (
        ("new-rule", "memory/over-the-card"),
        "there is a rule memory/over-the-card already",
    ),
    "a rule's name that is none": (("new-rule", "Memory"), "'Memory' is no rule name: family/slug in lower case"),
    "an id that is none": (("new-rule", "own/rule", "--id", "own1"), "'own1' is no rule id: three capital letters"),
    "a rule file that is too large": (("test", "large"), "large/own.yaml:1:1: is larger than 200000 bytes"),
    "a rule file of several": (("test", "several"), "several/own.yaml:1:1: holds several documents: one rule a file"),
    "a rule without examples": (("test", "bare"), "bare/own.yaml:2:1: `examples` is missing"),
    "a rule file that is not there": (("test", "gone.yaml"), "gone.yaml:1:1: cannot be read: No such file"),
    "an id that two rules have": (("train.yaml", "--settings", "twice.yaml"), "the id OWN001 is taken by twice/a.yaml"),
    "an id that two tested rules have": (("test", "twice"), "twice/b.yaml:1:1: the id OWN001 is taken by twice/a.yaml"),
    "settings that are not there": (("--settings", "gone.yaml"), "settings: gone.yaml:1:1: cannot be read"),
    "a rule that nobody knows": (("train.yaml", "--select", "nothing/here"), "nothing/here"),
    "no rule left": (("rules", "--select", "XXX999"), "no rule is in force: see --select, --ignore and the settings"),
    "a companion that is not there": (("train.yaml", "--with", "gone.yaml"), "--with gone.yaml: no file `gone.yaml`"),
    "a version that is none": (("--versions", "transformers=x"), "write a version behind the name: transformers=4.48"),
    "a package that is none": (("--versions", "transformer=4.48"), "did you mean transformers?"),
    "a card that is none": (
        ("--gpu", "B999"),
        "unknown GPU 'B999': `memlint cards` lists the cards; a size (24GiB) is one",
    ),
    "fixing standard input": (("fix", "-"), "fix writes files: standard input is none"),
    "a measurement without a size": (("calibrate", "train.yaml"), "calibrate wants --measured SIZE for a config"),
    "a measurement of no size": (("calibrate", "train.yaml", "--measured", "lots", *CARD), "not a size: 'lots'"),
    "a measurement of nothing": (
        ("calibrate", "other.yaml", "--measured", "3GiB"),
        "a file with one run, this one has 0",
    ),
    "a measurement beside no estimate": (
        ("calibrate", "vague.yaml", "--measured", "3GiB", *CARD),
        "vague.yaml: there is no estimate to compare with (model.architecture: ",
    ),
    "a plan for nothing": (("plan", "other.yaml", *CARD), "no training config to plan for among these files"),
    "nothing to explain": (("explain", "other.yaml"), "other.yaml: nothing to explain: no run and no finding"),
    "no finding to explain": (("explain", "train.yaml:999", *CARD), "train.yaml:999: no finding there"),
    "a plug-in that is not there": (("--plugin", "gone.py"), "there is no such file"),
    "a plug-in that breaks": (("--plugin", "plugin.py"), "plugin.py: ValueError: of its own (plugin.py:1)"),
    "a path that is not there": (
        ("gone",),
        "gone: no such file or folder, and no command (`memlint --help` lists them)",
    ),
    "a file that is not there": (("gone.yaml",), "gone.yaml: no such file or folder"),
    "a slip in a verb": (
        ("estimte", "train.yaml"),
        "estimte: no such file or folder, and no command; did you mean",
    ),
    "a slip in a rule's id": (("explain", "MEM0001"), "MEM0001: no rule is called so, and there is no such file"),
    "a slip in a rule's name": (("explain", "memory/over-the-crd"), "did you mean memory/over-the-card?"),
    "a diff as HTML": (("diff", "main", "--format", "html"), "for diff: text, markdown or json"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("refusals")
    write(folder, FILES)
    return folder


def told(
    folder: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    monkeypatch.chdir(folder)
    code = main([*arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_is_one_line_that_says_why(
    case: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, reason = REFUSED[case]
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(folder.parent))

    code, out, err = told(folder, arguments, monkeypatch, capsys)

    assert (code, out) == (2, "")
    assert err.startswith("memlint: ")
    assert err.count("\n") == 1
    assert reason in err.replace(str(folder) + os.sep, "").replace(os.sep, "/")


@pytest.mark.parametrize("arguments", [("--gpus", "0"), ("--gpus", "x"), ("--jobs", "0"), ("--no-such-option",)])
def test_what_the_command_line_has_no_meaning_for_is_shown_with_what_it_has(
    folder: Path, arguments: tuple[str]
) -> None:
    done = memlint(folder, *arguments)

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("memlint check: ")
    assert arguments[0] in done.err and done.err.endswith("(`memlint check --help` lists the options)\n")


def test_without_git_a_diff_says_so_and_a_check_goes_on(tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": LLAMA})
    nowhere = {"PATH": str(tmp_path / "bin")}

    done = memlint(tmp_path, "diff", "main", environment=nowhere)
    assert (done.code, done.err) == (2, "memlint: git is not installed, or not on PATH\n")

    hooked = memlint(tmp_path, "--hook", "train.yaml", *CARD, environment=nowhere)
    assert (hooked.code, hooked.err) == (0, "")


@pytest.mark.parametrize(
    "verb", ["check", "fix", "estimate", "simulate", "calibrate", "plan train.yaml", "explain x", "rules"]
)
def test_every_verb_shows_the_settings_instead_of_its_own_work(verb: str, folder: Path) -> None:
    done = memlint(folder, *verb.split(), "--show-settings", "train.yaml")

    assert (done.code, done.err) == (0, "") and done.out.startswith("profile ")


@pytest.mark.parametrize("verb", ["check", "fix", "estimate", "simulate", "calibrate"])
def test_every_verb_lists_files_instead_of_its_own_work(verb: str, tmp_path: Path) -> None:
    slip = LLAMA.replace("learning_rate", "learning_rat")
    write(tmp_path, {"train.yaml": slip})
    done = memlint(tmp_path, verb, ".", "--list-files")

    assert (done.code, done.out, done.err) == (0, "train.yaml\n", "")
    assert (tmp_path / "train.yaml").read_text() == slip


@pytest.mark.parametrize("verb", ["check", "estimate", "diff"])
def test_the_help_lists_the_formats_that_the_verb_takes(verb: str, folder: Path) -> None:
    page = memlint(folder, verb, "--help").out.rpartition("--format NAME  ")[2].partition("--output FILE")[0]
    assert ("sarif" in page) == (verb == "check")
    assert "(default: text)" in page


def test_explain_takes_a_rules_id_in_any_case(folder: Path) -> None:
    assert memlint(folder, "explain", "mem001").out == memlint(folder, "explain", "MEM001").out


def test_an_estimate_goes_to_several_outputs(folder: Path, tmp_path: Path) -> None:
    told = str(tmp_path / "e.json")
    done = memlint(folder, "estimate", "train.yaml", "--format", "json", "--output", told, "--format", "text")
    assert '"runs"' in Path(told).read_text() and "GiB" in done.out


def test_a_plan_without_a_card_says_the_unit(folder: Path) -> None:
    assert "); no card is known" in memlint(folder, "plan", "train.yaml").out


def broken_by(error: BaseException) -> Callable[[str], Callable[[str, list[str]], int]]:
    def run(program: str, arguments: list[str]) -> int:
        raise error

    return lambda module: run


def test_a_bug_is_told_as_one_with_what_an_issue_needs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "load", broken_by(ZeroDivisionError("by \x1b[31mdesign")))

    code, out, err = told(folder, ("estimate", "train.yaml"), monkeypatch, capsys)

    assert (code, out) == (2, "")
    assert err.startswith("memlint: internal error: ZeroDivisionError: by ")
    assert "This is a bug in memlint, not in your config." in err
    assert "command: memlint estimate train.yaml" in err
    assert "raise error" in err
    assert "\x1b" not in err


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (BrokenPipeError(), EXIT_BROKEN_PIPE)])
def test_who_stops_memlint_is_told_nothing(
    error: BaseException,
    code: int,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(commands, "load", broken_by(error))

    assert told(folder, ("check",), monkeypatch, capsys) == (code, "", "")


@pytest.mark.parametrize("word", ["-h", "--help", "help"])
def test_help_lists_every_verb(
    word: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = told(folder, (word,), monkeypatch, capsys)

    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines() if line.startswith("  ")] == [*VERBS]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no such device")
@pytest.mark.parametrize("arguments", ["check . --format json", "--help", "--version"])
def test_a_full_disk_under_standard_output_is_no_success(folder: Path, arguments: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "memlint", *arguments.split()],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )

    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


def test_a_job_summary_that_cannot_be_written_is_told(folder: Path) -> None:
    done = memlint(folder, "train.yaml", "--format", "github", *CARD, environment={"GITHUB_STEP_SUMMARY": str(folder)})

    assert (done.code, done.err) == (2, f"memlint: {folder}: Is a directory\n")


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="file names are text there")
def test_a_patch_names_a_file_whose_name_is_no_text(tmp_path: Path) -> None:
    folder = tmp_path / "patched"
    name = os.fsdecode(b"caf\xe9.yaml")
    text = (ROOT / "examples" / "llamafactory" / "qwen2_5_1_5b_eager_long.yaml").read_text(encoding="utf-8")
    write(folder, {name: text})
    shutil.copytree(folder, tmp_path / "other")

    done = subprocess.run(
        [sys.executable, "-m", "memlint", "fix", "--diff", "--unsafe", name, "--gpu", "A100-80GB", "--gpus", "1"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    subprocess.run(["git", "apply", "-"], cwd=tmp_path / "other", input=done.stdout, check=True)

    assert (tmp_path / "other" / name).read_text() != text
