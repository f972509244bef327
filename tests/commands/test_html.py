"""The HTML report in a real browser: it opens, sorts, filters, answers, and is read by keyboard and screen reader."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import tests.commands.browser as browser
from memlint.report import html
from tests.commands.running import ROOT, memlint
from tests.report.hostile import ATTACKS, report

# Contrast of every text with what is behind it (WCAG 2.2, 1.4.3: 4.5 for text, 3 for large text).
CONTRAST = """
(() => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const part = (value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const bright = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = parse(getComputedStyle(node).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const bad = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode.data.trim().slice(0, 40);
    const node = walk.currentNode.parentElement;
    const style = getComputedStyle(node);
    if (!text || !node.checkVisibility() || ["SCRIPT", "STYLE", "OPTION"].includes(node.tagName)) continue;
    if (style.opacity < 1 || node.closest("[aria-hidden=true], .sr, .skip")) continue;
    const [a, b] = [bright(parse(style.color)), bright(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5)) bad.push(`${text}: ${ratio.toFixed(2)}`);
  }
  return bad;
})()
"""
NAMES = "[...document.querySelectorAll('.config')].map((node) => node.dataset.path)"
DRAW_ALL = "dispatchEvent(new Event('beforeprint')), 0"
CHANGE = "(id, value) => {{ const node = document.getElementById(id); node.value = value; {} }}"
CHOOSE = f"({CHANGE.format('node.dispatchEvent(new Event(`change`))')})"
TYPE = f"({CHANGE.format('node.dispatchEvent(new Event(`input`))')})"
WORST_FIRST = ("will not start", "out of memory", "tight", "fits", "unknown", "part of a run")
ROWS = "document.querySelectorAll('.row')"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Browser]:
    with browser.Browser(browser.program(), tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    done = memlint(ROOT, "examples", "--format", "html", "--output", str(path), "--exit-zero")
    assert (done.code, done.out, done.err) == (0, "", "")
    return path


@pytest.fixture
def opened(chromium: browser.Browser, page: Path) -> Iterator[browser.Browser]:
    chromium.problems.clear()
    chromium.requests.clear()
    chromium.size(1280, 900)
    chromium.colours("light")
    chromium.open(page)
    chromium.run("localStorage.clear(), 0")
    chromium.open(page)
    chromium.run(DRAW_ALL)
    yield chromium
    assert chromium.problems == []
    assert [url for url in chromium.requests if not url.startswith(("file:", "data:"))] == []


def test_every_config_is_there_the_worst_first(opened: browser.Browser) -> None:
    data = json.loads(opened.run("document.getElementById('data').textContent"))

    names = opened.run(NAMES)
    assert sorted(names) == sorted(file["path"] for file in data["files"])
    words = opened.run("[...document.querySelectorAll('.row > .badge')].map((node) => node.textContent.slice(1))")
    ranks = [next(rank for rank, verdict in enumerate(WORST_FIRST) if word.startswith(verdict)) for word in words]
    assert ranks == sorted(ranks)


def test_sorting_filtering_and_searching(opened: browser.Browser) -> None:
    everything = opened.run(NAMES)
    opened.run(f"{CHOOSE}('sort', 'path')")
    assert opened.run(NAMES) == sorted(everything)
    opened.run(f"{CHOOSE}('sort', 'peak')")
    data = json.loads(opened.run("document.getElementById('data').textContent"))
    peaks = {file["path"]: max((run.get("device") or 0 for run in file["runs"]), default=0) for file in data["files"]}
    assert opened.run(NAMES)[0] == max(peaks, key=lambda path: peaks[path])

    opened.run("document.querySelector('.tile.good').click()")
    fitting = opened.run(NAMES)
    assert 0 < len(fitting) < len(everything)
    assert opened.run("document.querySelector('.tile.good').ariaPressed") == "true"
    assert opened.run("document.getElementById('count').textContent") == f"{len(fitting)} of {len(everything)} configs"

    opened.run(f"{TYPE}('search', 'QLORA dpo')")
    assert opened.run(NAMES) == ["examples/llamafactory/llama3_8b_qlora_dpo.yaml"]
    opened.run("document.getElementById('reset').click()")
    opened.run("new Promise((done) => setTimeout(done, 20))")
    assert opened.run(NAMES) == everything

    opened.run(f"{CHOOSE}('rule', 'CFG008')")
    assert opened.run(NAMES) == ["examples/deepspeed/mismatched.json"]


def test_a_row_opens_by_keyboard_and_shows_everything(opened: browser.Browser) -> None:
    row = f"[...{ROWS}].find((row) => row.textContent.includes('llama3_8b_full_sft.yaml'))"
    opened.run(f"{row}.focus()")
    opened.press("Enter")
    assert opened.run(f"{row}.ariaExpanded") == "true"
    panel = f"document.getElementById({row}.getAttribute('aria-controls'))"
    assert opened.run(f"{panel}.querySelectorAll('.phases tbody tr').length") >= 5
    assert opened.run(f"{panel}.querySelector('.finding pre mark').textContent")
    assert opened.run(f"{panel}.querySelector('.finding ol li').textContent")
    opened.press("Enter")
    assert opened.run(f"{panel}.hidden") is True


def test_what_if_speaks_as_a_fix_does(opened: browser.Browser) -> None:
    path = "examples/llamafactory/qwen2_5_1_5b_eager_long.yaml"
    run = json.loads(memlint(ROOT, "check", path, "--format", "json").out)
    (fix,) = [one for one in run["findings"][1]["fixes"] if one["title"].startswith("micro batch")]
    opened.run(f"[...{ROWS}].find((row) => row.textContent.includes('{path}')).click()")
    answer = "document.querySelector('.answer').textContent"
    chosen = "[...document.querySelectorAll('.whatif select')].map((node) => node.selectedOptions[0].textContent)"
    assert all(text.endswith(" (now)") for text in opened.run(chosen))
    assert opened.run(answer).startswith("as it is now; peak ")
    assert opened.run(answer).endswith("; out of memory")

    rows = "document.querySelectorAll('.whatif select')[0]"
    half = f"[...{rows}.options].find((node) => node.textContent === '2').value"
    opened.run(f"{rows}.value = {half}; {rows}.dispatchEvent(new Event('change'))")
    words = opened.run("[...document.querySelectorAll('.finding li')].map((node) => node.textContent)")
    changed, figures = opened.run(answer).split("; ", 1)
    assert fix["title"].startswith(f"{changed}, accumulation")
    peak, verdict = figures.split("; ")
    assert f"{fix['title']}; {verdict}: {peak}" in "\n".join(words)

    opened.run("document.querySelector('.grid tbody button').click()")
    assert opened.run(answer).startswith("micro batch 4 -> 1, sequences of 8192 -> 2048 tokens; peak 86.27 -> ")
    assert opened.run("document.querySelector('.grid tbody button').ariaPressed") == "true"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read(opened: browser.Browser, scheme: str) -> None:
    opened.colours(scheme)
    opened.run("new Promise((done) => setTimeout(done, 100))")
    assert opened.run("document.documentElement.dataset.theme") == scheme
    opened.run(f"[...{ROWS}].slice(0, 4).forEach((row) => row.click())")
    opened.run("document.querySelectorAll('details').forEach((node) => { node.open = true; })")

    assert opened.run(f"new Promise((done) => setTimeout(() => done({CONTRAST}), 300))") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("group", ["none", "folder"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_no_violation(opened: browser.Browser, scheme: str, group: str, width: int) -> None:
    opened.size(width, 900)
    opened.colours(scheme)
    opened.run(f"{CHOOSE}('group', '{group}')")
    opened.run(f"[...{ROWS}].slice(0, 6).forEach((row) => row.click())")
    opened.run("document.querySelectorAll('details').forEach((node) => { node.open = true; })")

    opened.run("new Promise((done) => setTimeout(done, 300))")
    assert opened.violations() == []


def test_axe_sees_what_it_should(opened: browser.Browser) -> None:
    opened.run("document.getElementById('search').closest('label').replaceWith(document.getElementById('search'))")
    opened.run("document.getElementById('search').removeAttribute('placeholder')")

    assert [told.partition(":")[0] for told in opened.violations()] == ["label"]


def test_the_theme_is_remembered(opened: browser.Browser, page: Path) -> None:
    theme = "document.documentElement.dataset.theme"
    assert opened.run(theme) == "light"
    opened.run("document.getElementById('theme').click()")
    assert opened.run(theme) == "dark"
    opened.open(page)
    assert opened.run(theme) == "dark"
    assert opened.run("document.getElementById('theme').ariaPressed") == "true"


def test_paper_is_light_and_has_no_controls(opened: browser.Browser) -> None:
    opened.run("document.getElementById('theme').click()")
    opened.run(f"{ROWS}[2].click()")
    opened.size(794, 1123)  # A4 at 96 dots an inch
    opened.on_paper()

    shown = "(id) => document.getElementById(id).checkVisibility()"
    assert [opened.run(f"({shown})('{name}')") for name in ("tools", "theme", "count", "configs")] == [
        *(False, False, True, True)
    ]
    assert opened.run("getComputedStyle(document.documentElement).getPropertyValue('--card')") == "#ffffff"
    table = "document.querySelector('.phases')"
    assert opened.run(f"{table}.scrollWidth <= {table}.parentElement.clientWidth") is True
    assert opened.run("document.querySelector('.whatif').checkVisibility()") is False


@pytest.fixture
def many(chromium: browser.Browser, page: Path, tmp_path: Path) -> browser.Browser:
    """2,000 configs in 40 folders, from the data of the examples."""
    head, _, rest = page.read_text(encoding="utf-8").partition('id="data">')
    text, _, tail = rest.partition("</script>")
    data = json.loads(text)
    files = [file for file in data["files"] if file["runs"]]
    data["files"] = [
        {**files[number % len(files)], "path": f"team{number % 40:02}/{number:05}.yaml"} for number in range(2000)
    ]
    path = tmp_path / "many.html"
    path.write_text(f'{head}id="data">{html.embedded(data)}</script>{tail}', encoding="utf-8")
    chromium.problems.clear()
    chromium.colours("light")
    chromium.size(1280, 900)
    chromium.open(path)
    return chromium


def test_thousands_of_configs_come_in_groups_and_are_drawn_as_they_are_seen(many: browser.Browser) -> None:
    assert many.run("document.querySelectorAll('.fold').length") == 40
    assert many.run("document.documentElement.scrollHeight") < 3000
    assert many.run(f"{ROWS}.length") == 0

    many.run(f"{CHOOSE}('group', 'none')")
    many.run("new Promise((done) => setTimeout(done, 300))")
    first = many.run(f"{ROWS}.length")
    assert len(many.run(NAMES)) == 2000
    assert 0 < first < 100
    many.run("document.querySelectorAll('.config')[1500].scrollIntoView(), 0")
    many.run("new Promise((done) => setTimeout(done, 300))")
    assert first < many.run(f"{ROWS}.length") < 200
    assert many.run("document.querySelectorAll('.config')[1500].querySelector('.row').textContent")
    assert many.problems == []


def test_search_and_filter_reach_every_config(many: browser.Browser) -> None:
    many.run(f"{TYPE}('search', '01999.yaml')")
    assert many.run(NAMES) == ["team39/01999.yaml"]
    assert many.run("document.getElementById('count').textContent") == "1 of 2000 configs"
    many.run(f"{TYPE}('search', 'no such config')")
    assert many.run("document.getElementById('none').checkVisibility()") is True
    many.run(f"{TYPE}('search', '')")
    many.run("document.querySelector('.tile.warn').click()")
    many.run("document.getElementById('fold').click()")
    data = "JSON.parse(document.getElementById('data').textContent).files"
    tight = many.run(f"{data}.filter((file) => file.runs.some((run) => run.verdict === 'tight')).length")
    assert len(many.run(NAMES)) == tight > 0


def test_arrow_keys_walk_over_groups_and_rows(many: browser.Browser) -> None:
    many.run("document.querySelector('.fold').focus()")
    many.press("Enter")
    many.press("ArrowDown")
    assert many.run("document.activeElement.className") == "row"
    assert many.run("document.activeElement.closest('.config').dataset.path") == many.run(NAMES)[0]
    many.press("End")
    assert many.run("document.activeElement === [...document.querySelectorAll('.fold')].at(-1)") is True
    many.press("Home")
    assert many.run("document.activeElement === document.querySelector('.fold')") is True


def test_a_screen_reader_has_names_for_everything(opened: browser.Browser) -> None:
    opened.run(f"{ROWS}[0].click()")
    controls = ("button", "combobox", "searchbox", "textbox", "table", "region", "heading")
    nodes = [node for node in opened.accessible() if node["role"]["value"] in controls]

    assert len(nodes) > 30
    assert [node["role"]["value"] for node in nodes if not node.get("name", {}).get("value", "").strip()] == []


@pytest.mark.parametrize("width", [1280, 768, 390])
def test_the_page_is_never_wider_than_the_window(opened: browser.Browser, width: int) -> None:
    opened.size(width, 900)
    opened.run(f"[...{ROWS}].forEach((row) => row.click())")

    beyond = f"!node.closest('.scroll, pre') && node.getBoundingClientRect().right > {width}"
    wide = f"[...document.querySelectorAll('body *')].filter((node) => {beyond})"
    assert opened.run(f"{wide}.map((node) => node.outerHTML.slice(0, 200))") == []
    assert opened.run("document.documentElement.scrollWidth") <= width


def test_hostile_texts_stay_texts(chromium: browser.Browser, tmp_path: Path) -> None:
    for number, attack in enumerate(ATTACKS.values()):
        path = tmp_path / f"{number}.html"
        path.write_text(html.render(report(attack)), encoding="utf-8")
        chromium.problems.clear()
        chromium.requests.clear()
        chromium.open(path)
        chromium.run(DRAW_ALL)
        chromium.run(f"[...{ROWS}].forEach((row) => row.click())")

        assert chromium.problems == []
        assert chromium.run("document.querySelectorAll('.config').length") == 3
        assert chromium.run("document.querySelectorAll('main script, main img, main b > *, main iframe').length") == 0
        assert [url for url in chromium.requests if not url.startswith(("file:", "data:"))] == []
