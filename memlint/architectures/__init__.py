"""From a model's name to its layers and every parameter tensor."""

from memlint.architectures.builder import from_config
from memlint.architectures.config import UnsupportedConfig
from memlint.architectures.resolve import resolve

__all__ = ["UnsupportedConfig", "from_config", "resolve"]
