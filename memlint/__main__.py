"""`python -m memlint`."""

from memlint.cli import script

script()
