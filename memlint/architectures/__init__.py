"""Which model a name means, and every parameter tensor of it."""

from memlint.architectures.builder import from_config
from memlint.architectures.config import UnsupportedConfig
from memlint.architectures.resolve import resolve

__all__ = ["UnsupportedConfig", "from_config", "resolve"]
