"""The documentation site: `sphinx-build -W --keep-going docs site` (pip install '.[docs]')."""

from __future__ import annotations

project = "memlint"
author = "the memlint developers"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "memlint"
html_show_sourcelink = False
html_copy_source = False
exclude_patterns = ["**/.*"]
myst_heading_anchors = 3
# Shell prompts and YAML with comments of ours are no Pygments errors worth a failed build.
suppress_warnings = ["misc.highlighting_failure"]
