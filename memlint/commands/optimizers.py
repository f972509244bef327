"""`memlint optimizers`: lists the known optimizers with the bytes that each keeps per parameter."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from memlint._record import NamedTuple
from memlint.commands import options
from memlint.commands.output import to_stdout
from memlint.errors import UsageError
from memlint.formats.schema.suggest import nearest
from memlint.memory.state.optimizers import memory, table
from memlint.memory.values import Tensor, Unit
from memlint.run import Optimizer, Run

FORMATS = ("text", "json")
SIDE = 4096  # rows and columns of the matrix for which the bytes are shown
RANK = 128  # of GaLore and APOLLO in the table


class KnownOptimizer(NamedTuple):
    """Bytes of states and of the step's temporaries for each parameter of a matrix, in fp32 and in bf16.

    `where`: host or managed memory, where the states are not plain GPU memory.
    """

    name: str
    fp32: float
    bf16: float
    step: float
    where: str
    aliases: tuple[str, ...]
    source: str


def run(program: str, arguments: list[str]) -> int:
    parser = options.parser(program, "The optimizers that are known, and the bytes that each keeps of a parameter.")
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="only optimizers with each of these in a name of theirs"
    )
    parser.add_argument("--format", choices=FORMATS, default="text")
    given = parser.parse_args(arguments)
    found = _named(given.words)
    rows = [one._asdict() for one in found]
    as_json = json.dumps({"schema_version": 1, "optimizers": rows}, indent=2) + "\n"
    to_stdout(as_json if given.format == "json" else _text(found))
    return 0


def _named(words: Sequence[str]) -> tuple[KnownOptimizer, ...]:
    """The optimizers with every word in one of their names, in any case. Raises UsageError where there is none."""
    wanted = [word.lower() for word in words]
    rows = known_optimizers()
    found = tuple(one for one in rows if any(all(w in name for w in wanted) for name in (one.name, *one.aliases)))
    if not found:
        near = nearest("_".join(wanted), [name for one in rows for name in (one.name, *one.aliases)])
        hint = f"; did you mean {near}?" if near else "; `memlint optimizers` lists those that are known"
        raise UsageError(f"no known optimizer has {' and '.join(words)} in its name{hint}")
    return found


def known_optimizers() -> tuple[KnownOptimizer, ...]:
    """Every optimizer once, sorted by name; aliases have no rows of their own."""
    entries = table()
    aliases = {alias for entry in entries.values() for alias in entry.get("aliases", ())}
    names = sorted(name for name in entries if name not in aliases)
    return tuple(_known(name, entries[name]) for name in names)


def _known(name: str, entry: dict[str, Any] | Any) -> KnownOptimizer:
    wide, half = (_bytes(name, dtype) for dtype in ("float32", "bfloat16"))
    where = "host" if entry.get("host") else "managed" if entry.get("paged") else ""
    return KnownOptimizer(
        name, wide[0], half[0], wide[1], where, tuple(entry.get("aliases", ())), str(entry.get("source", ""))
    )


def _bytes(name: str, dtype: str) -> tuple[float, float]:
    """(bytes of states, bytes of a step's temporaries), per parameter of a linear layer with a SIDE x SIDE matrix."""
    count = SIDE * SIDE
    width = 4 if dtype == "float32" else 2
    tensor = Tensor("weight", count, (SIDE, SIDE), "linear", True, dtype, count * width)
    optimizer = Optimizer(name=name, rank=RANK, targets=("all-linear",))
    found = memory(Run("", "", optimizer=optimizer), (Unit("layer", (tensor,)),))
    return (found.states + found.managed + found.host) / count, found.step_temporaries / count


def _text(found: tuple[KnownOptimizer, ...]) -> str:
    width = max(len(one.name) for one in found)
    lines = [
        f"{'':{width}}  {'states, bytes a parameter':^25}  {'step':>6}",
        f"{'optimizer':{width}}  {'fp32':>11}  {'bf16':>12}",
    ]
    for one in found:
        notes = [f"in {one.where} memory"] if one.where else []
        notes += [f"also {', '.join(one.aliases)}"] if one.aliases else []
        lines.append(
            f"{one.name:{width}}  {one.fp32:11.2f}  {one.bf16:12.2f}  {one.step:6.2f}  {'; '.join(notes)}".rstrip()
        )
    tail = (
        f"For a {SIDE} x {SIDE} matrix that trains in fp32 or in bf16; GaLore and APOLLO at rank {RANK}. step: what\n"
        "the update of an fp32 parameter allocates for a moment, of all of them or of the largest tensor."
    )
    return "\n".join([*lines, "", tail]) + "\n"
