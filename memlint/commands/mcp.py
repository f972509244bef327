"""`memlint mcp`: a server for agents over standard input and output (the Model Context Protocol)."""

from __future__ import annotations

import os

from memlint.commands import options
from memlint.errors import UsageError


def run(program: str, arguments: list[str]) -> int:
    parser = options.parser(
        program, "Serves estimate, check, plan and explain over stdio. Everything is read-only, below one folder."
    )
    parser.add_argument("--root", metavar="FOLDER", default=".", help="paths may not leave it (default: .)")
    given = parser.parse_args(arguments)
    if not os.path.isdir(given.root):
        raise UsageError(f"{given.root}: no such folder")
    try:
        from memlint.agents.server import serve
    except ImportError as error:
        raise UsageError(f"mcp needs the official SDK: pip install mcp ({error.name} is missing)") from None
    serve(os.path.realpath(given.root))
    return 0
