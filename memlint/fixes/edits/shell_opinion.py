"""Bash's own parser on a script before and after fixing, where there is a bash: `bash -n` reads and runs nothing."""

from __future__ import annotations

import shutil
import subprocess

_SECONDS = 10


def shell_disagreements(old: bytes, new: bytes) -> tuple[str, ...]:
    """Why bash refuses the new script; empty where it takes it, where it refused the old one, and without bash."""
    bash = shutil.which("bash")
    if bash is None or _refusal(bash, old):
        return ()
    refusal = _refusal(bash, new)
    return (f"bash can no longer read it: {refusal}",) if refusal else ()


def _refusal(bash: str, script: bytes) -> str:
    try:
        done = subprocess.run([bash, "-n"], input=script, capture_output=True, check=False, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stderr.decode("utf-8", "replace").strip() or "syntax error")[:200] if done.returncode else ""
