"""One document of ms-swift: its values with ms-swift's defaults, and the task that it is for."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from memlint.formats.base import Context
from memlint.formats.fields import Section, as_int, interpolated
from memlint.formats.keys import Keys
from memlint.formats.section_keys import CommandKeys
from memlint.formats.swift.recognise import is_megatron
from memlint.run import UNKNOWN

SOURCE = "ms-swift 4.6.0"
_GRPO_KEYS = frozenset({"num_generations", "reward_funcs", "reward_weights"})
_STAGES = {"pt": "pt", "sft": "sft", "cpo": "cpo", "gkd": "sft"}


_PACKAGES = ("swift/llm", "swift/arguments", "swift/pipelines")  # of releases up to 3, and of 4


def has_copy(context: Context) -> bool:
    """Whether the repository has a copy of ms-swift, which may take other keys and values."""
    return any(context.repository.own_functions(below) for below in _PACKAGES)


_RELEASE_2_KEYS = frozenset({"sft_type", "model_id_or_path", "template_type", "quantization_bit", "batch_size"})


def shows_release_2(keys: Collection[Any]) -> bool:
    """Whether a key stands there that ms-swift has not had since 3.0 (2.6.1 llm/utils/argument.py)."""
    return not _RELEASE_2_KEYS.isdisjoint(keys)


class SwiftConfig(CommandKeys):
    """`architecture` is None where the model is not known. `task`: sft, pt or rlhf; `stage`: as `run.Method.stage`."""

    __slots__ = ("architecture", "context")

    def __init__(self, section: Section, keys: Keys, context: Context) -> None:
        super().__init__(section, keys, SOURCE)
        self.context = context
        name = self.raw("model")
        name = context.model_name if context.model_name and self.get("model") in (None, UNKNOWN) else name
        known = isinstance(name, str) and bool(name)
        found = context.find_model(name, section.document.path) if known and isinstance(name, str) else None
        self.architecture: Any = found.architecture if found is not None else None

    def get(self, name: str) -> Any:
        """UNKNOWN for a placeholder."""
        return UNKNOWN if interpolated(self.raw(name), name == "model") else super().get(name)

    def word(self, name: str) -> str:
        return self.text(name).lower()

    def whole(self, name: str) -> int | None:
        """A whole number above 0."""
        found = as_int(self.get(name))
        return found if found is not None and found > 0 else None

    @property
    def task(self) -> str:
        start = self.section.document.start
        if start is not None and start.program.task:
            return start.program.task
        return "rlhf" if self.written("rlhf_type") or self._is_for_grpo else "sft"

    @property
    def _is_for_grpo(self) -> bool:
        """Whether a key stands there that `swift sft` refuses and GRPO alone reads (4.6.0 arguments/rlhf_args.py,
        GRPOArguments): the command gives the type, `swift rlhf grpo.yaml --rlhf_type grpo`."""
        return not self.written("rlhf_type") and bool(_GRPO_KEYS & self.section.value.keys())

    @property
    def is_release_2(self) -> bool:
        return shows_release_2(self.section.value)

    @property
    def stage(self) -> str:
        """The trainer: that of `rlhf_type` (dpo unless said: arguments/rlhf_args.py), sft or pt."""
        if self.task in ("sft", "pt"):
            return self.task
        kind = self.word("rlhf_type") if self.task == "rlhf" else self.task
        kind = "grpo" if self._is_for_grpo else kind
        return _STAGES.get(kind or "dpo", kind or "dpo")

    @property
    def is_megatron(self) -> bool:
        """Whether Megatron-LM trains: as the command says, else by the keys."""
        start = self.section.document.start
        return (start is not None and start.launcher == "megatron") or is_megatron(self.section.value)

    @property
    def generates(self) -> bool:
        return self.stage in ("grpo", "ppo")

    @property
    def distils(self) -> bool:
        """Whether a student learns from a teacher (`rlhf_type: gkd`). TRL's trainer of it is its SFTTrainer."""
        return self.task in ("rlhf", "gkd") and (self.word("rlhf_type") or self.task) == "gkd"

    @property
    def writes_completions(self) -> bool:
        """Whether the model writes completions: of GKD the share `lmbda` of all steps (arguments/rlhf_args.py, 0.5)."""
        share = self.number("lmbda")
        return self.generates or (self.distils and (share is None or share > 0))

    def environment(self, name: str) -> int | None:
        """A variable that a file sets under `ENV`, or that a command runs with."""
        section = self.section.value.get("ENV")
        return as_int(section.get(name)) if isinstance(section, dict) else None

    @property
    def grows_segments(self) -> bool:
        """Whether `ENV` tells PyTorch's allocator to grow its segments in place."""
        section = self.section.value.get("ENV")
        said = section.get("PYTORCH_CUDA_ALLOC_CONF", "") if isinstance(section, dict) else ""
        return "expandable_segments:true" in str(said).lower().replace(" ", "")

    @property
    def visible_cards(self) -> tuple[str, ...]:
        """What CUDA_VISIBLE_DEVICES lists."""
        section = self.section.value.get("ENV")
        said = section.get("CUDA_VISIBLE_DEVICES", "") if isinstance(section, dict) else ""
        return tuple(one for one in str(said).split(",") if one.strip())

    @property
    def holds_speech(self) -> bool:
        """Whether what turns answers into speech is loaded as well: `thinker` trains and the others are frozen
        (model/models/qwen.py:1944, get_config; model/model_arch.py:643)."""
        section = self.section.value.get("ENV")
        said = str(section.get("ENABLE_AUDIO_OUTPUT", "")).lower() if isinstance(section, dict) else ""
        return bool(getattr(self.architecture, "speech_weights", ())) and said not in ("0", "false", "no", "off")

    @property
    def dtype(self) -> str:
        """`torch_dtype`, else that of the checkpoint, else bfloat16 (model/utils.py:247). "" where nobody can know."""
        word = self.get("torch_dtype")
        if word is UNKNOWN:
            return ""
        if isinstance(word, str) and word.lower() not in ("", "auto"):
            return {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}.get(word, word)
        return str(getattr(self.architecture, "dtype", "") or "bfloat16") if self.architecture is not None else ""

    def accumulation(self, world: Any) -> int | None:
        """`gradient_accumulation_steps` where it is not said: 1 for GRPO, else as many as make 16 sequences a step
        (arguments/rlhf_args.py, _set_default; trainers/arguments.py:291)."""
        if self.stage == "grpo":
            return 1
        size = self.whole("per_device_train_batch_size")
        return max(1, math.ceil(16 / size / world)) if size and isinstance(world, int) and world else None
