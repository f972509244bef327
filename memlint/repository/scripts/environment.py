"""Variables of a command that ms-swift reads, as the section `ENV` of its files (ms-swift 4.6 cli/main.py), and what
PyTorch's allocator is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memlint.repository.scripts.placed import Placed
from memlint.source.shell.text import Text, known

# How many processes and cards there are, and how large images may be (template/vision_utils.py and Qwen's processors).
_READ = ("NPROC_PER_NODE", "NNODES", "CUDA_VISIBLE_DEVICES", "MAX_PIXELS", "VIDEO_MAX_PIXELS", "FPS_MAX_FRAMES")


def environment(variables: Mapping[str, Text]) -> Iterator[Placed]:
    for name in _READ:
        text = known(variables[name]) if name in variables else None
        if text:
            yield Placed(("ENV", name), int(text) if text.isdecimal() and len(text) < 16 else text)


# PyTorch 2.9 and newer read the first, older ones the second alone (c10/core/AllocatorConfig.cpp).
_OF_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


def grows_segments(variables: Mapping[str, Text]) -> bool:
    """Whether the allocator's segments grow in place: `expandable_segments:True` among its settings."""
    told = (known(variables[name]) or "" for name in _OF_ALLOCATOR if name in variables)
    return any("expandable_segments:true" in text.lower().replace(" ", "") for text in told)


# Variables that decide how a program runs: launchers read the others.
TELLING = frozenset({*_READ, *_OF_ALLOCATOR, "FORCE_TORCHRUN", "WORLD_SIZE"})
