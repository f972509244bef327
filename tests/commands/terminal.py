"""Runs memlint in a terminal of a given width."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.commands.running import ROOT


class Shown(NamedTuple):
    code: int
    text: str  # standard output and standard error, as the terminal got them


def in_terminal(
    folder: Path, *arguments: str, width: int = 80, answers: str = "", environment: Mapping[str, str] | None = None
) -> Shown:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    echo = termios.tcgetattr(theirs)
    echo[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, echo)
    process = subprocess.Popen(
        [sys.executable, "-m", "memlint", *arguments],
        cwd=folder,
        env={
            "PYTHONPATH": str(ROOT),
            "PATH": "/usr/bin:/bin",
            "TERM": "xterm",
            "LANG": "C.UTF-8",
            **(environment or {}),
        },
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    os.write(ours, answers.encode())
    out = b""
    while piece := _read(ours):
        out += piece
    os.close(ours)
    return Shown(process.wait(), out.decode("utf-8").replace("\r\n", "\n"))


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # how Linux says that the other side is closed
        return b""
