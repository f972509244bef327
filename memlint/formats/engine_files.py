"""Readers of files that say the engine; each comes in when a config has such a file beside it, or such a key."""

from __future__ import annotations

from typing import Any

import memlint.formats.accelerate.format as launch_file
import memlint.formats.accelerate.fsdp as fsdp
import memlint.formats.deepspeed.format as deepspeed_file
from memlint.source.document import Document

__all__ = ["claims", "deepspeed_file", "fsdp", "launch_file"]


def claims(reader: Any, document: Document) -> bool:
    """Whether `reader` takes the document for one of its own."""
    return reader.recognise(document).confidence in ("certain", "likely")
