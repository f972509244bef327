"""The errors that memlint raises for what a user asked or wrote; everything else that is raised is a bug."""

from __future__ import annotations


class Error(Exception):
    """Something that memlint was asked for cannot be done; the message says what, where and what to do."""


class UsageError(Error):
    """Usage, settings or input that no command can work with: told on standard error, exit code 2."""
