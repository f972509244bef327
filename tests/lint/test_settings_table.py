"""The words of `--show-settings`: a value as settings would write it, and where it came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memlint.lint.settings_table import origin_text, value_text
from memlint.run import Origin
from memlint.suppressions.waiver import Waiver


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (8, "8"),
        (0, "-"),
        ("", "-"),
        ((), "-"),
        ({}, "-"),
        ((4, 57, 1), "4.57.1"),
        (("MEM001", "memory"), "MEM001, memory"),
        ({"MEM001": "off"}, "MEM001: off"),
        ("a\nb\x1b[0m", None),
        ((Waiver(("MEM001", "MEM002"), ("zero", 0), "why", "", Origin("setting")),), "MEM001 MEM002 at /zero/0"),
    ],
)
def test_a_value_is_one_line_of_plain_text(value: Any, text: str | None) -> None:
    shown = value_text(value)
    assert shown == text if text is not None else "\n" not in shown and "\x1b" not in shown


def test_an_origin_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    inside, outside = str(tmp_path / "memlint.yaml"), "/elsewhere/memlint.yaml"

    assert origin_text(Origin("default", detail="whatever")) == "default"
    assert origin_text(Origin("command_line")) == "command line"
    assert origin_text(Origin("command_line", detail="profile ci")) == "profile ci (command line)"
    assert origin_text(Origin("setting", inside, 3, 5)) == "memlint.yaml:3:5"
    assert origin_text(Origin("setting", inside, 1, 10, detail="profile ci")) == "profile ci (memlint.yaml:1:10)"
    assert origin_text(Origin("setting", outside, 1, 1)) == f"{outside}:1:1"
