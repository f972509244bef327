"""Variables of a command that ms-swift reads, as the section `ENV` of its files (ms-swift 4.6 cli/main.py)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memlint.repository.scripts.document import Placed
from memlint.source.shell.text import Text, known

# How many processes there are, and how large images may be (template/vision_utils.py and Qwen's processors).
_READ = ("NPROC_PER_NODE", "NNODES", "MAX_PIXELS", "VIDEO_MAX_PIXELS", "FPS_MAX_FRAMES")


def environment(variables: Mapping[str, Text]) -> Iterator[Placed]:
    for name in _READ:
        text = known(variables[name]) if name in variables else None
        if text:
            yield Placed(("ENV", name), int(text) if text.isdecimal() and len(text) < 16 else text)
