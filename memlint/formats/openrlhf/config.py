"""One command of OpenRLHF: its values with the defaults of its program and release, and the trainer that it starts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from memlint.formats.base import Context
from memlint.formats.fields import Section, as_int, interpolated
from memlint.formats.keys import Keys
from memlint.formats.openrlhf.behaviour import SOURCE
from memlint.formats.section_keys import CommandKeys
from memlint.run import UNKNOWN
from memlint.source.document import Path

_PROGRAM = re.compile(r"train_(ppo_ray|ppo|sft|dpo|rm|kto|kd|prm)(?:\.py)?$")
# A process reward model takes the logits of some tokens; the gradient of that choice is as large as all logits
# (0.9.2 models/loss.py, PRMLoss), as it is with the cross entropy.
_STAGES = {"ppo_ray": "ppo", "kd": "sft", "prm": "sft"}
# Defaults that differ between programs, and between releases with and without sections in their flags
# (0.11.2 and 0.9.10 openrlhf/cli/train_*.py).
_MICRO = {"ppo": (1, 4), "sft": (8, 8), "dpo": (8, 8), "rm": (1, 1), "kto": (8, 8)}


class OpenRLHFConfig(CommandKeys):
    """`architecture` is None where the model is not known. `stage`: sft, dpo, rm, kto or ppo. `has_sections`: the flags
    are those of 0.10.2 and later."""

    __slots__ = ("architecture", "context", "has_sections", "program", "stage")

    def __init__(self, section: Section, keys: Keys, context: Context) -> None:
        super().__init__(section, keys, SOURCE)
        for spelling, value in section.value.items():
            if "." in str(spelling) and spelling in keys and value is not None:
                self._add(spelling, value)
        self.context = context
        self.has_sections = has_sections(section.value)
        self.program = _program(section)
        self.stage = _STAGES.get(self.program, self.program)
        self.architecture: Any = self.architecture_of(self.text("model.model_name_or_path") or context.model_name)

    @property
    def distils(self) -> bool:
        """Whether `train_kd` runs: a student learns from a teacher's distribution."""
        return self.program == "kd"

    @property
    def trains_with_rewards(self) -> bool:
        return self.stage == "ppo"

    @property
    def uses_ray(self) -> bool:
        """Whether Ray places the models; `train_ppo` before 0.7 had all of them on each GPU."""
        return self.program == "ppo_ray"

    def architecture_of(self, name: str) -> Any:
        """The architecture behind a model's name; None where none is known."""
        return self.context.find_model(name, self.section.document.path).architecture if name else None

    def path(self, name: str) -> Path:
        """A flag is one step, dots and all."""
        return (self.written(name) or name,)

    def default(self, name: str) -> Any:
        row = self.keys[name]
        if row.name == "train.micro_batch_size":
            return _MICRO.get(self.stage, (None, None))[not self.has_sections]
        if row.name == "rollout.micro_batch_size":
            return 1 if self.has_sections else 8
        return row.default_in(self.release)

    @property
    def release(self) -> tuple[int, ...]:
        """OpenRLHF's release, () where nobody states one."""
        return tuple(self.context.versions.get("openrlhf", ()))

    def get(self, name: str) -> Any:
        """UNKNOWN for a placeholder."""
        return UNKNOWN if interpolated(self.raw(name), name == "model.model_name_or_path") else super().get(name)

    def whole(self, name: str) -> int | None:
        """A whole number from 0: the command's or the default; None where it is not known."""
        found = as_int(self.get(name))
        return found if found is not None and found >= 0 else None


def has_sections(keys: Iterable[Any]) -> bool:
    return any("." in str(key) for key in keys)


def has_copy(context: Context) -> bool:
    """Whether the repository has a copy of OpenRLHF, whose programs may check something else."""
    return bool(context.repository.own_functions("openrlhf/cli"))


def _program(section: Section) -> str:
    """The program as the command names it, else by the flags."""
    start = section.document.start
    found = _PROGRAM.search(start.program.entry) if start is not None else None
    if found is not None:
        return found[1]
    keys = section.value.keys()
    if "teacher_model" in keys:
        return "kd"
    if any(key in keys for key in ("actor_num_gpus_per_node", "actor.num_gpus_per_node", "rollout_batch_size")):
        return "ppo_ray"
    if any(key in keys for key in ("chosen_key", "data.chosen_key")):
        return "dpo" if any(key in keys for key in ("beta", "model.beta", "ref_pretrain")) else "rm"
    return "sft"
