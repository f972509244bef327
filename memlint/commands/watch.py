"""Runs a verb again whenever a file changes that it reads, or one that lies beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence

from memlint.commands import options
from memlint.errors import UsageError

PAUSE = 0.3  # seconds between two looks at the files
CLEAR = "\x1b[2J\x1b[3J\x1b[H"

Stamps = frozenset[tuple[str, int, int]]  # path, time of the last change (ns), size


def watch(given: options.Options, arguments: Sequence[str]) -> int:
    """Runs memlint with `arguments`, and again after each change, until somebody ends it. Each run is a process of its
    own, so that nothing that one has read is left to the next."""
    if "-" in given.paths:
        raise UsageError("--watch reads files again: standard input cannot be")
    command = [sys.executable, "-m", "memlint", *(word for word in arguments if word != "--watch")]
    while True:
        before = stamps(given)
        if sys.stdout.isatty():
            sys.stdout.write(CLEAR)
            sys.stdout.flush()
        subprocess.run(command, check=False)
        sys.stderr.write("memlint: waiting for a change; Ctrl-C ends\n")
        while stamps(given) == before:
            time.sleep(PAUSE)


def stamps(given: options.Options) -> Stamps:
    """What lies in the folders of the chosen files: a launch file or settings may be beside a config."""
    try:
        folders = {os.path.dirname(os.path.abspath(item.path)) for item in options.config_files(given)}
    except UsageError:  # an editor that writes a file anew takes it away for a moment
        return frozenset()
    found = set()
    for folder in folders | {os.getcwd()}:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_file():
                    seen = entry.stat()
                    found.add((entry.path, seen.st_mtime_ns, seen.st_size))
    return frozenset(found)
