"""Every example of docs/api.md runs, and shows what it shows."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["docs/api.md"])
def test_the_examples_show_what_they_show(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / page).read_text(encoding="utf-8").replace("```", "")
    options = doctest.ELLIPSIS | doctest.REPORT_NDIFF
    examples = doctest.DocTestParser().get_doctest(text, {}, page, page, 0)
    told: list[str] = []

    result = doctest.DocTestRunner(optionflags=options).run(examples, out=told.append)

    assert result.attempted > 10
    assert result.failed == 0, "".join(told)
