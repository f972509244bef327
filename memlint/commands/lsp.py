"""`memlint lsp`: the language server, which an editor starts and speaks to over standard input and output."""

from __future__ import annotations

import os
import sys

from memlint.commands import options
from memlint.errors import UsageError


def run(program: str, arguments: list[str]) -> int:
    parser = options.parser(
        program,
        "The language server for editors. It speaks over standard input and output; an editor starts it.",
        "Settings come from memlint.yaml and from the editor: docs/editors.md.",
    )
    parser.add_argument("--stdio", action="store_true", help="what some editors add; it is the only way")
    parser.parse_args(arguments)
    try:
        from memlint.lsp.handlers import make_server  # pygls, an extra
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("memlint"):
            raise
        raise UsageError(f"the language server needs {error.name}: pip install pygls") from None
    protocol = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    sys.stdout = sys.stderr  # nothing else may write between two messages
    make_server().start_io(sys.stdin.buffer, protocol)
    return 0
