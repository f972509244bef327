"""Options of a launcher, which stand in front of the program that a command starts, not among its arguments."""

from __future__ import annotations

from memlint.source.document import Document, Path

_OF_ACCELERATE = frozenset(
    ("distributed_type", "compute_environment", "num_processes", "num_machines", "mixed_precision", "deepspeed_config")
)


def is_of_launcher(document: Document, pointer: Path) -> bool:
    """Whether a key is one of accelerate itself, not one of the program."""
    return pointer[0] in _OF_ACCELERATE or (pointer[0] == "fsdp_config" and pointer not in document.places)
