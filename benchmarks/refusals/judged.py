"""Frameworks that benchmarks/mistakes judges, for compare.py: random changes of their originals go to their judges."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from benchmarks.corpus.mistakes import RELEASES
from benchmarks.mistakes.fields import fields_of, options_of
from benchmarks.mistakes.generate import is_judged, is_of_this_machine
from benchmarks.mistakes.judges import Judge, judges
from benchmarks.mistakes.originals import EVERY
from benchmarks.refusals.drawn import UNDECIDED, Original

# Each judge, and the package whose release the counts are of.
NAMES: Mapping[str, str] = {
    "llamafactory": "llamafactory",
    "trainer": "transformers",
    **{f"trl-{name}": "trl" for name in ("sft", "dpo", "grpo", "reward", "kto")},
    **{name: name for name in ("axolotl", "deepspeed", "accelerate")},
}


def framework(name: str, sources: Path) -> SimpleNamespace:
    """What compare.py asks a framework's module for."""
    judge = judges(sources)[name]
    return SimpleNamespace(
        NAME=name,
        RELEASE=".".join(map(str, RELEASES[NAMES[name]])),
        FILE="ds_config.json" if name == "deepspeed" else f"{name.replace('-', '_')}.yaml",
        VERSIONS=RELEASES,
        WARNS=True,  # these also drop keys without a word
        ORIGINALS=_originals(name),
        fields=lambda: {place: field for place, field in fields_of(name).items() if is_judged(place)},
        gpus=lambda value: value.get("num_processes", 8) if name == "accelerate" else 8 if name == "axolotl" else 1,
        refuses=lambda value: _refuses(judge, value),
        written=json.dumps if name == "deepspeed" else _yaml,
    )


def _originals(name: str) -> dict[str, Original]:
    options = {place: values for place, values in options_of(name).items() if values and is_judged(place)}
    known = {key: one.content for key, one in EVERY.items() if one.framework == name}
    return {key: Original(content, options) for key, content in known.items()}


def _refuses(judge: Judge, value: dict[str, Any]) -> str:
    answer = judge(value)
    if answer.refusal and is_of_this_machine(answer.refusal):
        return UNDECIDED
    return answer.refusal or ("dropped: " + ", ".join(answer.dropped) if answer.dropped else "")


def _yaml(value: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(value), sort_keys=False)
