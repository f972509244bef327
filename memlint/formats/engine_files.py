"""The formats of engine files (accelerate, FSDP options, DeepSpeed), for a training config that uses one of them."""

from __future__ import annotations

from typing import Any

import memlint.formats.accelerate.format as launch_file
import memlint.formats.accelerate.fsdp as fsdp
import memlint.formats.deepspeed.format as deepspeed_file
from memlint.source.document import Document

__all__ = ["deepspeed_file", "fsdp", "launch_file", "recognises"]


def recognises(reader: Any, document: Document) -> bool:
    """Whether the format `reader` recognises the document as one of its own."""
    return reader.recognise(document).confidence in ("certain", "likely")
