"""The documentation site: `sphinx-build -W --keep-going docs site` (pip install '.[docs]')."""

from __future__ import annotations

import os
import subprocess
import sys

from sphinx.application import Sphinx

from memlint.cli import VERBS

project = "memlint"
author = "the memlint developers"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "memlint"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["guide.css"]
html_js_files = ["keyboard.js", "rules-filter.js"]
exclude_patterns = ["**/.*"]
myst_heading_anchors = 3
# Shell prompts and YAML with comments of ours are no Pygments errors worth a failed build.
suppress_warnings = ["misc.highlighting_failure"]
HELP_WIDTH = "96"  # columns


def setup(app: Sphinx) -> None:
    app.connect("source-read", _complete)


def _complete(app: Sphinx, name: str, source: list[str]) -> None:
    """What pages get when the site is built."""
    if name == "reference/verbs":
        source[0] += "\n".join(f"\n## {verb}\n\n{about}\n\n{_help(verb)}" for verb, (_, about) in VERBS.items())
    elif name.startswith("rules/") and name != "rules/index":
        # Two hundred pages would fill the sidebar: they are reached through the list of rules, which has a filter.
        source[0] = f"---\norphan: true\n---\n[All rules](index.md)\n\n{source[0]}"


def _help(verb: str) -> str:
    """What `memlint COMMAND --help` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "memlint", verb, "--help"],
        env={**os.environ, "COLUMNS": HELP_WIDTH, "NO_COLOR": "1"},
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    return f"```text\n{done.stdout.rstrip()}\n```\n"
