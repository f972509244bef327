"""How long the HTML report takes in a browser: load, search, regrouping, a scroll through every row.

    python benchmarks/speed/page.py REPORT.html

The report is any page of `memlint check FOLDER --format html`; `make_configs.py` writes a folder of configs for it.
Times are medians of `--repeat` runs in a headless Chromium.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from tests.commands.browser import Browser, find

FRAME = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
# Seconds from the start of the navigation until the list stands: the script has run and the first frame is painted.
LOADED = "performance.getEntriesByType('paint').at(-1).startTime / 1000"
INPUT = "(async () => {{ const from = performance.now(); {}; await {}; return (performance.now() - from) / 1000; }})()"
SEARCH = "const box = document.getElementById('search'); box.value = '{}'; box.dispatchEvent(new Event('input'))"
GROUP = "const by = document.getElementById('group'); by.value = '{}'; by.dispatchEvent(new Event('change'))"
# A window further each frame, to the end: every row is drawn on the way.
SCROLL = f"""(async () => {{
  const frames = [];
  for (let at = 0; at < document.documentElement.scrollHeight - innerHeight; at += innerHeight) {{
    const from = performance.now();
    scrollTo(0, at);
    await {FRAME};
    frames.push((performance.now() - from) / 1000);
  }}
  return frames;
}})()"""


def main() -> int:
    options = parser(__doc__)
    options.add_argument("report", type=Path)
    options.add_argument("--repeat", type=int, default=5)
    options.add_argument("--width", type=int, default=1280)
    given = options.parse_args()
    program = find()
    if program is None:
        raise SystemExit("no Chromium on this machine")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, Browser(program, Path(profile)) as browser:
        browser.size(given.width, 900)
        runs = [measured(browser, given.report.resolve()) for _ in range(given.repeat)]
    print(f"{given.report.stat().st_size / 2**20:.1f} MiB, median of {given.repeat} runs at {given.width} pixels")
    for name in runs[0]:
        print(f"{name:<42} {median(run[name] for run in runs):10.3f}")
    return 0


def measured(browser: Browser, page: Path) -> dict[str, float]:
    browser.open(page)
    browser.run(FRAME)
    return dict(figures(browser))


def figures(browser: Browser) -> Iterator[tuple[str, float]]:
    yield "first paint with the list (s)", browser.run(LOADED)
    yield "configs", browser.run("JSON.parse(document.getElementById('data').textContent).files.length")
    yield "height as it opens (pixels)", browser.run("document.documentElement.scrollHeight")
    yield "search for one word until painted (s)", browser.run(INPUT.format(SEARCH.format("qwen"), FRAME))
    yield "clear the search until painted (s)", browser.run(INPUT.format(SEARCH.format(""), FRAME))
    yield "regroup by model until painted (s)", browser.run(INPUT.format(GROUP.format("model"), FRAME))
    yield "one list without groups until painted (s)", browser.run(INPUT.format(GROUP.format("none"), FRAME))
    yield "nodes before scrolling", browser.run("document.querySelectorAll('*').length")
    frames = sorted(browser.run(SCROLL))
    yield "windows scrolled through", len(frames)
    yield "a window further, median (s)", median(frames)
    yield "a window further, 95 of 100 (s)", frames[int(0.95 * (len(frames) - 1))]
    yield "nodes after scrolling through all", browser.run("document.querySelectorAll('*').length")


if __name__ == "__main__":
    raise SystemExit(main())
