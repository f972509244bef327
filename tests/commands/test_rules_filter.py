"""The list of rules in the documentation filters its rows as one types, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tests.commands.browser as browser
from tests.commands.running import ROOT

SCRIPT = ROOT / "docs" / "_static" / "rules-filter.js"
# The page as Sphinx makes it of docs/rules/index.md: a section a family, a row a rule.
PAGE = """<!doctype html><article><section><input id="rules-filter"><p id="rules-count"></p>
<section id="memory"><table><tbody><tr id="a"><td>MEM001<td>error<td>Too much</tr>
<tr id="b"><td>MEM002<td>warning<td>Tight</tr></tbody></table></section>
<section id="loss"><table><tbody><tr id="c"><td>LOS001<td>warning<td>Logits</tr></tbody></table></section>
</section></article><script src="filter.js"></script>"""
SHOWN = (
    "[...document.querySelectorAll('tr, section section')].filter((node) => node.checkVisibility()).map((n) => n.id)"
)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[browser.Browser]:
    program = browser.program()
    (tmp_path / "filter.js").write_text(SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "index.html").write_text(PAGE, encoding="utf-8")
    with browser.Browser(program, tmp_path / "profile") as found:
        found.open(tmp_path / "index.html")
        yield found


def type_in(opened: browser.Browser, text: str) -> None:
    box = "document.getElementById('rules-filter')"
    opened.run(f"{box}.value = '{text}', {box}.dispatchEvent(new Event('input'))")


def test_rows_without_the_words_are_hidden(opened: browser.Browser) -> None:
    assert opened.run(SHOWN) == ["memory", "a", "b", "loss", "c"]
    type_in(opened, "WARNING mem")
    assert opened.run(SHOWN) == ["memory", "b"]
    assert opened.run("document.getElementById('rules-count').textContent") == "1 of 3 rules"
    type_in(opened, "")
    assert len(opened.run(SHOWN)) == 5
    assert opened.problems == []
