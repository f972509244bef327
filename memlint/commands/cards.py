"""`memlint cards`: the cards and cloud machines that `--gpu` takes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence

from memlint.commands import options
from memlint.commands.output import to_screen
from memlint.errors import UsageError
from memlint.hardware.catalog import every, has_words, machines
from memlint.hardware.model import Gpu
from memlint.hardware.named import unknown_gpu
from memlint.report.units import gib

FORMATS = ("text", "json")


def run(program: str, arguments: list[str]) -> int:
    parser = options.parser(program, "The cards that --gpu takes, what a process gets of each, and cloud machines.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="only cards with each of these in their name")
    parser.add_argument("--format", choices=FORMATS, default="text")
    options.add_settings(parser)
    given = parser.parse_args(arguments)
    if options.handle_info_flags(given):
        return 0
    by_card = _machines_by_card()
    cards = _named(given.words, by_card)
    to_screen(_json(cards, by_card) if given.format == "json" else _text(cards, by_card), given.format != "json")
    return 0


def _named(words: Sequence[str], by_card: Mapping[str, list[str]]) -> list[Gpu]:
    """The cards with every word in their name or that of one of their machines. Raises UsageError if there are none."""
    found = [card for card in every() if has_words(" ".join((card.name, *by_card.get(card.name, ()))), words)]
    if not found:
        raise UsageError(unknown_gpu(" ".join(words)))
    return found


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
