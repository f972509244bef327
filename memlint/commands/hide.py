"""What suppressions hide of one file's findings, and what they have to say themselves."""

from __future__ import annotations

from memlint.commands.session import Outcome
from memlint.findings import Finding
from memlint.settings import FileSettings


def hidden(outcome: Outcome, settings: FileSettings) -> tuple[tuple[Finding, ...], int]:
    """The findings that stay, and the number of those that do not."""
    return outcome.findings, 0
