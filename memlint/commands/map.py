"""`memlint map`: shows which value of a script, or of a config with keys of its own, becomes which argument."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from memlint.commands import options
from memlint.commands.output import to_screen
from memlint.errors import UsageError
from memlint.lint.linter import Linter
from memlint.report.keys_mapping import keys_mapping
from memlint.report.terminal import one_line
from memlint.ruleset.engine import Analysis
from memlint.source.document import Document

_NO_FILE = "no run of a configuration file with keys of its own: a script's own values need no mapping"
_NOT_SEEN = (
    "no Python script here trains with these files, as far as memlint can follow: `memlint estimate` reads all others"
)


def run(program: str, arguments: list[str]) -> int:
    """Exit codes: 0 where a run is found, 2 where none is."""
    given = _parser(program).parse_args(arguments)
    if options.handle_info_flags(given):
        return 0
    linter = Linter(options.lint_request(given, fixes=False))
    found = [one for item in options.config_files(given) for one in _runs(linter, item.path)]
    if not found:
        raise UsageError(_NOT_SEEN)
    text = _FORMATS[given.format](found)
    if not text:
        raise UsageError(_NO_FILE)
    to_screen(text + "\n", given.format == "text")
    return 0


def _parser(program: str) -> options.Parser:
    about = (
        "Which value of a script, or of a file that a script reads, becomes which argument of the run, and where it is."
    )
    parser = options.parser(program, about)
    parser.add_argument("paths", nargs="+", metavar="FILE")
    options.add_hardware(parser)
    options.add_settings(parser)
    about_keys = "keys: as the part of memlint.yaml that says it for good"
    parser.add_argument("--format", choices=tuple(_FORMATS), default="text", help=about_keys)
    return parser


def _runs(linter: Linter, path: str) -> Iterator[Analysis]:
    for analysis in linter.analyse(path).analyses:
        start = analysis.document.start
        if start is not None and start.values.written_at:
            yield analysis


def _rows(found: list[Analysis]) -> list[dict[str, Any]]:
    return [
        {
            "path": one.document.path,
            "script": one.document.start.program.entry,
            "keys": list(_keys(one.document)),
            "disagreements": list(one.document.start.own_file.disagreements),
            "unread": list(_unread(one.document)),
        }
        for one in found
        if one.document.start is not None
    ]


def _as_json(found: list[Analysis]) -> str:
    return json.dumps({"schema_version": 1, "runs": _rows(found)}, indent=2)


def _as_keys(found: list[Analysis]) -> str:
    return keys_mapping([(one.document, one.runs[0].model.weights_dtype if one.runs else None) for one in found])


def _keys(document: Document) -> Iterator[dict[str, Any]]:
    """One row for each key: its value, where it is written, and why it is unknown."""
    start = document.start
    assert start is not None  # `_rows` checks it
    reasons = {str(path[0]): reason for path, reason in start.values.unknown.items()}
    for key, value in document.value.items():
        reason = reasons.get(key)
        yield {
            "key": key,
            "value": None if reason else value,
            "written_at": start.values.written_at.get(key),
            "unknown": reason,
        }


def _unread(document: Document) -> Iterator[dict[str, Any]]:
    """The keys of the file that no script reads."""
    for key in document.start.own_file.unread if document.start is not None else ():
        yield {"key": key, "written_at": f"{document.path}:{document.places[key,].value.line}"}


def _text(found: list[Analysis]) -> str:
    return "\n\n".join("\n".join(_lines(row)) for row in _rows(found))


def _lines(row: dict[str, Any]) -> Iterator[str]:
    read_by = f", read by {row['script']}" if row["script"] != row["path"] else ""
    yield f"{one_line(row['path'])}{one_line(read_by)}"
    width = max(len(entry["key"]) for entry in row["keys"])
    for entry in row["keys"]:
        value = f"unknown: {entry['unknown']}" if entry["unknown"] else json.dumps(entry["value"], default=str)
        where = entry["written_at"] or "the script computes it"
        yield one_line(f"  {entry['key']:{width}}  {value}  ({where})")
    for entry in row["unread"]:
        yield one_line(f"  no script reads {entry['key']} ({entry['written_at']})")
    for text in row["disagreements"]:
        yield one_line(f"  {text}")


_FORMATS = {"text": _text, "json": _as_json, "keys": _as_keys}
