"""Classifiers, beside the simulated steps in benchmarks/data/classifiers.jsonl (transformers' own classes)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.referee.classifiers import predicted

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "classifiers.jsonl"
CASES = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
# The highest of both phases. BERT's relatives have a pooler or none, and dropout on what they hand to it.
DECODERS, ENCODERS = 0.001, 0.01


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['config_class']}-{case['task']}")
def test_peaks_are_close_to_the_simulated_step(case: dict[str, Any]) -> None:
    said, real = predicted(case), max(case["result"].values())
    limit = DECODERS if "architectures" in case["config"] else ENCODERS
    assert abs(max(said["forward"], said["backward"]) / real - 1) < limit
