"""Asks in a terminal about each fix, with its patch: yes, no, all, quit."""

from __future__ import annotations

import os
import sys

from memlint.commands.output import to_stdout
from memlint.fixes.apply import Proposal
from memlint.fixes.attempt import Attempt
from memlint.fixes.edits.unified_patch import patch
from memlint.report.terminal import Style, clean, style_for
from memlint.report.text import describe_fix, finding_lines
from memlint.report.wrap import fitted

QUESTION = "Write this? [y]es, [n]o, [a]ll that are left, [q]uit: "
HELP = """\
y  write this fix
n  leave this finding as it is
a  write this fix and every other that would be asked about
q  leave this and the others; what was answered with y is written
"""
_ROLES = {"+": "good", "-": "error", "@": "fix"}


class Consent:
    """Asks about fixes, and remembers the answers "all" and "quit"."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.is_over = False
        self._all = False

    def accepts(self, proposal: Proposal, tried: Attempt) -> bool:
        """Shows a fix and asks whether to write it. The end of input is "quit"."""
        if self.is_over or self._all:
            return self._all
        style = style_for(sys.stdout)
        to_stdout("\n".join(_proposal_lines(proposal, tried, style)) + "\n")
        answer = _answer()
        self._all, self.is_over = answer == "a", answer == "q"
        return answer in ("y", "a")


def _proposal_lines(proposal: Proposal, tried: Attempt, style: Style) -> list[str]:
    flat = style._replace(width=0)  # width 0: the finding is printed with its path
    lines = finding_lines(proposal.finding._replace(fixes=(), related=()), {}, flat)
    fix = f"  {style.paint('fix', 'fix')}  {describe_fix(proposal.fix)}"
    return [fitted("\n".join([*lines, fix]), style), *_patch_lines(tried, style)]


def _patch_lines(tried: Attempt, style: Style) -> list[str]:
    lines = []
    for path, new in tried.contents.items():
        text = patch(path.replace(os.sep, "/"), tried.before[path], new).decode("utf-8", "replace")
        for line in clean(text).splitlines():
            role = "bold" if line.startswith(("--- ", "+++ ")) else _ROLES.get(line[:1])
            lines.append(f"  {style.paint(line, role) if role else line}")
    return lines


def _answer() -> str:
    """The first letter of the answer: y, n, a or q. After any other answer it prints help and asks again."""
    while True:
        to_stdout(QUESTION)
        line = sys.stdin.readline()
        word = line.strip().lower()
        if not line:
            return "q"
        if word in ("y", "yes", "n", "no", "a", "all", "q", "quit"):
            return word[0]
        to_stdout(HELP)
