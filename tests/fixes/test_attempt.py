"""Trying a fix: what is refused with a reason, what is our bug, and that neither is written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from memlint.cli import main
from memlint.findings import Edit
from memlint.fixes import apply as rounds
from memlint.fixes import attempt as module
from memlint.fixes.attempt import attempt
from memlint.fixes.edits import second_opinion
from memlint.fixes.laws import MAX_ROUNDS, BrokenLaw
from memlint.lint.analyse_file import uniform_analyser
from memlint.ruleset.engine import Analysis, Engine
from memlint.ruleset.shipped import shipped

ROOT = Path(__file__).parents[2]
LONG = ROOT / "examples" / "llamafactory" / "qwen2_5_1_5b_eager_long.yaml"
CARD = ("--gpu", "A100-80GB", "--gpus", "1", "--isolated")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(LONG, tmp_path / "long.yaml")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "long.yaml"


def analysed(path: Path) -> Analysis:
    engine = Engine(shipped())
    return uniform_analyser(engine, {}, cwd=str(path.parent)).analyse(path.name).analyses[0]


def never(_: Mapping[str, bytes]) -> Analysis:
    raise AssertionError("nothing was to be linted again")


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (Edit("shared.json", ("a",), "set", 1), "shared.json is not one of the files that were read"),
        (Edit("long.yaml", ("bf16",), "set", True), "the files say so already"),
        (Edit("long.yaml", ("bf16", "x"), "set", 1), "`bf16` has no keys of its own"),
    ],
)
def test_what_cannot_be_done_says_why_and_leaves_nothing_to_write(config: Path, edit: Edit, reason: str) -> None:
    tried = attempt(analysed(config), [edit], None, never)

    assert (tried.refused, dict(tried.contents), tried.holds) == (reason, {}, False)


def test_a_fix_that_leaves_its_finding_is_refused(config: Path) -> None:
    analysis = analysed(config)
    finding = analysis.findings[0]

    tried = attempt(analysis, [Edit("long.yaml", ("bf16",), "set", False)], finding, lambda _: analysis)

    assert tried.refused == f"{finding.rule} would still be there"


def fixed(capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(["fix", "long.yaml", "--unsafe", *CARD])
    return code, capsys.readouterr().err


def test_a_broken_law_is_told_as_our_bug_and_nothing_is_written(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "broken", lambda *_: (BrokenLaw("value", "it loads as something else"),))

    code, err = fixed(capsys)

    assert code == 2
    assert "the fix breaks the law `value`: it loads as something else\n" in err
    assert err.endswith("This is a bug in memlint, not in your config: nothing was written. Please report it.\n")
    assert config.read_bytes() == LONG.read_bytes()
    assert os.listdir(config.parent) == ["long.yaml"]


def test_a_comment_that_another_parser_finds_elsewhere_stops_the_writing(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(second_opinion, "disagreements", lambda *_: ("the comment of `a` went to `b`",))

    code, err = fixed(capsys)

    assert code == 2
    assert "long.yaml: the comment of `a` went to `b`\nmemlint: This is a bug in memlint" in err
    assert config.read_bytes() == LONG.read_bytes()


def test_fixes_that_undo_each_other_come_to_an_end(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each fix seems to hold and to change nothing: the finding is there again, round after round."""
    monkeypatch.setattr(
        rounds, "attempt", lambda analysis, edits, finding, again: attempt(analysis, edits, finding, again)._replace(
            contents={}, before={}, refused=""
        )
    )  # fmt: skip

    code, err = fixed(capsys)

    assert code == 2
    assert f"fixing did not come to rest in {MAX_ROUNDS} rounds" in err
    assert config.read_bytes() == LONG.read_bytes()
