"""`memlint rules`: which rules are listed, with which severity, and who set it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memlint.cli import main
from memlint.errors import UsageError
from memlint.settings import forget


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    forget()
    return tmp_path


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["rules", "--format", "json", *arguments]) == 0
    return {row["id"] + " " + row["name"]: row for row in json.loads(capsys.readouterr().out)["rules"]}


def test_every_rule_is_listed_once_by_id(capsys: pytest.CaptureFixture[str]) -> None:
    main(["rules", "--all", "--format", "json"])
    rows = json.loads(capsys.readouterr().out)["rules"]
    names = [(row["id"], row["name"]) for row in rows]

    assert len(names) == len(set(names)) > 200
    assert [name for name, _ in names] == sorted(name for name, _ in names)


def test_a_rule_that_is_ignored_is_listed_on_request_alone(capsys: pytest.CaptureFixture[str]) -> None:
    name = "MEM001 memory/over-the-card"
    assert name not in listed(capsys, "--ignore", "MEM001")
    assert listed(capsys, "--ignore", "MEM001", "--all")[name]["in_force"] is False
    assert list(listed(capsys, "--select", "MEM001")) == [name]


def test_a_severity_from_settings_is_shown_with_its_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "memlint.yaml").write_text("gpus: 1\nseverity: {MEM001: info}\n")
    rows = listed(capsys)

    assert rows["MEM001 memory/over-the-card"]["severity"] == "info"
    assert rows["MEM001 memory/over-the-card"]["origin"] == "memlint.yaml:2"
    assert rows["MEM002 memory/tight"]["origin"].startswith("rules/")
    assert rows["CFG001 config/unknown-key"]["origin"] == "memlint"


def test_the_other_formats_have_the_same_rows(capsys: pytest.CaptureFixture[str]) -> None:
    count = len(listed(capsys))
    main(["rules"])
    text = capsys.readouterr().out.splitlines()
    main(["rules", "--format", "markdown"])
    markdown = capsys.readouterr().out.splitlines()

    assert text[-1] == f"{count} rules" and len(text) == count + 1
    assert markdown[0] == "| id | severity | name | title |" and len(markdown) == count + 2


def test_nothing_in_force_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(["rules", "--ignore", "all"])
    except UsageError as error:
        assert "no rule is in force" in str(error)
    else:
        assert code == 2 and "no rule is in force" in capsys.readouterr().err
