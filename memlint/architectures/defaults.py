"""The defaults of transformers' configuration classes, for keys that a config.json leaves out (defaults.jsonl)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from memlint.architectures import datafile
from memlint.architectures.config import ModelConfig


def defaulted(values: Mapping[str, Any], family: str) -> ModelConfig:
    """`values` with the defaults of the class of `family` behind them ("qwen2_vl/vision_config" for a nested one)."""
    line = datafile.line("defaults.jsonl", f'{{"family":"{family}",'.encode())
    facts = json.loads(line) if line else {}
    return ModelConfig(values, family.split("/")[0], facts.get("defaults"), facts.get("aliases"))
