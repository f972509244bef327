"""Reading values out of a DeepSpeed configuration: what `auto` means, and dtypes."""

from __future__ import annotations

from typing import Any

from memlint.formats.fields import Section
from memlint.formats.keys import Keys
from memlint.formats.section_keys import SectionKeys
from memlint.formats.training_arguments import Arguments

SOURCE = "deepspeed 0.19.8"
AUTO = "auto"


class DeepSpeedConfig(SectionKeys):
    """A DeepSpeed mapping as its table of keys reads it. `auto` is no value: DeepSpeed's default applies then
    (config_utils.py drops "auto"), unless something fills it.

    `arguments`: the training arguments behind it, None where it stands alone. `architecture`: the model's, None where
    it is not known.
    """

    __slots__ = ("architecture", "arguments")

    def __init__(
        self, section: Section, keys: Keys, arguments: Arguments | None = None, architecture: Any = None
    ) -> None:
        super().__init__(section, keys, SOURCE)
        self.arguments = arguments
        self.architecture = architecture

    @property
    def is_compared(self) -> bool:
        """Whether transformers compares the file with training arguments: a loop of a program's own hands it to
        DeepSpeed as it stands."""
        start = self.arguments.section.document.start if self.arguments is not None else None
        return self.arguments is not None and (start is None or start.program.framework != "torch")

    def is_auto(self, name: str) -> bool:
        return bool(self.raw(name) == AUTO)


# runtime/config.py `DtypeEnum`: spellings of each dtype.
_SPELLINGS = {
    "float32": ("fp32", "float32", "float", "torch.float32"),
    "float16": ("fp16", "float16", "half", "torch.float16"),
    "bfloat16": ("bf16", "bfloat16", "torch.bfloat16"),
}
DTYPES = {spelling: dtype for dtype, spellings in _SPELLINGS.items() for spelling in spellings}


def dtype_of(word: Any) -> str:
    """A dtype's canonical name, "" for none."""
    return DTYPES.get(word, "") if isinstance(word, str) else ""
