"""Whether a document is a training config of AutoTrain for a language model: by its task."""

from __future__ import annotations

from typing import Any

from memlint.formats.base import Recognition
from memlint.source.document import Document

NAME = "autotrain"
SCHEMA = "autotrain.json"
# The tasks of language models, and the trainer that each names (autotrain-advanced 0.8.36 parser.py, task_aliases).
TASKS = {"llm": "", "llm-sft": "sft", "llm-orpo": "orpo", "llm-dpo": "dpo", "llm-reward": "reward"} | {
    "llm-generic": "default",
    "lm_training": "",
}
TRAINERS = ("default", "sft", "reward", "dpo", "orpo")
# The sections of a config; what else stands beside them is read nowhere.
SECTIONS = ("task", "base_model", "project_name", "log", "backend", "data", "params", "hub")


def is_config(value: Any) -> bool:
    """Whether a mapping is a config, in place of the parameters of a command."""
    return isinstance(value, dict) and "task" in value


def recognise(document: Document) -> Recognition:
    value = document.value
    task = value.get("task") if isinstance(value, dict) else None
    if not isinstance(task, str) or not (task in TASKS or task.startswith("llm-")):
        return Recognition("no")
    if "base_model" in value and ("params" in value or "data" in value):
        return Recognition("certain", reason="`task` and `base_model` of AutoTrain")
    return Recognition("unsure", reason="`task` of AutoTrain alone")
