"""What memlint asks of git: names and contents, through the git program, never a checkout."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from memlint.errors import UsageError

# Nothing in a repository's own configuration may start a program (core.fsmonitor) or change what is printed.
SAFE = ("-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "-c", "color.ui=false")
TIMEOUT = 120  # seconds


def git(folder: str, *arguments: str, data: bytes = b"") -> bytes:
    """What git prints. Raises UsageError with git's own words where it fails."""
    done = _run(folder, arguments, data)
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise UsageError(f"git {arguments[0]}: {words[0] if words else f'exit code {done.returncode}'}")
    return done.stdout


def asked(folder: str, *arguments: str) -> bytes:
    """What git prints, or nothing where it fails, is not there, or this is no repository."""
    try:
        done = _run(folder, arguments, b"")
    except UsageError:
        return b""
    return done.stdout if done.returncode == 0 else b""


def _run(folder: str, arguments: Sequence[str], data: bytes) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        return subprocess.run(
            ["git", *SAFE, *arguments],
            cwd=folder,
            input=data,
            capture_output=True,
            check=False,
            timeout=TIMEOUT,
            env=environment,
        )
    except FileNotFoundError:
        raise UsageError("git is not installed, or not on PATH") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"git {arguments[0]} took longer than {TIMEOUT} s") from None


def names(output: bytes) -> tuple[str, ...]:
    """Paths of an output that ends each with NUL (`-z`)."""
    return tuple(os.fsdecode(name) for name in output.split(b"\0") if name)
