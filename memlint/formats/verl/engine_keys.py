"""The keys of verl's Megatron-LM and VeOmni engines, which stand in other sections for its two trainers (verl 0.9.1
trainer/config/engine/megatron.yaml, optim/megatron.yaml and engine/veomni.yaml)."""

from __future__ import annotations

from memlint.formats.fields import Fields, as_int, value_at
from memlint.formats.keys import Key
from memlint.formats.megatron_options import OPTIONS, put_options
from memlint.formats.section_keys import path_of
from memlint.formats.verl import parallel
from memlint.formats.verl.batches import ACTOR
from memlint.formats.verl.config import VerlConfig

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


def put_own_options(fields: Fields, config: VerlConfig) -> None:
    """The names of Megatron's options (trainer/config/engine/megatron.yaml, where tensor parallel ranks divide norms
    as well unless said)."""
    section, optimizer = ("engine", "optim") if config.is_sft else (f"{ACTOR}.megatron", f"{ACTOR}.optim")
    micro = "data.micro_batch_size_per_gpu" if config.is_sft else f"{ACTOR}.ppo_micro_batch_size_per_gpu"
    others = {"micro_batch_size": micro, "optimizer_cpu_offload": f"{optimizer}.{parallel.HOST_OPTIMIZER}=True"}
    transformer = f"{section}.override_transformer_config"
    recomputation = (
        f"{transformer}.recompute_granularity=full {transformer}.recompute_method=uniform"
        f" {transformer}.recompute_num_layers=1"
    )
    granularity, method, count = (
        value_at(config.own.value, path_of(f"{transformer}.recompute_{name}"))
        for name in ("granularity", "method", "num_layers")
    )
    given = granularity == "full"
    if given and method != "block" and count is not None:  # one input of each group of layers is kept
        fields.infer("checkpointing.every", as_int(count) or 1 << 12, f"`{transformer}.recompute_num_layers`")
    spell = {name: f"{section}.{name}" for name in OPTIONS.values()} | others
    put_options(fields, spell.__getitem__, "" if given else recomputation, "", "verl 0.9.1")


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
