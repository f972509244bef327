"""A notebook that shows results, executed, as a page in a browser: light and dark, wide and narrow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands import browser

nbformat = pytest.importorskip("nbformat")
nbconvert = pytest.importorskip("nbconvert")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).parents[2]
CELLS = (
    "import memlint\nconfig = 'examples/llamafactory/qwen2_5_7b_lora_sft.yaml'",
    "memlint.estimate(config, gpu='A100-80GB')",
    "memlint.estimate(config, gpu='T4')",
    "memlint.check('examples/llamafactory/llama3_8b_full_sft.yaml', gpu='RTX4090')",
    "memlint.plan(config, gpu='T4')",
    "memlint.estimate(model='llama-3-8b', inference=True, gpu='RTX4090')",
)
SHOWN = "document.querySelectorAll('.memlint')"


@pytest.fixture(scope="module")
def executed() -> Any:
    """The notebook with what its cells show."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), before)))
    try:
        runner = nbconvert.preprocessors.ExecutePreprocessor(timeout=300, kernel_name="python3")
        runner.preprocess(notebook, {"metadata": {"path": str(ROOT)}})
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    return notebook


@pytest.fixture(scope="module", params=["light", "dark"])
def opened(request: pytest.FixtureRequest, executed: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    theme = request.param
    exporter = nbconvert.HTMLExporter(theme=theme, require_js_url="", jquery_url="", mathjax_url="")
    page = tmp_path_factory.mktemp("page") / f"{theme}.html"
    page.write_text(exporter.from_notebook_node(executed)[0], encoding="utf-8")
    with browser.Browser(browser.program(), tmp_path_factory.mktemp("profile")) as found:
        found.colours(theme)
        found.open(page)
        yield found


@pytest.mark.parametrize("width", [1280, 390])
def test_results_are_seen_whole(opened: browser.Browser, width: int) -> None:
    opened.size(width, 1000)
    assert opened.run(f"{SHOWN}.length") == 4
    text = opened.run(f"[...{SHOWN}].map((node) => node.innerText).join('\\n')")
    for words in ("fits", "out of memory", "optimizer states", "KV cache", "Qwen/Qwen2.5-7B-Instruct", "allocated"):
        assert words in text, words
    assert "NaN" not in text and "undefined" not in text
    one_line = "[...document.querySelectorAll('.memlint td')].every((cell) => cell.getClientRects()[0].height < 40)"
    assert opened.run(one_line) is True
    wide = f"[...{SHOWN}].filter((node) => node.scrollWidth > node.clientWidth + 1).map((node) => node.innerText)"
    assert opened.run(wide) == []


@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_no_violation_in_results(opened: browser.Browser, width: int) -> None:
    opened.size(width, 1000)
    assert opened.violations("'.memlint'") == []


def test_the_dark_page_is_dark(opened: browser.Browser) -> None:
    """Else the other tests have not seen a dark one."""
    background = "getComputedStyle(document.body).backgroundColor"
    dark = opened.run("document.body.dataset.jpThemeLight") == "false"
    sum_of_channels = f"{background}.match(/\\d+/g).slice(0, 3).map(Number).reduce((a, b) => a + b)"
    assert (opened.run(sum_of_channels) < 200) == dark
