"""`memlint models`: the models that are known by name, with their dimensions."""

from __future__ import annotations

import json
from collections.abc import Iterator

from memlint._record import NamedTuple
from memlint.architectures import catalog, datafile
from memlint.architectures.config import UnsupportedConfig
from memlint.architectures.model import parameters
from memlint.commands import options
from memlint.commands.output import to_stdout
from memlint.errors import UsageError
from memlint.question.models import suggestions
from memlint.report.units import count

FORMATS = ("text", "json")


class KnownModel(NamedTuple):
    """A model of the catalog. Dimensions are None if its family is not modelled. `same`: other ids with this shape."""

    id: str
    family: str
    parameters: int | None
    layers: int | None
    hidden: int | None
    vocab: int | None
    context: int | None
    same: tuple[str, ...]


def run(program: str, arguments: list[str]) -> int:
    parser = options.parser(program, "The models that are known by name; others by their config.json, or with --hub.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="only ids that contain each of these")
    parser.add_argument("--format", choices=FORMATS, default="text")
    given = parser.parse_args(arguments)
    found = list(known_models(tuple(given.words)))
    if not found:
        near = suggestions("-".join(given.words))
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UsageError(f"no known model has {' and '.join(given.words)} in its name{hint}")
    rows = [one._asdict() for one in found]
    as_json = json.dumps({"schema_version": 1, "models": rows}, indent=2) + "\n"
    to_stdout(as_json if given.format == "json" else _text(found))
    return 0


def known_models(words: tuple[str, ...]) -> Iterator[KnownModel]:
    """The catalog's rows with an id that contains every word (in any case), by name."""
    rows = (json.loads(line) for line in datafile.text(catalog.FILE).splitlines())
    lowered = tuple(word.lower() for word in words)
    for row in sorted(rows, key=lambda row: str(row["ids"][0]).lower()):
        ids = tuple(one for one in row["ids"] if all(word in one.lower() for word in lowered))
        if ids:
            yield _known(ids, row["config"])


def _known(ids: tuple[str, ...], config: dict[str, object]) -> KnownModel:
    family = str(config.get("model_type", ""))
    entry = catalog.find(ids[0])
    try:
        architecture = catalog.architecture(entry) if entry is not None else None
    except UnsupportedConfig:
        architecture = None
    if architecture is None:
        return KnownModel(ids[0], family, None, None, None, None, None, ids[1:])
    dimensions = len(architecture.layer_type_ids), architecture.hidden_size, architecture.vocab_size
    return KnownModel(
        ids[0], family, parameters(architecture), *dimensions, architecture.max_positions or None, ids[1:]
    )


def _text(found: list[KnownModel]) -> str:
    width = max(len(one.id) for one in found)
    head = f"{'model':{width}}  {'parameters':>10}  {'layers':>6}  {'hidden':>6}  {'vocab':>7}  {'context':>9}"
    lines = [head]
    for one in found:
        cells = (count(one.parameters), _cell(one.layers), _cell(one.hidden), _cell(one.vocab), _cell(one.context))
        widths = (10, 6, 6, 7, 9)
        numbers = "  ".join(f"{cell:>{size}}" for cell, size in zip(cells, widths, strict=True))
        more = f"  and {len(one.same)} of the same shape" if one.same else ""
        lines.append(f"{one.id:{width}}  {numbers}{more}")
    tail = "A folder with a config.json is a model too, and so is one on the Hub with --hub; short names do: llama-3-8b"
    return "\n".join([*lines, "", tail]) + "\n"


def _cell(value: int | None) -> str:
    return "?" if value is None else str(value)
