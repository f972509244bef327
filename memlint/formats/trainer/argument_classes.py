"""The names that transformers', TRL's and PEFT's classes take, over their releases: any of them may be in use."""

from __future__ import annotations

from functools import cache

from memlint.formats.trainer.argument_names import NAMES, OF_TRL

_TRAINING_ARGUMENTS = "TrainingArguments"
_DERIVED = frozenset((*OF_TRL, "Seq2SeqTrainingArguments"))


def is_known(name: str) -> bool:
    """Whether every release of the class was read."""
    return name in NAMES


@cache
def own_arguments(name: str) -> frozenset[str]:
    """What a class declares itself, beside the arguments of TrainingArguments; nothing of a class that is not known."""
    return frozenset(NAMES.get(name, "").split())


@cache
def arguments_taken(name: str) -> frozenset[str]:
    """What a known class takes, with what it inherits from TrainingArguments."""
    return own_arguments(name) | own_arguments(_TRAINING_ARGUMENTS) if name in _DERIVED else own_arguments(name)
