"""Runs a verb again whenever a file that it reads, or another one in the same folder, changes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence

from memlint.commands import options
from memlint.errors import UsageError

PAUSE = 0.3  # seconds between checks for changes
CLEAR = "\x1b[2J\x1b[3J\x1b[H"

Stamps = frozenset[tuple[str, int, int]]  # path, time of the last change (ns), size


def watch(given: options.Options, arguments: Sequence[str]) -> int:
    """Runs memlint with `arguments`, and again after each change, until it is interrupted. Each run is a new process,
    so that nothing is cached from one to the next."""
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
    """The stamps of all files in the folders of the chosen files, where launch files and settings may be, too."""
    try:
        folders = {os.path.dirname(os.path.abspath(item.path)) for item in options.config_files(given)}
    except UsageError:  # an editor may delete a file for a moment while it saves it
        return frozenset()
    found = set()
    for folder in folders | {os.getcwd()}:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_file():
                    seen = entry.stat()
                    found.add((entry.path, seen.st_mtime_ns, seen.st_size))
    return frozenset(found)
