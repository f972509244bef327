"""What trains the policy: Megatron-LM, or FSDP 2 in 0.2.0 to 0.2.3. Of either a lower bound is given."""

from __future__ import annotations

import re

from memlint.formats.fields import Fields
from memlint.formats.fsdp_groups import put_groups
from memlint.formats.megatron.engine import read_precision as read_megatrons
from memlint.formats.slime import behaviour
from memlint.formats.slime.config import BACKEND, SlimeConfig

CHECKPOINTS, HOST = "gradient_checkpointing", "fsdp_cpu_offload"
# Of arguments that no release has: what a fork keeps otherwise than is counted here.
_OF_MEMORY = re.compile(r"lora|peft|adapter|quant|8bit|muon|fsdp|shard|offload")


_VARIABLE = "SLIME_BACKEND"  # of the environment, before 0.2.0 and in forks of that time


def is_megatron(config: SlimeConfig) -> bool:
    return not config.is_fsdp


def read_backend(fields: Fields, config: SlimeConfig) -> None:
    """FSDP divides the model among all GPUs (0.2.2 slime/backends/fsdp_utils/actor.py, _setup_device_mesh)."""
    if is_megatron(config):
        fields.behave(*behaviour.MEGATRON, behaviour.LOSS)
        return
    fields.behave(*behaviour.FSDP)
    put_groups(fields, True, config.origin(BACKEND), None, config.origin(BACKEND))
    world = fields.get("parallelism.world_size")
    if isinstance(world, int):
        fields.infer("parallelism.data_parallel_size", world, "all GPUs")
    else:
        fields.unknown("parallelism.data_parallel_size", "the number of GPUs is not known")


def read_precision(fields: Fields, config: SlimeConfig) -> None:
    """bf16 unless fp16 is given (0.3.1 slime/backends/megatron_utils/arguments.py, _set_default_megatron_args; 0.2.2
    slime/backends/fsdp_utils/actor.py, apply_fsdp2)."""
    if is_megatron(config):
        read_megatrons(fields, config)
        return
    dtype = "float16" if config.flag("fp16") else "bfloat16"
    fields.put("precision.compute", dtype, config.origin("fp16"))
    fields.put("parallelism.fsdp.param_dtype", dtype, config.origin("fp16"))


def read_checkpointing(fields: Fields, config: SlimeConfig) -> None:
    if config.is_fsdp:
        fields.put("checkpointing.mode", "full" if config.flag(CHECKPOINTS) else "none", config.origin(CHECKPOINTS))


def read_host(fields: Fields, config: SlimeConfig) -> None:
    if config.is_fsdp:
        fields.put("parallelism.fsdp.cpu_offload", config.flag(HOST), config.origin(HOST))


def read_forks(fields: Fields, config: SlimeConfig) -> None:
    """A backend or an argument of a fork, of which nothing is known: no bound holds then."""
    word = config.text(BACKEND)
    strange = next((key for key in config.strange if _OF_MEMORY.search(key)), "")
    what = f"`{strange}`, an argument of a fork of slime" if strange else ""
    if word not in ("megatron", "fsdp"):
        what = f"the backend `{word or config.raw(BACKEND)}`, which no release of slime has"
    if _VARIABLE in config.section.document.text:
        what = f"the backend that `{_VARIABLE}` names"
    if what:
        fields.infer("stack.unmodelled", what, "arguments of the command")
        fields.infer("stack.unmodelled_adds", False, "arguments of the command")
