"""Whether a document is AReaL's: by the engine that trains, in the section `actor` (in older files for supervised
training `model`), beside other sections of AReaL's experiments."""

from __future__ import annotations

import re
from typing import Any

from memlint.formats.areal.allocation import allocations
from memlint.formats.base import Recognition
from memlint.source.document import Document

NAME = "areal"
SCHEMA = "areal.json"
_ROLES = ("actor", "model")
_OF_ENGINE = frozenset(
    (
        "mb_spec",
        "optimizer",
        "init_from_scratch",
        "disable_dropout",
        "gradient_checkpointing",
        "scheduling_spec",
        "path",
    )
)
_SECTIONS = frozenset(
    ("gconfig", "rollout", "saver", "stats_logger", "train_dataset", "cluster", "recover", "evaluator", "launcher")
    + ("sglang", "vllm", "scheduler", "valid_dataset", "perf_tracer")
)
_FEWEST = 3
_BACKEND = re.compile(r"(?:fsdp|megatron|archon|sglang|vllm):")


def recognise(document: Document) -> Recognition:
    value = document.value
    if not isinstance(value, dict):
        return Recognition("no")
    if document.start is not None and document.start.format == NAME:
        return Recognition("certain", reason="a command of an AReaL program")
    if is_experiment(value):
        return Recognition("certain", reason="the engine and sections of an AReaL experiment")
    return Recognition("no")


def is_experiment(value: dict[Any, Any]) -> bool:
    """Whether a file configures an experiment that trains: not one for an engine alone, nor one of AReaL before 0.3.1
    (`realhf`), whose actor has a class in place of an engine."""
    engines = [one for one in (value.get(role) for role in _ROLES) if isinstance(one, dict)]
    if not any(_OF_ENGINE & set(one) for one in engines) or any(isinstance(one.get("type"), dict) for one in engines):
        return False
    if sum(isinstance(value.get(name), dict) for name in _SECTIONS) < _FEWEST:
        return False
    return _says_gpus(value) or any(isinstance(one.get("mb_spec"), dict) for one in engines)


def _says_gpus(value: dict[Any, Any]) -> bool:
    mode = value.get("allocation_mode")
    if isinstance(mode, str) and ("$" in mode or allocations(mode) is not None):
        return True
    roles = (value.get(role) for role in (*_ROLES, "rollout"))
    backends = (one.get("backend") for one in roles if isinstance(one, dict))
    return any(isinstance(one, str) and _BACKEND.match(one) for one in backends)
