"""Writes docs/keys/: a page a format, made from its table of keys. `--check` only says what is stale (exit 1)."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from generated import settle
from key_tables import ROOT, Table, schema_of, tables

from memlint.formats.keys import Key

PAGES = ROOT / "docs" / "keys"
_KINDS = {
    "flag": "true or false",
    "whole": "whole number",
    "number": "number",
    "word": "text",
    "text": "text",
    "words": "names",
    "any": "",
}
_HEAD = ("key", "type", "default", "field of the run", "what it does", "other spellings")


def pages() -> dict[Path, str]:
    """Every page that there should be."""
    by_format = {name: list(found) for name, found in itertools.groupby(tables(), lambda table: table.format)}
    made = {PAGES / f"{name}.md": "\n".join(page(name, found)) for name, found in by_format.items()}
    return {PAGES / "index.md": "\n".join(index(by_format)), **made}


def index(by_format: dict[str, list[Table]]) -> Iterator[str]:
    yield from ("# Keys", "", "The keys of each framework that memlint reads, and what they do to memory.", "")
    for name, found in by_format.items():
        yield f"- [{title(name)}]({name}.md), {sum(len(table.keys.rows) for table in found)} keys"
    yield from ("", "```{toctree}", ":hidden:", "", *by_format, "```", "")


def page(name: str, found: list[Table]) -> Iterator[str]:
    yield from (f"# {title(name)}", "")
    yield "What memlint reads, made from its table of keys. The schema knows the other keys, too. A default is the"
    yield "framework's own. A field of the run is what rules and the estimate see; a key without one counts together"
    yield from ("with others.", "")
    for table in found:
        if table.layout:
            yield from (f"## Layout {table.layout}", "")
        yield from (_cells(_HEAD), "|---" * len(_HEAD) + "|")
        yield from (_cells(row_of(key)) for key in table.keys)
        yield ""


def title(name: str) -> str:
    return str(schema_of(name)["title"])


def row_of(key: Key) -> tuple[str, ...]:
    others = (name for name in key.names if name != key.name)
    return (
        f"`{key.name}`",
        type_of(key),
        default_of(key),
        ", ".join(f"`{field}`" for field in key.fields),
        key.about,
        ", ".join(f"`{name}`" for name in others),
    )


def default_of(key: Key) -> str:
    """The default, and the one of older releases where it changed."""
    now = "" if key.default is None else f"`{json.dumps(key.default)}`"
    if key.earlier_default is None:
        return now
    release, before = key.earlier_default
    return f"{now}, `{json.dumps(before)}` before {'.'.join(map(str, release))}"


def type_of(key: Key) -> str:
    """The values that there are, where the table lists them; else the kind and its bounds."""
    if key.values is not None and key.kind != "flag":
        return ", ".join(f"`{_said(value)}`" for value in key.values)
    least = f" from {key.least:g}" if key.least is not None else ""
    most = f" up to {key.most:g}" if key.most is not None else ""
    return f"{_KINDS[key.kind]}{least}{most}"


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _cells(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main(arguments: list[str]) -> int:
    return settle(pages(), arguments, present=PAGES.glob("*.md"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
