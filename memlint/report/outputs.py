"""The table of outputs: name -> module below memlint.report with `render(report) -> str`."""

from __future__ import annotations

OUTPUTS = {
    "text": "text",
    "concise": "concise",
    "json": "json",
    "sarif": "sarif",
    "github": "github",
    "gitlab": "gitlab",
    "junit": "junit",
    "rdjson": "rdjson",
    "checkstyle": "checkstyle",
    "markdown": "markdown",
    "html": "html",
}
