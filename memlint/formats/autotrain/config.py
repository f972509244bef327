"""One training config of AutoTrain, or one command of it: the parameters, and which trainer they are for."""

from __future__ import annotations

from typing import Any

from memlint.formats.autotrain.recognise import SECTIONS, TASKS, TRAINERS, is_config
from memlint.formats.base import Context
from memlint.formats.fields import Section
from memlint.formats.keys import Keys
from memlint.formats.section_keys import CommandKeys

SOURCE = "autotrain-advanced 0.8.36"
STAGES = {"sft": "sft", "default": "sft", "dpo": "dpo", "orpo": "orpo", "reward": "rm"}
_LONGEST_UNSET = 1024  # trainers/clm/utils.py, configure_block_size
_DEFAULT_OF_COMMANDS = 1024  # cli/run_llm.py, --block_size
_BITS = {"int4": 4, "int8": 8}


class AutotrainConfig(CommandKeys):
    """`is_command`: the parameters are flags, and none stands in a section."""

    __slots__ = ("context", "is_command")

    def __init__(self, section: Section, keys: Keys, context: Context) -> None:
        self.is_command = not is_config(section.value)
        super().__init__(section if self.is_command else _without_strangers(section), keys, SOURCE)
        self.context = context

    @property
    def trainer(self) -> str:
        """The trainer: of a config by its task, whose second word is overwritten by a parameter (parser.py)."""
        of_task = TASKS.get(str(self.raw("task") or ""), "")
        given = self.text("params.trainer")
        return given if self.is_command or self.written("params.trainer") else of_task or given

    @property
    def stage(self) -> str:
        """The stage of the trainer; "" for one that AutoTrain does not have."""
        return STAGES[self.trainer] if self.trainer in TRAINERS else ""

    @property
    def is_of_trl(self) -> bool:
        return self.trainer != "default"

    @property
    def trains_adapter(self) -> bool:
        return self.flag("params.peft")

    @property
    def bits(self) -> int:
        """The bits of the base model's weights: `quantization` counts with an adapter alone (trainers/clm/utils.py,
        get_model). Releases of 2023 have flags for it."""
        if not self.trains_adapter:
            return 16
        flags = ((4, "use_int4"), (8, "use_int8"))
        older = next((bits for bits, name in flags if self.flag(name)), 0)
        return older or _BITS.get(self.text("params.quantization"), 16)

    @property
    def autocast(self) -> str:
        """bf16 or fp16; "" for any other word, which sets nothing."""
        word = self.text("params.mixed_precision")
        return word if word in ("bf16", "fp16") else ""

    @property
    def length(self) -> int | None:
        """The length of rows: `block_size` or 1024, and never more than `model_max_length`, which every tokenizer gets
        that reads more than 2048 tokens (trainers/clm/utils.py, get_tokenizer and configure_block_size). None where a
        value is unknown or a list."""
        given: Any = self.get("params.block_size")
        if self.is_command and self.written("params.block_size") is None:
            given = _DEFAULT_OF_COMMANDS
        bound = self.number("params.model_max_length")
        if bound is None or not isinstance(given, int):
            return None
        return min(_LONGEST_UNSET if given == -1 else given, int(bound))

    @property
    def evaluates(self) -> bool:
        return self.get("data.valid_split") is not None

    @property
    def targets(self) -> list[str] | str | None:
        """The layers that get an adapter; None where PEFT chooses (get_target_modules)."""
        words = self.text("params.target_modules").strip()
        return words.lower() if words.lower() == "all-linear" else words.split(",") if words else None


def _without_strangers(section: Section) -> Section:
    """A config without what stands outside of its sections."""
    document = section.document
    kept = {key: value for key, value in section.value.items() if key in SECTIONS}
    return section._replace(document=document._replace(value=kept), value=kept)
