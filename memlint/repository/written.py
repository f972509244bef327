"""Whether a script writes a file: a config may name one that the repository makes before it is read.

Read from text alone: `cat > ds.json`, `tee ds.json`, `open("ds.json", "w")`, `Path("ds.json").write_text(...)`, and the
same of a variable that the name is assigned to.
"""

from __future__ import annotations

import re


def writes(text: str, name: str) -> bool:
    """Whether the shell or Python script `text` writes a file called `name`, in whatever folder."""
    if name not in text:
        return False
    called = rf"""[^\s"'|;]*(?<![\w.-]){re.escape(name)}(?![\w.-])"""
    if re.search(rf"""(?:>\s*|\btee\s+(?:-a\s+)?)["']?{called}""", text):
        return True
    quoted = rf"""["']{called}["']"""
    variables = re.findall(rf"""\b(\w+)(?:\s*:\s*\w+)?\s*=\s*[^=\n][^\n]*?{quoted}|\b(\w+)\s*=\s*{quoted}""", text)
    places = [quoted, *(rf"\b{one or other}\b" for one, other in variables)]
    return any(re.search(pattern.format(place), text) for place in places for pattern in _WRITTEN)


_WRITTEN = (
    r"""\bopen\(\s*[^\n]{{0,80}}?{0}\)?\s*,\s*(?:mode\s*=\s*)?["'][wax]""",
    r"""{0}\)?\s*\.(?:write_text|write_bytes)\(""",
    r"""{0}\)?\s*\.open\(\s*(?:mode\s*=\s*)?["'][wax]""",
)
