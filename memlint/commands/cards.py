"""`memlint cards`: the cards and cloud machines that `--gpu` takes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence

from memlint.commands import options
from memlint.commands.output import to_screen
from memlint.hardware.catalog import every, machines
from memlint.hardware.model import Gpu
from memlint.report.units import gib

FORMATS = ("text", "json")


def run(program: str, arguments: list[str]) -> int:
    parser = options.parser(program, "The cards that --gpu takes, what a process gets of each, and cloud machines.")
    parser.add_argument("--format", choices=FORMATS, default="text")
    options.add_settings(parser)
    given = parser.parse_args(arguments)
    if options.handle_info_flags(given):
        return 0
    cards, by_card = every(), _machines_by_card()
    to_screen(_json(cards, by_card) if given.format == "json" else _text(cards, by_card), given.format != "json")
    return 0


def _machines_by_card() -> Mapping[str, list[str]]:
    found = defaultdict(list)
    for name, (card, count) in machines().items():
        found[card].append(f"{name} ({count})")
    return found


def _text(cards: Sequence[Gpu], by_card: Mapping[str, list[str]]) -> str:
    width = max(len(card.name) for card in cards)
    lines = [f"{'card':{width}}  {'GiB':>7}  machines (cards)"]
    for card in cards:
        named = ", ".join(by_card.get(card.name, ()))
        lines.append(f"{card.name:{width}}  {gib(card.usable_bytes):>7}  {named}".rstrip())
    return "\n".join([*lines, "", "A size alone is a card too: --gpu 24GiB"]) + "\n"


def _json(cards: Sequence[Gpu], by_card: Mapping[str, list[str]]) -> str:
    rows = [
        {
            "name": card.name,
            "vendor": card.vendor,
            "nominal_bytes": card.nominal_bytes,
            "usable_bytes": card.usable_bytes,
            "machines": by_card.get(card.name, []),
        }
        for card in cards
    ]
    return json.dumps({"schema_version": 1, "cards": rows}, indent=2) + "\n"
