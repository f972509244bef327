"""The report of an internal error: memlint's bug, never the user's."""

from __future__ import annotations

import platform
import traceback

from memlint import __version__
from memlint.report.terminal import clean

TEMPLATE = """\
memlint: internal error: {kind}: {message}
This is a bug in memlint, not in your config. Please report it with the lines below.

  memlint {version}, Python {python}, {system}
  command: memlint {command}

{trace}"""


def report(error: BaseException, arguments: list[str]) -> str:
    """The text to paste into an issue."""
    return clean(
        TEMPLATE.format(
            kind=type(error).__name__,
            message=str(error)[:500],
            version=__version__,
            python=platform.python_version(),
            system=platform.platform(terse=True),
            command=" ".join(arguments)[:1000],
            trace="".join(traceback.format_exception(type(error), error, error.__traceback__)),
        )
    )
