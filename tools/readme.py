"""Refreshes what README.md and docs/ show of memlint's output.

A fenced block that follows `<!-- run: memlint ... -->` holds what that command prints, one that follows
`<!-- run: python FILE ... -->` what that script prints. `--check` changes nothing and exits 1 where a block is stale.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from memlint.cli import main as memlint

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(
    r"(<!-- run: (?P<program>memlint|python) (?P<command>[^\n]*) -->\n```[a-z]*\n)(?P<body>(?:(?!```).*\n)*?)(```)",
    re.MULTILINE,
)


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def output(command: str) -> str:
    """What `memlint <command>` prints, run in the repository's root."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    os.chdir(ROOT)
    with contextlib.redirect_stdout(stream):
        memlint(shlex.split(command))
    stream.flush()
    return stream.buffer.getvalue().decode("utf-8").rstrip("\n")  # type: ignore[attr-defined]


def script(command: str) -> str:
    """What `python <command>` prints, run in the repository's root."""
    done = subprocess.run([sys.executable, *shlex.split(command)], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.rstrip("\n")


def refreshed(text: str) -> str:
    def again(found: re.Match[str]) -> str:
        printed = output(found["command"]) if found["program"] == "memlint" else script(found["command"])
        return f"{found[1]}{printed}\n{found[found.lastindex or 0]}"

    return BLOCK.sub(again, text)


def main(arguments: list[str]) -> int:
    stale = []
    for page in pages():
        old = page.read_text(encoding="utf-8")
        new = refreshed(old)
        if new != old:
            stale.append(page)
            if "--check" not in arguments:
                page.write_text(new, encoding="utf-8")
    for page in stale:
        print(f"{page.relative_to(ROOT)}: {'stale' if '--check' in arguments else 'refreshed'}")
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
