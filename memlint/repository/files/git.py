"""Runs the git program to list and read files. Never changes a repository or its checkout."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from memlint.errors import UsageError

# Nothing in a repository's own configuration may start a program (core.fsmonitor) or change what is printed.
SAFE = ("-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "-c", "color.ui=false")
TIMEOUT = 120  # seconds


# Git sets these for hooks. They must be removed: git would answer for the repository of the hook.
_OF_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")


class NoGit(UsageError):
    """There is no git program."""


def git(folder: str, *arguments: str, data: bytes = b"") -> bytes:
    """The output of git. Raises UsageError with git's own message if it fails."""
    done = _run(folder, arguments, data)
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise UsageError(f"git {arguments[0]}: {words[0] if words else f'exit code {done.returncode}'}")
    return done.stdout


def git_or_empty(folder: str, *arguments: str) -> bytes:
    """The output of git; empty if git fails or is missing, or if this is no repository."""
    try:
        done = _run(folder, arguments, b"")
    except UsageError:
        return b""
    return done.stdout if done.returncode == 0 else b""


def tracked_files(folder: str) -> tuple[str, ...]:
    """The files that the repository in `folder` tracks; none if it is broken or git refuses it. Raises NoGit."""
    try:
        done = _run(folder, ("ls-files", "-z"), b"", own=True)
    except NoGit:
        raise
    except UsageError:
        return ()
    return names(done.stdout) if done.returncode == 0 else ()


def _run(folder: str, arguments: Sequence[str], data: bytes, own: bool = False) -> subprocess.CompletedProcess[bytes]:
    """Runs git. `own`: only in the repository at `folder` itself, not in that of a hook or of a folder above."""
    environment = {**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    if own:
        environment = {name: value for name, value in environment.items() if name not in _OF_HOOKS}
        environment["GIT_CEILING_DIRECTORIES"] = os.path.dirname(os.path.abspath(folder))
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
        raise NoGit("git is not installed, or not on PATH") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"git {arguments[0]} took longer than {TIMEOUT} s") from None


def names(output: bytes) -> tuple[str, ...]:
    """Paths of an output that ends each with NUL (`-z`)."""
    return tuple(os.fsdecode(name) for name in output.split(b"\0") if name)
