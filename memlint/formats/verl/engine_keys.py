"""The keys of verl's Megatron-LM and VeOmni engines, which stand in other sections for its two trainers (verl 0.9.1
trainer/config/engine/megatron.yaml, optim/megatron.yaml and engine/veomni.yaml)."""

from __future__ import annotations

from memlint.formats.keys import Key
from memlint.formats.verl import parallel

# Key below the engine's section, field of the run, what it divides among GPUs.
_DEGREES = (
    ("tensor_model_parallel_size", "parallelism.tensor_parallel_size", "GPUs that share each matrix."),
    (
        *("pipeline_model_parallel_size", "parallelism.pipeline_parallel_size"),
        "stages of layers, each on GPUs of its own.",
    ),
    ("context_parallel_size", "parallelism.context_parallel_size", "GPUs that share each sequence."),
    ("expert_model_parallel_size", "parallelism.expert_parallel_size", "GPUs that share a layer's experts."),
)


def megatron_keys(optimizer: str, engine: str, strategy: str) -> tuple[Key, ...]:
    """`optimizer`, `engine`: the sections of a trainer's file. `strategy`: the key that names the engine, and reads
    the degrees."""
    return (
        Key(
            *(f"{optimizer}.{parallel.HOST_OPTIMIZER}", "flag", "offload.optimizer", False),
            about="Megatron-LM: keep optimizer states in host memory and step there.",
            read=parallel.read_host_optimizer,
            read_only=True,
        ),
        Key(
            *(f"{optimizer}.{parallel.HOST_SHARE}", "number", "offload.optimizer_ratio", 0),
            about="Megatron-LM: the share of optimizer states in host memory.",
            least=0,
            most=1,
            when=parallel.steps_on_host,
            invalid="ignored",
            read_only=True,
        ),
        *(
            Key(
                *(f"{engine}.{name}", "whole", field, 1),
                about=f"Megatron-LM: {what}",
                least=1,
                read_with=strategy,
                read_only=True,
            )
            for name, field, what in _DEGREES
        ),
    )


def veomni_keys(engine: str, strategy: str) -> tuple[Key, ...]:
    """`engine`: the section of the engine. `strategy`: the key that names it, and reads these."""
    return (
        Key(
            *(f"{engine}.mixed_precision", "flag", "model.weights_dtype", True),
            about="VeOmni: load fp32 weights and compute in bf16; off: bf16 weights.",
            read_with=strategy,
            read_only=True,
        ),
        Key(
            *(f"{engine}.enable_fsdp_offload", "flag", "parallelism.fsdp.cpu_offload", False),
            about="VeOmni: FSDP 2 keeps parameters, gradients and optimizer states in host memory.",
            read_with=strategy,
            read_only=True,
        ),
        Key(
            *(f"{engine}.ulysses_parallel_size", "whole", "", 1),
            about="VeOmni: GPUs that share each sequence.",
            least=1,
            read_with=strategy,
            read_only=True,
        ),
    )
