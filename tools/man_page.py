"""Writes the manual page, packaging/memlint.1, from the verbs' own options. `--check` changes nothing and exits 1."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from generated import ROOT, settle

from memlint.cli import VERBS
from memlint.commands.completion import whole_parser

PAGE = ROOT / "packaging" / "memlint.1"
HEAD = r""".\" Written by tools/man_page.py from the options of the verbs.
.TH MEMLINT 1 "" memlint "User Commands"
.SH NAME
memlint \- lints LLM training configs for GPU memory before a GPU is touched
.SH SYNOPSIS
.B memlint
[\fIVERB\fR] [\fIPATH\fR ...] [\fIOPTIONS\fR]
.SH DESCRIPTION
Finds training configs that will run out of GPU memory, says why, and what to change. Without a verb, the files and
folders named are checked.
"""
TAIL = r""".SH EXIT STATUS
.TP
0
clean, or below \-\-fail\-on
.TP
1
findings
.TP
2
usage, settings, unreadable input or an internal error
.SH ENVIRONMENT
.TP
NO_COLOR, FORCE_COLOR
as \-\-color never and \-\-color always
.TP
FORCE_HYPERLINK
1: links in the text whatever the terminal says of itself; 0: none
.TP
COLUMNS
the width of the terminal
.SH FILES
.TP
memlint.yaml
settings, from the folder of a config upward
.SH SEE ALSO
\fBmemlint help\fR \fIVERB\fR, \fBmemlint explain\fR \fIRULE\fR, \fBmemlint completion\fR \fISHELL\fR
"""


def page() -> str:
    (verbs,) = (action.choices for action in whole_parser(VERBS)._actions if action.metavar == "COMMAND")
    assert isinstance(verbs, dict)
    lines = [".SH VERBS"]
    for verb, (_, about) in VERBS.items():
        lines += [f".SS {quoted(verb)}", quoted(about), *_options(verbs[verb])]
    return HEAD + "\n".join(lines) + "\n" + TAIL


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    formatter = argparse.HelpFormatter("memlint")
    for action in parser._actions:
        if action.help != argparse.SUPPRESS and action.dest != "help":
            yield ".TP"
            yield rf"\fB{quoted(formatter._format_action_invocation(action))}\fR"
            yield quoted((action.help or "").replace("%%", "%"))


def quoted(text: str) -> str:
    """`text` as roff shows it: hyphens stay hyphens, and no line begins as a request does."""
    plain = " ".join(text.split()).replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{plain}" if plain.startswith((".", "'")) else plain


if __name__ == "__main__":
    sys.exit(settle({PAGE: page()}, sys.argv[1:]))
