"""The formats of engine files (accelerate, FSDP options, DeepSpeed), for a training config that uses one of them."""

from __future__ import annotations

from typing import Any

import memlint.formats.accelerate.format as launch_file
import memlint.formats.accelerate.fsdp as fsdp
import memlint.formats.deepspeed.format as deepspeed_file
from memlint.source.document import Document

__all__ = ["deepspeed_file", "fsdp", "launch_file", "not_deepspeed", "recognises"]


def recognises(reader: Any, document: Document) -> bool:
    """Whether the format `reader` recognises the document as one of its own."""
    return reader.recognise(document).confidence in ("certain", "likely")


def not_deepspeed(document: Document, name: str) -> str:
    """Why the file that was given as `name` is no DeepSpeed configuration; "" where it may be one."""
    if not isinstance(document.value, dict):
        return f"`{name}` is no DeepSpeed configuration"
    if document.syntax != "json" and launch_file.recognise(document).confidence == "certain":
        # accelerate 1.15.0 utils/deepspeed.py: HfDeepSpeedConfig reads the file with json.load
        return f"`{name}` is accelerate's launch file, no DeepSpeed configuration, which is JSON"
    return ""
