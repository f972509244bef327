"""Which GPU a name means, and what it can hold and run."""

from memlint.hardware.catalog import common, find, instance, suggestions

__all__ = ["common", "find", "instance", "suggestions"]
