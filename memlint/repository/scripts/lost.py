"""Finds flags that a shell does not pass on, because the command ends before them: their lines are separate commands.
Then it starts another run than the one that is meant, if any, and its figures are nobody's.

bash 5.2 (manual, 3.1.2.1): a backslash continues a line only if the newline follows immediately. If a blank follows, it
is quoted instead, and the newline ends the command. A newline after a comment does so, too. What looks like a comment
after a quoted blank is none (3.1.3): its words are arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from memlint.source.document import LOST_FLAGS, Document, Problem
from memlint.source.lines import Lines
from memlint.source.shell.invocation import Invocation

# From the last word of a command to the next command: an end of line, and maybe lines of blanks or comments. Flags with
# a value at the next command's start are assignments to the grammar (0.25.1), and no words of it.
_BETWEEN = re.compile(
    r"(?P<blank>\\[ \t]+)?(?P<note>#[^\n]*)?(?P<backslash>[ \t]*\\)?[ \t]*\r?\n(?:[ \t]*(?P<comment>#[^\n]*)?\n)*[ \t]*"
    r"(?P<flags>(?:--[\w-]+=\S+(?:[ \t]|[ \t]*\\\r?\n)[ \t]*)*)"
)


def with_lost_flags(document: Document, of: Invocation, invocations: Iterable[Invocation]) -> Document:
    """The launch, with a problem if the command below it is only flags. `of`: the launch in the script."""
    end = of.words[-1].at
    if end is None or end.path != of.at.path:
        return document
    below = (one.words[0] for one in invocations if one.words and one.words[0].text.startswith("--"))
    for word in below:
        if word.at is None or word.at.path != end.path or word.at.start <= end.end:
            continue
        if document.text[word.at.start] != "-":  # `\--flag`, which nobody writes
            continue
        between = _BETWEEN.fullmatch(document.text[end.end : word.at.start].lstrip(" \t"))
        if between is not None:
            line = Lines(document.text).position(end.end)[0]
            start = word.at.start - len(between["flags"])
            name = re.split(r"[=\s]", document.text[start : word.at.end])[0]
            message = f"`{name}` and what stands below it are not handed on: {_why(between, line)}"
            span = Lines(document.text).span(start, start + len(name))
            return document._replace(
                problems=(*document.problems, Problem(LOST_FLAGS, message, span, severity="warning"))
            )
    return document


def _why(between: re.Match[str], line: int) -> str:
    """What ends the command of a launch whose last word stands in `line`."""
    if between["blank"] and between["note"]:
        return f"a comment follows the backslash of line {line}, so the command ends there, with its words as arguments"
    if between["note"]:
        return f"the comment in line {line} ends the command"
    if between["blank"]:
        return f"a blank follows the backslash of line {line}, so the command ends there, with the blank as an argument"
    if between["comment"] and between["backslash"]:
        return f"the comment below line {line} ends the command"
    return f"line {line} does not end with a backslash"
