"""How many mistakes memlint reports: `python benchmarks/corpus/mistakes.py [-v] [--framework NAME]`.

benchmarks/data/mistakes.jsonl holds configurations that their frameworks take, and mistakes put into them, each with
the words in which the framework refuses it or the key that it drops (benchmarks/mistakes makes them with the frameworks
installed). A mistake counts as caught where memlint says an error or a warning that it does not say of the original.
Errors and warnings about an original are false alarms. `-v` prints each miss.
"""

from __future__ import annotations

import collections
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import yaml

from benchmarks.command import parser
from benchmarks.mistakes.changes import Change, applied
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.ruleset.shipped import shipped

RECORDS = Path(__file__).resolve().parents[1] / "data" / "mistakes.jsonl"


# Those that judged: what only one release refuses is an error where somebody says that this one is in use.
RELEASES = {
    "llamafactory": (0, 9, 5),
    "transformers": (5, 23, 0),
    "trl": (1, 16, 0),
    "axolotl": (0, 19, 0),
    "deepspeed": (0, 19, 8),
    "accelerate": (1, 15, 0),
    "peft": (0, 21, 2),
}


class Outcome(NamedTuple):
    """Of one mistake: `said` is what memlint says of it and not of its original."""

    framework: str
    record: Mapping[str, Any]
    said: frozenset[str]


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("-v", "--verbose", action="store_true", help="print each miss")
    arguments.add_argument("--framework", default="", help="this framework's alone")
    arguments.add_argument("--records", type=Path, default=RECORDS, help="another file of generated mistakes")
    options = arguments.parse_args()
    originals, mistakes = records(options.records)
    engine = Engine(tuple(shipped()))
    sound = {name: said(engine, one["file"], one["content"]) for name, one in originals.items()}
    found = list(outcomes(engine, originals, mistakes, sound, options.framework))
    if options.verbose:
        for one in found:
            if not one.said:
                print(missed(one))
    print(table(found))
    alarms = [(name, text) for name, words in sound.items() for text in sorted(words)]
    print(f"false alarms on {len(originals)} originals: {len(alarms)}", *alarms, sep="\n  ")


def records(path: Path = RECORDS) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """The originals by name, and the mistakes."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {line["original"]: line for line in lines if "original" in line}, [line for line in lines if "of" in line]


def outcomes(
    engine: Engine,
    originals: Mapping[str, dict[str, Any]],
    mistakes: list[dict[str, Any]],
    sound: Mapping[str, frozenset[str]],
    framework: str = "",
) -> Iterator[Outcome]:
    for record in mistakes:
        original = originals[record["of"]]
        if original["framework"].startswith(framework):
            words = said(engine, original["file"], applied(original["content"], change_of(record)))
            yield Outcome(original["framework"].partition("-")[0], record, words - sound[record["of"]])


def change_of(record: Mapping[str, Any]) -> Change:
    """The change that a line describes: JSON has lists where places are tuples."""
    removed = tuple(tuple(place) for place in record["removed"])
    further = tuple((tuple(place), value) for place, value in record["further"])
    return Change(record["kind"], tuple(record["place"]), record["value"], removed, further)


def said(engine: Engine, file: str, content: Mapping[str, Any]) -> frozenset[str]:
    """The errors and warnings about one file, as text."""
    text = json.dumps(content) if file.endswith(".json") else yaml.safe_dump(dict(content), sort_keys=False)
    workspace = in_memory({file: text})
    found = engine.analyse(workspace.documents(file)[0], workspace.context(versions=RELEASES)).findings
    return frozenset(f"{one.rule} {one.message}" for one in found if one.severity in ("error", "warning"))


def missed(one: Outcome) -> str:
    record = one.record
    place = ".".join(record["place"]) or ".".join(record["removed"][0])
    more = f" with {record['further']}" if record["further"] else ""
    renamed = f" for {'.'.join(record['removed'][0])}" if record["place"] and record["removed"] else ""
    change = f"{place}: {json.dumps(record['value'])}{more}{renamed}"
    return f"{record['of']} | {record['kind']} | {change} | {record['refusal'][:110]}"


def table(found: list[Outcome]) -> str:
    """Mistakes and the share that is caught, by framework and by kind."""
    rows = [("", "mistakes", "caught", "share")]
    for column in (lambda one: one.framework, lambda one: one.record["kind"], lambda one: "all"):
        groups: collections.defaultdict[str, list[bool]] = collections.defaultdict(list)
        for one in found:
            groups[column(one)].append(bool(one.said))
        rows += [(name, str(len(all)), str(sum(all)), f"{sum(all) / len(all):.1%}") for name, all in groups.items()]
    return "\n".join(f"{name:24}{number:>9}{caught:>8}{share:>8}" for name, number, caught, share in rows)


if __name__ == "__main__":
    main()
