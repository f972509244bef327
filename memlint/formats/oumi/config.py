"""One training config of Oumi: the values of its sections, and which trainer they are for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.formats.base import Context
from memlint.formats.fields import Section, as_words
from memlint.formats.keys import Keys
from memlint.formats.oumi.recognise import STAGES
from memlint.formats.section_keys import CommandKeys

SOURCE = "oumi 0.9"
# The words for a dtype -> PyTorch's name (oumi 0.9 utils/torch_utils.py, get_torch_dtype); `auto` is the checkpoint's.
DTYPES = {
    **dict.fromkeys(("f64", "float64", "double"), "float64"),
    **dict.fromkeys(("f32", "float32", "float"), "float32"),
    **dict.fromkeys(("bf16", "bfloat16"), "bfloat16"),
    **dict.fromkeys(("f16", "float16", "half"), "float16"),
    "uint8": "uint8",
    "auto": "auto",
}
# MixedPrecisionDtype -> the Trainer's switch.
_COMPUTE = {"BF16": "bf16", "FP16": "fp16"}


class OumiConfig(CommandKeys):
    """`trainer`: the member of TrainerType, `HF` unless said."""

    __slots__ = ("context",)

    def __init__(self, section: Section, keys: Keys, context: Context) -> None:
        super().__init__(section, keys, SOURCE)
        self.context = context

    def mapping(self, name: str) -> Mapping[str, Any]:
        """A section of the file; an empty one where it has none."""
        given = self.section.value.get(name)
        return given if isinstance(given, dict) else {}

    @property
    def trainer(self) -> str:
        return self.text("training.trainer_type") or "HF"

    @property
    def is_of_trl(self) -> bool:
        return self.trainer.startswith("TRL_")

    @property
    def stage(self) -> str:
        return STAGES.get(self.trainer, "")

    @property
    def generates(self) -> bool:
        return self.stage == "grpo"

    @property
    def trains_adapter(self) -> bool:
        return self.flag("training.use_peft")

    @property
    def dtype(self) -> str:
        """PyTorch's name of the weights' dtype, or `auto`; "" for a word that names none."""
        return DTYPES.get(self.text("model.torch_dtype_str").lower(), "")

    @property
    def quantises(self) -> bool:
        """Whether the base model is loaded in few bits: `q_lora` counts with an adapter alone (train.py)."""
        return self.trains_adapter and self.flag("peft.q_lora")

    @property
    def zero_stage(self) -> int:
        """0 to 3. A member of ZeRORuntimeStage by its name, or by its value, a text."""
        word = self.text("deepspeed.zero_stage").removeprefix("ZERO_")
        return int(word) if word in ("0", "1", "2", "3") else 0

    @property
    def shards(self) -> bool:
        return self.flag("fsdp.enable_fsdp")

    @property
    def autocast(self) -> str:
        """The half precision that autocast computes in: bf16 or fp16; "" where the model's own dtype computes.

        FSDP's word reaches accelerate by an environment variable, which TrainingArguments leaves in force where they
        name none (oumi 0.9 core/distributed.py, get_accelerate_env_vars; transformers 5.16 training_args.py)."""
        own = _COMPUTE.get(self.text("training.mixed_precision_dtype").upper(), "")
        of_fsdp = self.text("fsdp.mixed_precision") if self.shards and self.trainer != "OUMI" else ""
        return own or (of_fsdp if of_fsdp in _COMPUTE.values() else "")

    @property
    def passed_on(self) -> Mapping[str, Any]:
        """`training.trainer_kwargs`, which the trainer's arguments get as they are."""
        found = self.mapping("training").get("trainer_kwargs")
        return found if isinstance(found, dict) else {}

    @property
    def frozen_layers(self) -> tuple[str, ...]:
        """Modules that do not train. An adapter is made after they are frozen, and trains wherever it is (train.py)."""
        return () if self.trains_adapter else as_words(self.raw("model.freeze_layers"))

    @property
    def has_images(self) -> bool:
        """Whether a collator of images makes the batches (core/collators, vision_language_*)."""
        return self.text("data.train.collator_name").startswith("vision_language")
