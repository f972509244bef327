"""Write memlint/formats/*/key_releases.json from the sources of releases, which are read and never run.

    python tools/key_releases.py SOURCES

SOURCES holds unpacked releases in the folders `areal`, `openrlhf`, `swift` and `verl`, or in some of these:
`openrlhf/openrlhf-0.11.2`, .... Of each program a file has which releases take which keys: "0-3" or "0,2-5", numbers of
`releases`, with the keys of exactly these. OpenRLHF's flags are those of `add_argument`; ms-swift's are fields of
dataclasses, without transformers' own; verl's keys are what its files compose to, and AReaL's the fields of its classes
(their syntax wants Python 3.12 or newer), every section with its keys.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import areal_schema
import yaml
from argument_fields import fields_of, inherited
from openrlhf_schema import flags

FORMATS = Path(__file__).resolve().parents[1] / "memlint" / "formats"
Taken = Mapping[str, set[str]]  # by program
# verl's parts of `sft_trainer_engine.yaml`, one group for each engine.
_PARTS = {"model": "model/hf_model.yaml", "engine": "engine/fsdp.yaml", "optim": "optim/fsdp.yaml"}
_PARTS |= {"profiler": "profiler/profiler.yaml"}


def main(sources: Path) -> None:
    readers: Mapping[str, Callable[[Path], Taken]] = {
        "areal": areal,
        "openrlhf": openrlhf,
        "swift": swift,
        "verl": verl,
    }
    for name, read in readers.items():
        if not (sources / name).is_dir():
            continue
        folders = sorted((sources / name).iterdir(), key=release_of)
        releases = [".".join(map(str, release_of(folder))) for folder in folders]
        taken = [read(folder) for folder in folders]
        programs = {program: grouped(taken, program) for one in taken for program in one}
        found = {"releases": releases, "programs": programs}
        path = FORMATS / name / "key_releases.json"
        path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def release_of(folder: Path) -> tuple[int, ...]:
    parts = folder.name.rpartition("-")[2].split(".")
    return tuple(int(part) for part in parts if part.isdigit())


def grouped(taken: list[Taken], program: str) -> dict[str, str]:
    """The keys of a program by the releases that take them; a release without the program takes none."""
    found: dict[str, list[str]] = {}
    for key in sorted(set().union(*(one.get(program, set()) for one in taken))):
        having = [index for index, one in enumerate(taken) if key in one.get(program, set())]
        found.setdefault(ranges(having), []).append(key)
    return {numbers: " ".join(keys) for numbers, keys in sorted(found.items())}


def ranges(numbers: list[int]) -> str:
    """ "0-3,7" of 0, 1, 2, 3 and 7."""
    starts = [numbers[0], *(after for before, after in pairwise(numbers) if after > before + 1)]
    ends = [*(before for before, after in pairwise(numbers) if after > before + 1), numbers[-1]]
    return ",".join(str(start) if start == end else f"{start}-{end}" for start, end in zip(starts, ends, strict=True))


def areal(folder: Path) -> Taken:
    return {program: set(areal_schema.keys(one)) for program, one in areal_schema.of_release(folder).items()}


def openrlhf(folder: Path) -> Taken:
    found: dict[str, set[str]] = {}
    for path in folder.rglob("openrlhf/cli/train_*.py"):
        names = {name for name, _ in flags(path.read_text(encoding="utf-8"))}
        found[path.stem.removeprefix("train_")] = names
    return found


def swift(folder: Path) -> Taken:
    """The fields of the class that each command parses, and of those that it derives from."""
    package = folder / "swift"
    paths = [path for path in package.rglob("*.py") if not {"megatron", "ui"} & set(path.relative_to(package).parts)]
    own, bases = fields_of(paths)
    sft = next(name for name in ("SftArguments", "TrainArguments") if name in own)
    return {"sft": inherited(sft, own, bases), "rlhf": inherited("RLHFArguments", own, bases)}


def verl(folder: Path) -> Taken:
    """The two entries of reinforcement learning's files, for FSDP and Megatron-LM, and those of supervised training."""
    config = folder / "verl" / "trainer" / "config"
    found = {}
    for program, name in (("ppo", "ppo_trainer"), ("ppo_megatron", "ppo_megatron_trainer")):
        path = next(path for path in (config / f"_generated_{name}.yaml", config / f"{name}.yaml") if path.is_file())
        found[program] = set(_keys(_read(path), ""))
    older, newer = config / "sft_trainer.yaml", config / "sft_trainer_engine.yaml"
    if older.is_file():
        parts = {"optim": _PARTS["optim"]} if "defaults" in (yaml.safe_load(older.read_text(encoding="utf-8"))) else {}
        found["fsdp_sft_trainer"] = set(_keys(_with_parts(config, older, parts), ""))
    if newer.is_file():
        found["sft_trainer"] = set(_keys(_with_parts(config, newer, _PARTS), ""))
    return found


def _with_parts(config: Path, path: Path, parts: Mapping[str, str]) -> dict[str, Any]:
    found = _read(path)
    read = {name: _read(config / part) for name, part in parts.items() if (config / part).is_file()}
    return {**read, **{key: {**read.get(key, {}), **value} if key in read else value for key, value in found.items()}}


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    found.pop("defaults", None)
    return found


def _keys(value: dict[str, Any], above: str) -> Iterator[str]:
    """Every key by its dotted name, sections too."""
    for key, inner in value.items():
        yield f"{above}{key}"
        if isinstance(inner, dict):
            yield from _keys(inner, f"{above}{key}.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
