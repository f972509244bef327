"""The house style of the pages that people read, and the check itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import prose


@pytest.mark.parametrize("page", prose.pages(), ids=lambda page: page.name)
def test_a_page_keeps_the_style(page: Path) -> None:
    assert list(prose.problems(page.read_text(encoding="utf-8"))) == []


def test_the_check_sees_what_it_should() -> None:
    long = " ".join(f"word{number}" for number in range(46))
    text = f"It is simply fast.\n\n```yaml\nsimply: just\n```\n\nThe the end.\n\n{long}.\n\n| very | just |\n"

    assert sorted(prose.problems(text)) == [
        (1, "`simply`: leave it out"),
        (7, "`The` twice"),
        (9, "a sentence of 46 words (at most 45)"),
    ]
