"""The errors that memlint raises about its input and options; any other exception is a bug."""

from __future__ import annotations


class Error(Exception):
    """A request that cannot be carried out; the message says what, where and what to do.

    `path`, `line`, `column` (1-based): the place in a file; "" and 0 if the error is not about one.
    """

    def __init__(self, message: str, path: str = "", line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.path = path
        self.line = line
        self.column = column


class UsageError(Error):
    """Invalid usage, settings or input: the message goes to standard error, the exit code is 2."""
