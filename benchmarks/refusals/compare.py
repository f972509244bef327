"""Frameworks' own parsers and checks against memlint: `python -m benchmarks.refusals.compare FRAMEWORK SOURCES`.

SOURCES holds the unpacked packages, in folders `<name>-<release>`; packages that only training needs may be missing.
Sound configurations get one to three random changes each. Counted are those that the framework refuses before it
loads a model, what of them memlint does not report as an error (missed), and errors of memlint where the framework
takes the configuration (false alarms). Errors about later moments, such as memory or a model that is loaded, are no
false alarms: the framework's answer says nothing of them. `-v` prints each difference, `--write` keeps the counts in
benchmarks/data/parser_refusals.json, which docs/rules-precision.md shows.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import random
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.command import parser
from benchmarks.refusals import judged
from benchmarks.refusals.drawn import UNDECIDED, changed
from memlint.findings import Finding
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.ruleset.shipped import shipped

COUNTS = Path(__file__).resolve().parents[1] / "data" / "parser_refusals.json"
FRAMEWORKS = ("swift", "verl", "openrlhf", "torchtune", "nemo_rl", "slime", "areal")
# Of a later moment than the parser's: memory, the model that is loaded, the engine that is built, the data.
LATER = ("MEM0", "OFF", "HWR")


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("framework", choices=(*FRAMEWORKS, *judged.NAMES))
    arguments.add_argument("sources", type=Path)
    arguments.add_argument("number", nargs="?", type=int, default=300)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("-v", "--verbose", action="store_true", help="print what is missed and falsely alarmed")
    arguments.add_argument("--write", action="store_true", help="keep the counts for the page of the rules")
    options = arguments.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", DS_ACCELERATOR="cpu")
    module = framework(options.framework, options.sources)
    counts = compare(module, options.number, options.seed, options.verbose)
    print(f"{module.NAME} {module.RELEASE}: {counts}")
    if options.write:
        keep(f"{module.NAME} {module.RELEASE}", counts)


def framework(name: str, sources: Path) -> Any:
    """The framework's module, or what stands for one, with its packages within reach."""
    if name in judged.NAMES:
        return judged.framework(name, sources)
    sys.path[:0] = [str(path) for path in sorted(sources.glob("*"))]
    return importlib.import_module(f"benchmarks.refusals.{name}")


def compare(module: Any, number: int, seed: int, verbose: bool) -> dict[str, int]:
    rules, fields = Engine(shipped()), module.fields()
    counts = {"originals": 0, "tried": 0, "refused": 0, "missed": 0, "false alarms": 0}
    sound: dict[str, set[str]] = {}
    for name, original in module.ORIGINALS.items():
        reason, found = module.refuses(original.content), said(rules, module, original.content)
        counts["originals"] += 1
        if reason or errors(found):
            raise SystemExit(f"{name} is no sound original: {reason or errors(found)}")
        sound[name] = warnings_of(found)
    names = sorted(module.ORIGINALS)
    for index in range(number):
        draw = random.Random(f"{seed} {index}")
        name = draw.choice(names)
        value = changed(module.ORIGINALS[name], fields, draw, getattr(module, "KEPT", ()))
        reason = module.refuses(value)
        if reason == UNDECIDED:
            continue
        found = said(rules, module, value)
        caught = errors(found) or (getattr(module, "WARNS", False) and warnings_of(found) - sound[name])
        kind = "missed" if reason and not caught else "false alarms" if errors(found) and not reason else ""
        counts["tried"] += 1
        counts["refused"] += bool(reason)
        if kind:
            counts[kind] += 1
            if verbose:
                words = reason[:200] or errors(found)
                print(f"{kind}: {words} | {name}: {_difference(module.ORIGINALS[name].content, value)}")
    return counts


def said(rules: Engine, module: Any, value: Mapping[str, Any]) -> list[Finding]:
    """What memlint finds in the configuration, but what it says of later moments."""
    others = module.beside(value) if hasattr(module, "beside") else {}
    workspace = in_memory({module.FILE: module.written(value), **others})
    gpus = module.gpus(value) if hasattr(module, "gpus") else 8
    told = workspace.context(gpus=gpus, gpus_per_node=gpus, versions=module.VERSIONS)
    documents = [one for name in (module.FILE, *others) for one in workspace.documents(name)]
    found = [item for one in documents for item in rules.analyse(one, told, fixes=False).findings]
    crash = next((one.message for one in found if one.rule == "MEM000"), "")
    if crash:
        raise SystemExit(f"{crash}: {value}")
    later = getattr(module, "LATER", ())
    return [one for one in found if not one.rule.startswith(LATER) and not any(words in one.message for words in later)]


def errors(found: list[Finding]) -> list[str]:
    return [f"{one.rule} {one.message}" for one in found if one.severity == "error"]


def warnings_of(found: list[Finding]) -> set[str]:
    return {f"{one.rule} {one.message}" for one in found if one.severity == "warning"}


def _difference(original: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    gone = {key: "(gone)" for key in original if key not in value}
    new: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, dict) and isinstance(original.get(key), dict):
            inner = _difference(original[key], item)
            new.update({key: inner} if inner else {})
        elif key not in original or original[key] != item:
            new[key] = item
    return {**gone, **new}


def keep(name: str, counts: Mapping[str, int]) -> None:
    known = json.loads(COUNTS.read_text(encoding="utf-8")) if COUNTS.exists() else {}
    COUNTS.write_text(json.dumps({**known, name: counts}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
