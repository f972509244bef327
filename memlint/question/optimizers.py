"""The optimizers that a question may name: transformers' names, and short ones that people use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.errors import UsageError
from memlint.formats.schema.suggest import nearest
from memlint.memory.state.optimizers import table
from memlint.question.model import Question

# Short names, and those that LLaMA-Factory has a switch for.
SHORT = {
    "adam": "adamw_torch",
    "adamw": "adamw_torch",
    "adam8bit": "adamw_8bit",
    "amsgrad": "adamw_torch_amsgrad",
    "lion": "lion_32bit",
    "paged_adamw": "paged_adamw_32bit",
}
SWITCHES = {
    "galore": "use_galore",
    "apollo": "use_apollo",
    "badam": "use_badam",
    "adam_mini": "use_adam_mini",
    "muon": "use_muon",
}

# Optimizers that no training argument names, as the `optimizer` section of a DeepSpeed JSON.
_FROM_ARGUMENTS = {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}
DEEPSPEED: Mapping[str, Mapping[str, Any]] = {
    "nadam": {"type": "NAdam", "params": _FROM_ARGUMENTS},
    "adamw_torch_amsgrad": {"type": "AdamW", "params": {**_FROM_ARGUMENTS, "torch_adam": True, "amsgrad": True}},
}


def optimizer_keys(question: Question) -> dict[str, Any]:
    """The training arguments that set the optimizer; none if the DeepSpeed file sets it."""
    name = question.optimizer
    if name in SWITCHES:
        return {SWITCHES[name]: True}
    if name == "sgd_momentum":
        return {"optim": "sgd", "optim_args": "momentum=0.9"}
    if question.zero and name in DEEPSPEED:
        return {}
    return {"optim": name}


def optimizer_name(name: str) -> str:
    """The name of an optimizer in a config, for any spelling of it. Raises UsageError with what was probably meant."""
    word = name.strip().lower().replace("-", "_")
    word = SHORT.get(word, word)
    if word in SWITCHES or word in table():
        return word
    near = nearest(word, [*table(), *SWITCHES, *SHORT])
    hint = f"did you mean {near}?" if near else "`memlint optimizers` lists them"
    raise UsageError(f"--optimizer {name}: not known; {hint}")
