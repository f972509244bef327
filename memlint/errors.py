"""The errors that memlint raises about its input and options; any other exception is a bug."""

from __future__ import annotations


class Error(Exception):
    """A request that cannot be carried out; the message says what, where and what to do."""


class UsageError(Error):
    """Invalid usage, settings or input: the message goes to standard error, the exit code is 2."""
