"""The optimizers that a question may name: transformers' names, and short ones that people use."""

from __future__ import annotations

from memlint.errors import UsageError
from memlint.formats.schema.suggest import nearest
from memlint.memory.optimizers import table

# Short names, and those that LLaMA-Factory has a switch for.
SHORT = {
    "adam": "adamw_torch",
    "adamw": "adamw_torch",
    "adam8bit": "adamw_8bit",
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


def optimizer_name(name: str) -> str:
    """The name that a config says, for any spelling of it. Raises UsageError with what may have been meant."""
    word = name.strip().lower().replace("-", "_")
    word = SHORT.get(word, word)
    if word in SWITCHES or word in table():
        return word
    near = nearest(word, [*table(), *SWITCHES, *SHORT])
    hint = f"did you mean {near}?" if near else "`memlint optimizers` lists them"
    raise UsageError(f"--optimizer {name}: not known; {hint}")
