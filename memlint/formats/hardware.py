"""Facts from outside of the files: which GPU, how many of them, what the data hold, versions of the software."""

from __future__ import annotations

from collections.abc import Container

from memlint.formats.base import Context
from memlint.formats.fields import Fields
from memlint.run import Origin

_STACK = ("transformers", "torch", "deepspeed", "peft", "trl", "accelerate", "unsloth")
_KERNELS = "flash-linear-attention"
# Formats whose own trainer trains: a release of TRL that is pinned beside them (verl 0.4 requirements.txt: trl<=0.9.6)
# says nothing of their batches.
OTHER_TRAINERS = frozenset(("trl",))


def apply_hardware(fields: Fields, context: Context, unused: Container[str] = ()) -> None:
    """Put hardware, world size, facts of the data and framework versions from the context. `unused`: packages whose
    release the run does not depend on."""
    if context.gpu is not None:
        fields.put("hardware.gpu", context.gpu, context.gpu_origin)
    setting = Origin("setting")
    if context.memory_budget_bytes:
        fields.put("hardware.memory_budget_bytes", context.memory_budget_bytes, setting)
    if context.optimizer_budget_bytes:
        fields.put("hardware.optimizer_budget_bytes", context.optimizer_budget_bytes, setting)
    if context.host_bytes:
        fields.put("hardware.host_bytes", context.host_bytes, setting)
    for name in ("hardware.context", "hardware.communication", "hardware.fragmentation"):
        if stated := context.overhead.get(name.partition(".")[2]):
            fields.put(name, stated.amount, stated.origin)
    if isinstance(context.gpus, int):
        fields.put("parallelism.world_size", context.gpus, context.gpus_origin)
    if isinstance(context.gpus_per_node, int):
        fields.put("parallelism.gpus_per_node", context.gpus_per_node, context.gpus_origin)
    if context.started_processes:
        fields.put("parallelism.started_processes", context.started_processes, Origin("file"))
    if isinstance(context.images, int):
        fields.put("sequence.images", context.images, Origin("command_line"))
    if isinstance(context.longest_sample, int):
        from memlint.formats.longest_sample import LongestSample  # where the user states one

        fields.longest_sample = LongestSample(context.longest_sample, context.longest_sample_origin)
    for framework in _STACK:
        version = context.versions.get(framework)
        if version and framework not in unused:
            fields.put(f"stack.{framework}", tuple(version), context.version_origins.get(framework, setting))
    if _KERNELS in context.versions:
        fields.put("stack.linear_attention", "fla", context.version_origins.get(_KERNELS, setting))
