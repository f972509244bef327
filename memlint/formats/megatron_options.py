"""What Megatron's options are called by a framework that runs it: for advice in words, for no edit writes them."""

from __future__ import annotations

from collections.abc import Callable

from memlint.formats.fields import Fields
from memlint.run import Origin

# By field, the argument of Megatron-LM (core 0.19 megatron/training/arguments.py).
OPTIONS = {
    "parallelism.tensor_parallel_size": "tensor_model_parallel_size",
    "parallelism.pipeline_parallel_size": "pipeline_model_parallel_size",
    "parallelism.expert_parallel_size": "expert_model_parallel_size",
    "parallelism.replicates_optimizer": "use_distributed_optimizer",
    "batch.micro_batch_size": "micro_batch_size",
    # core/optimizer/cpu_offloading/README.md: states on the host want the precision-aware optimizer.
    "offload.optimizer": "optimizer_cpu_offload",
}
Spell = Callable[[str], str]


def put_options(fields: Fields, spell: Spell, recomputation: str, sequence_parallel: str, source: str) -> None:
    """`spell`: how the framework says an argument of Megatron-LM, "" where it does not. `recomputation`: how it says
    that layers are recomputed, `sequence_parallel`: that tensor parallel ranks divide norms and residuals; "" where
    they do."""
    names = tuple((field, spell(name)) for field, name in OPTIONS.items() if spell(name))
    origin = Origin("framework", detail=source)
    fields.put("planning.option_names", names, origin)
    fields.put("planning.spares_activations", tuple(filter(None, (recomputation, sequence_parallel))), origin)
