"""Runs memlint as a person would: another process, in a folder, with files in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Done(NamedTuple):
    code: int
    out: str
    err: str


def memlint(
    folder: Path, *arguments: str, stdin: str | None = None, environment: Mapping[str, str] | None = None
) -> Done:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "GITHUB_"))}
    done = subprocess.run(
        [sys.executable, "-m", "memlint", *arguments],
        cwd=folder,
        env={**clean, "PYTHONPATH": str(ROOT), **(environment or {})},
        input=None if stdin is None else stdin.encode("utf-8"),
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        check=False,
    )
    return Done(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8"))


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
