"""What frameworks refuse, against what memlint says: `python benchmarks/corpus/refusals.py LLAMAFACTORY_SRC TRL_ROOT`.

Random combinations of options (benchmarks/data/refusal_options.json) go through the frameworks' own argument classes,
which run their checks, and through memlint. LLAMAFACTORY_SRC is the folder of the package `llamafactory`, TRL_ROOT that
of `trl`; transformers must be installed, packages that only training needs may be missing. Printed are the
combinations that a framework refuses, those of them without an error of memlint (misses), and those that memlint calls
an error of parsing though the framework takes them (false alarms). Checks that run after the model is loaded cannot
be compared in this way: rules that cite them are left out of the second count. `--write` keeps the counts in
benchmarks/data/refusals.json, which docs/coverage.md shows.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import importlib
import importlib.machinery
import json
import logging
import os
import random
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import MagicMock

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import yaml

from memlint.findings import Finding
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.ruleset.shipped import shipped
from memlint.run import Origin

OPTIONS = Path(__file__).resolve().parents[1] / "data" / "refusal_options.json"
COUNTS = Path(__file__).resolve().parents[1] / "data" / "refusals.json"
TRL = {"SFTConfig": "sft_config", "DPOConfig": "dpo_config", "GRPOConfig": "grpo_config", "KTOConfig": "kto_config"}
_ABSENT = ("datasets", "fire", "uvicorn", "fastapi", "ray", "gradio", "modelscope", "av", "librosa", "sse_starlette")
# Checked after the model is loaded (the rules' sources say where), so no argument class refuses them.
LATE = {
    *("EVA007", "PRF005", "PRF009", "PEF009", "PEF012", "PEF013", "PEF016", "PEF022", "PEF023", "TRN006", "TRN008"),
    *("TRN009", "TRN011", "TRN017", "OPT009", "OPT010", "LLF001", "LLF006", "LLF007", "TRL002", "TRL003", "TRL005"),
    *("TRL006", "TRL007", "TRL008", "TRL009", "TRL016", "TRL018", "TRL020", "TRL021", "TRL023", "SAV004", "TRN015"),
    *("LLF050", "LLF051", "LLF052", "LLF053", "LLF054"),
}

Refuse = Callable[[dict[str, Any]], str]
Options = tuple[tuple[str, Any], ...]


class Tally(NamedTuple):
    """Of one argument class: combinations tried, refused by it, and the two kinds of disagreement with an example."""

    tried: int
    refused: int
    misses: collections.Counter[str]
    alarms: collections.Counter[str]
    examples: dict[str, Options]


def main() -> None:
    words = arguments()
    quiet()
    options = json.loads(OPTIONS.read_text(encoding="utf-8"))
    engine = Engine(tuple(shipped()))
    counts = {}
    for name, refuse in judges(words.llamafactory, words.trl):
        tally = compare(engine, options[name], refuse, words.seconds, words.seed)
        counts[name] = summary(tally)
        report(name, tally)
    if words.write:
        lines = (f' "{name}": {json.dumps(count)}' for name, count in counts.items())
        COUNTS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("llamafactory", type=Path)
    parser.add_argument("trl", type=Path)
    parser.add_argument("--seconds", type=float, default=20, help="for each argument class")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    return parser.parse_args()


def quiet() -> None:
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    os.environ.update(CUDA_VISIBLE_DEVICES="", DISABLE_VERSION_CHECK="1")


def judges(llamafactory: Path, trl: Path) -> Iterator[tuple[str, Refuse]]:
    """Each argument class with a function that gives its refusal, "" where it takes the arguments."""
    sys.path[:0] = [str(llamafactory), str(trl)]
    for name in _ABSENT:
        _stub(name)
    parser = importlib.import_module("llamafactory.hparams.parser")
    parser._check_extra_dependencies = lambda *_: None  # type: ignore[attr-defined]
    yield "llamafactory", lambda values: refusal(lambda: parser.get_train_args({**values, **_CPU}))
    model = importlib.import_module("trl.trainer.model_config").ModelConfig
    for name, module in TRL.items():
        yield name, _trl(getattr(importlib.import_module(f"trl.trainer.{module}"), name), model)


_CPU = {"use_cpu": True}  # else bf16 is refused where no card is


def _trl(config: Any, model: Any) -> Refuse:
    def refuse(values: dict[str, Any]) -> str:
        return refusal(lambda: (config(**_own(config, {**values, **_CPU})), model(**_own(model, values))))

    return refuse


def _own(config: Any, values: dict[str, Any]) -> dict[str, Any]:
    known = {field.name for field in dataclasses.fields(config)}
    return {key: value for key, value in values.items() if key in known}


def refusal(build: Callable[[], object]) -> str:
    try:
        build()
    except Exception as error:  # whatever ends the run
        return f"{type(error).__name__}: {str(error)[:90]}".replace("\n", " ")
    return ""


def _stub(name: str) -> None:
    """A package that only training needs, if it is missing: every name in it exists and does nothing."""
    try:
        importlib.import_module(name)
    except ImportError:
        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        module.__path__ = []
        module.__getattr__ = _anything  # type: ignore[method-assign]
        sys.modules[name] = module


def _anything(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return MagicMock()


def compare(engine: Engine, options: dict[str, Any], refuse: Refuse, seconds: float, seed: int) -> Tally:
    """One to three random options at a time, until the time is up."""
    chance, end = random.Random(seed), time.monotonic() + seconds
    choices = [(key, value) for key, values in options["options"].items() for value in values]
    tried = refused = 0
    misses: collections.Counter[str] = collections.Counter()
    alarms: collections.Counter[str] = collections.Counter()
    examples: dict[str, Options] = {}
    while time.monotonic() < end:
        picked = tuple(chance.sample(choices, chance.choice((1, 2, 2, 3))))
        values = {key: value for key, value in {**options["base"], **dict(picked)}.items() if value is not None}
        error, errors = refuse(dict(values)), findings(engine, values)
        tried, refused = tried + 1, refused + bool(error)
        wrong = [error] if error and not errors else [] if error else [_text(one) for one in errors if not late(one)]
        for text in wrong:
            (misses if error else alarms)[text[:100]] += 1
            examples.setdefault(text[:100], picked)
    return Tally(tried, refused, misses, alarms, examples)


def findings(engine: Engine, values: dict[str, Any]) -> list[Finding]:
    """Errors, and refusals that are softened because a command line may add the missing key."""
    workspace = in_memory({"train.yaml": yaml.safe_dump(values)})
    (document,) = workspace.documents("train.yaml")
    told = {"gpus": 1, "gpus_per_node": 1, "gpus_origin": Origin("setting")}
    found = engine.analyse(document, workspace.context(**told)).findings
    return [one for one in found if one.severity == "error" or " refuses this" in one.message]


def late(finding: Finding) -> bool:
    return finding.rule in LATE


def _text(finding: Finding) -> str:
    return f"{finding.rule} {finding.message}"


def summary(tally: Tally) -> dict[str, int]:
    missed, false = sum(tally.misses.values()), sum(tally.alarms.values())
    return {"tried": tally.tried, "refused": tally.refused, "missed": missed, "false_alarms": false}


def report(name: str, tally: Tally) -> None:
    print(f"{name}: {', '.join(f'{count} {word}' for word, count in summary(tally).items())}")
    for word, found in (("missed", tally.misses), ("false", tally.alarms)):
        for text, count in found.most_common():
            print(f"  {word} {count}: {text} {dict(tally.examples[text])}")


if __name__ == "__main__":
    main()
