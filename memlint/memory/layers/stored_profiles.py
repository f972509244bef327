"""Recordings of common layers as data: a start reads one in a fraction of the time that recording it takes.

One file for each class of decoder layer, `memlint/_shipped/profiles/<class>.z`, in parts that are packed by zlib, so
that a start unpacks two of them. The first has what the recordings were made of, as JSON: the structures, roles,
kernels and modes that occur, for each combination of them the number of its recording, and where the other parts end.
Each other part has some recordings, one a line. The stamps in the folder's `stamps.json` say with which code they were
made.

Written when a wheel (or an editable install) is built, see hatch_build.py; never edited, never committed.
In a checkout the recordings count only while the code that makes them has not changed since.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate
from operator import itemgetter
from typing import Any

from memlint._record import NamedTuple
from memlint.architectures.model import DecoderLayer
from memlint.memory.autograd.profile import LayerMode, Profile
from memlint.memory.autograd.tape import PeakCandidates, TensorSize, changes_of, from_changes, tensor_size
from memlint.memory.layers.kernel_config import KernelConfig
from memlint.memory.state.parameter_roles import Roles
from memlint.shipped_data import PACKAGE

FOLDER = os.path.join(PACKAGE, "_shipped", "profiles")
STAMPS = "stamps.json"
AT_ONCE = 16  # recordings of a part: one by one they take four times the space, and unpacking all takes long
Key = tuple[DecoderLayer, Roles, KernelConfig, LayerMode]


class _StoredClass(NamedTuple):
    """The recordings of one class of layers. `tables`: for each part of a key its number by its text. `packed`: the
    recordings, in parts that end at `ends`."""

    tables: Sequence[Mapping[str, int]]
    numbers: Mapping[str, int]
    ends: Sequence[int]
    packed: bytes

    def line(self, number: int) -> bytes:
        part, place = divmod(number, AT_ONCE)
        start = self.ends[part - 1] if part else 0
        return zlib.decompress(self.packed[start : self.ends[part]]).split(b"\n")[place]


def find(shape: DecoderLayer, roles: Roles, kernels: KernelConfig, mode: LayerMode) -> Profile | None:
    """The stored recording of a layer's structure; None if there is none."""
    stored = _stored(shape.class_name)
    if stored is None:
        return None
    parts = [table.get(_text(part)) for table, part in zip(stored.tables, (shape, roles, kernels, mode))]
    number = stored.numbers.get(" ".join(map(str, parts)))
    return None if number is None else read(stored.line(number))


def _text(part: tuple[Any, ...]) -> str:
    return json.dumps(part, separators=(",", ":"))


@lru_cache(maxsize=16)
def _stored(class_name: str) -> _StoredClass | None:
    if not class_name.isidentifier() or not is_current():
        return None
    first = zlib.decompressobj()
    try:
        with open(os.path.join(FOLDER, f"{class_name}.z"), "rb") as stream:
            tables, numbers, ends = json.loads(first.decompress(stream.read()))
    except (OSError, zlib.error, ValueError):
        return None
    by_text = [{text: number for number, text in enumerate(table)} for table in tables]
    return _StoredClass(by_text, numbers, ends, first.unused_data)


@cache
def is_current() -> bool:
    """Whether the recordings were made by this code. In an installation they were; a checkout compares stamps."""
    try:
        with open(os.path.join(FOLDER, STAMPS), "rb") as stream:
            marks = json.load(stream)
    except OSError:
        return False
    if not marks:
        return True
    from memlint.memory.layers.profile_stamps import stamps  # in checkouts

    return bool(marks == stamps())


def files(recordings: Mapping[Key, str]) -> dict[str, bytes]:
    """The files that hold these recordings, by name. Each recording is the line that `dump` made of it; equal ones of
    one class are written once."""
    by_class: dict[str, dict[Key, str]] = {}
    for key, line in recordings.items():
        by_class.setdefault(key[0].class_name, {})[key] = line
    return {f"{name}.z": _file(found) for name, found in sorted(by_class.items()) if name.isidentifier()}


def _file(recordings: Mapping[Key, str]) -> bytes:
    tables = [sorted({_text(key[part]) for key in recordings}) for part in range(4)]
    lines = sorted(set(recordings.values()))
    places = {line: number for number, line in enumerate(lines)}
    numbers = {
        " ".join(str(table.index(_text(part))) for table, part in zip(tables, key)): places[line]
        for key, line in recordings.items()
    }
    starts = range(0, len(lines), AT_ONCE)
    packed = [zlib.compress("\n".join(lines[start : start + AT_ONCE]).encode(), 9) for start in starts]
    ends = list(accumulate(map(len, packed)))
    first = json.dumps([tables, dict(sorted(numbers.items())), ends], separators=(",", ":"))
    return b"".join((zlib.compress(first.encode(), 9), *packed))


def dump(profile: Profile) -> str:
    """A recording as one line. Live sets of one tape share their list of sizes, which is written once."""
    tapes: list[Sequence[TensorSize]] = []
    parts = []
    for candidates in profile[:-1]:
        if not any(candidates.tensor_sizes is sizes for sizes in tapes):
            tapes.append(candidates.tensor_sizes)
        tape = next(index for index, sizes in enumerate(tapes) if candidates.tensor_sizes is sizes)
        indexes, numbers = zip(*changes_of(candidates))
        lengths = [end - start for start, end in zip((0, *candidates.ends), candidates.ends)]
        parts.append([tape, indexes, numbers, lengths])
    sizes = [[[size.extent, size.width] for size in tape] for tape in tapes]
    return json.dumps([sizes, parts, profile.width], separators=(",", ":"))


def read(line: bytes | str) -> Profile:
    """The recording that `dump` wrote."""
    tapes, parts, width = json.loads(line)
    sizes = [[tensor_size(extent, size) for extent, size in tape] for tape in tapes]
    return Profile._make((*(_candidates(sizes[tape], *part) for tape, *part in parts), width))


def _candidates(
    sizes: Sequence[TensorSize], indexes: list[int], numbers: list[int], lengths: list[int]
) -> PeakCandidates:
    ends = tuple(accumulate(lengths))
    return PeakCandidates(sizes, from_changes(indexes, numbers, ends), itemgetter(*indexes), tuple(numbers), ends)
