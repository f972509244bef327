"""The arguments of one command of slime, which are Megatron-LM's and its own.

Some of Megatron-LM's have other values here, whatever the command says or unless it says so (0.3.1
slime/backends/megatron_utils/arguments.py, _set_default_megatron_args; 0.1.0 has the same but for fp16).
"""

from __future__ import annotations

from typing import Any

from memlint.architectures.model import Architecture
from memlint.formats.base import Context
from memlint.formats.fields import Section, interpolated
from memlint.formats.keys import Keys
from memlint.formats.megatron.config import MegatronConfig
from memlint.formats.schema.validate import compiled_schema
from memlint.formats.slime.recognise import SCHEMA

SOURCE = "slime 0.3.1"
CHECKPOINT, BACKEND = "hf_checkpoint", "train_backend"
# Of parsers beside slime's own: SGLang's engines and its router (0.3.1 slime/backends/sglang_utils/arguments.py).
_OTHERS = ("sglang_", "router_")


class SlimeConfig(MegatronConfig):
    """`strange`: the flags that no release of slime and Megatron-LM has. Its parser passes over them
    (`ignore_unknown_args=True`), unless a program adds them to it. `architecture`: of the model that `hf_checkpoint`
    names, None where it is not known. `is_named`: it is the model of exactly this name."""

    __slots__ = ("architecture", "is_named", "strange")
    states_machines = True

    def __init__(self, section: Section, keys: Keys, context: Context) -> None:
        super().__init__(section, keys, context)
        self.source = SOURCE
        self.foreign = ()
        known = compiled_schema(SCHEMA).schema["properties"]
        self.strange = tuple(str(key) for key in section.value if key not in known and not str(key).startswith(_OTHERS))
        name = self.checkpoint or context.model_name
        found = context.find_model(name, section.document.path) if name else None
        self.architecture: Architecture | None = found.architecture if found is not None else None
        self.is_named = found is not None and not found.inferred

    @property
    def checkpoint(self) -> str:
        """The model that `hf_checkpoint` names, of which the last part of its path is enough; "" where it is open."""
        value = self.raw(CHECKPOINT)
        return value if isinstance(value, str) and not interpolated(value, is_model=True) else ""

    def get(self, name: str) -> Any:
        """bf16 is the other of fp16, and the optimizer is always divided among the ranks, whatever a command says."""
        if name == "bf16":
            return not self.flag("fp16")
        return True if name == "use_distributed_optimizer" else super().get(name)

    def written(self, name: str) -> str | None:
        return None if name == "bf16" else super().written(name)

    @property
    def is_fsdp(self) -> bool:
        """Whether slime's own use of FSDP trains, which 0.2.0 to 0.2.3 had."""
        return self.text(BACKEND) == "fsdp"

    def is_known(self, *names: str) -> bool:
        """Whether the values of all of these are known, be they given or not."""
        return all(self.open_because(name) is None and self.get(name) is not None for name in names)
