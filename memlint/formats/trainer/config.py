"""One Trainer file with its framework versions, and which library's trainer it is for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.base import Context
from memlint.formats.fields import Section, as_bool
from memlint.formats.training_arguments.arguments import Arguments, Version


class TrainerConfig(NamedTuple):
    """One file. `args` has its keys over the defaults; `architecture` is None where the model is unknown."""

    section: Section
    args: Arguments
    context: Context
    trl: Version  # () for a plain Trainer
    transformers: Version
    stage: str = "sft"  # which of TRL's trainers: sft, dpo, grpo, ...
    architecture: Any = None
    may_be_adapter: bool = False  # the model is a folder, or somebody's tuned one: it may hold an adapter alone
    stated: Mapping[str, Version] = {}  # only stated versions; the context's include those that follow from keys

    def spellings(self, key: str) -> tuple[str, ...]:
        """Every name of `key`, the one that wins first."""
        return self.args.spellings.get(key, (key,))

    def text(self, key: str) -> tuple[str, str]:
        """The file's text for `key`, and the name that it has in the file; ("", key) where there is none."""
        for name in self.spellings(key):
            value = self.section.value.get(name)
            if isinstance(value, str) and value.strip():
                return value.strip(), name
        return "", key

    def declares(self, key: str) -> bool:
        """Whether a class of the repository declares the key, or, for a file without a command, a program's option."""
        is_file = self.section.document.start is None
        declared = self.context.repository.field_annotations
        return bool(declared(key)) or (is_file and bool(declared(f"--{key}")))

    def drops(self, key: str) -> bool:
        """Whether the stated release of TRL drops the key (trl 0.29: ModelConfig has `dtype` alone)."""
        return key == "torch_dtype" and bool(self.trl) and self.stated.get("trl", ()) >= (0, 29)

    def first(self, *keys: str) -> str:
        """The first of `keys` that is given (not null), else ""."""
        return next((key for key in keys if self.section.value.get(key) is not None), "")

    def is_on(self, key: str) -> bool:
        """Whether the file gives `key` as true."""
        return bool(as_bool(self.section.value.get(key)))
