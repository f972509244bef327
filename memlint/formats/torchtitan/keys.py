"""The keys of TorchTitan that bear on memory or on the run (0.2.2 torchtitan/config/job_config.py), with the spellings
of 0.1.0 and of the year before."""

from __future__ import annotations

from memlint.formats.keys import FieldChange, Key, Keys, Written
from memlint.formats.torchtitan import reading
from memlint.formats.torchtitan.reading import (
    COMPILE,
    CONTEXT,
    CONVERTERS,
    DTYPE,
    FLAVOR,
    GLOBAL,
    MICRO,
    MODE,
    NAME,
    OPTION,
    PARAMETERS,
    PARTS,
    PIPELINE,
    REDUCES,
    REPLICATE,
    RESHARDS,
    SHARD,
    TENSOR,
)


def _write_batch(change: FieldChange) -> Written | None:
    """With the global batch as it was, from which the accumulation follows."""
    run = change.run
    sizes = (run.batch.micro_batch_size, run.batch.gradient_accumulation_steps, run.parallelism.data_parallel_size)
    if change.field != "batch.micro_batch_size" or not all(isinstance(size, int) for size in sizes):
        return None
    micro, steps, ranks = sizes
    return {MICRO: change.value, GLOBAL: micro * steps * ranks}  # type: ignore[operator]


KEYS = Keys(
    Key(
        *(FLAVOR, "text", "model.name", "debugmodel"),
        about="The model's size, by TorchTitan's name.",
        also=("model.architecture", "model.from_scratch", "attention.implementation"),
        read=reading.read_model,
        read_only=True,
    ),
    Key(*(NAME, "text", "", "llama3"), about="The model's family.", read_with=FLAVOR),
    Key(
        *(DTYPE, "word", "model.weights_dtype", "float32"),
        about="The dtype of parameters, gradients and optimizer states.",
        also=("precision.trainable_dtype",),
        read=reading.read_dtypes,
        read_only=True,
    ),
    Key(
        *(PARAMETERS, "word", "parallelism.fsdp.param_dtype", "bfloat16"),
        about="The dtype that FSDP computes in; autocast's on one GPU.",
        read_with=DTYPE,
        read_only=True,
    ),
    Key(
        *(REDUCES, "word", "parallelism.fsdp.reduce_dtype", "float32"),
        about="The dtype that gradients are reduced in.",
        read_with=DTYPE,
        read_only=True,
    ),
    Key(
        *(SHARD, "whole", "parallelism.world_size", -1),
        about="GPUs that share the parameters; -1: those that no other degree takes.",
        older=("training.data_parallel_shard_degree", "training.data_parallel_degree"),
        also=("parallelism.data_parallel_size", "parallelism.engine"),
        read=reading.read_degrees,
        read_only=True,
    ),
    Key(
        *(REPLICATE, "whole", "parallelism.fsdp.shard_group_size", 1),
        about="Copies of the sharded model.",
        older=("training.data_parallel_replicate_degree",),
        least=1,
        read_with=SHARD,
        read_only=True,
    ),
    Key(
        *(TENSOR, "whole", "parallelism.tensor_parallel_size", 1),
        about="GPUs that share each matrix.",
        older=("training.tensor_parallel_degree",),
        least=1,
        read_with=SHARD,
        read_only=True,
    ),
    Key(
        *(PIPELINE, "whole", "parallelism.pipeline_parallel_size", 1),
        about="Stages of layers, each on GPUs of its own.",
        older=("experimental.pipeline_parallel_degree", "training.pipeline_parallel_degree"),
        least=1,
        read_with=SHARD,
        read_only=True,
    ),
    Key(
        *(CONTEXT, "whole", "parallelism.context_parallel_size", 1),
        about="GPUs that share each sequence.",
        older=("experimental.context_parallel_degree",),
        least=1,
        read_with=SHARD,
        read_only=True,
    ),
    Key(
        *(RESHARDS, "word", "parallelism.fsdp.reshard_after_forward", "default"),
        about="Free a layer's gathered parameters after its forward: always, never, or without pipeline stages.",
        read_with=SHARD,
        read_only=True,
    ),
    Key(
        *("training.enable_cpu_offload", "flag", "parallelism.fsdp.cpu_offload", False),
        about="FSDP keeps parameters, gradients and optimizer states in host memory.",
        read_only=True,
    ),
    Key(
        *(MICRO, "whole", "batch.micro_batch_size", 8),
        about="Sequences of one forward on a GPU.",
        older=("training.batch_size",),
        least=1,
        read=reading.read_batch,
        write=_write_batch,
    ),
    Key(
        *(GLOBAL, "whole", "batch.gradient_accumulation_steps", -1),
        about="Sequences of one update over all GPUs; -1: one forward of each.",
        read_with=MICRO,
        read_only=True,
    ),
    Key(
        *("training.seq_len", "whole", "sequence.length", 2048),
        about="Tokens of each sequence.",
        least=1,
        read_only=True,
    ),
    Key(
        *("training.max_norm", "number", "optimizer.max_grad_norm", 1.0),
        about="The largest norm of the gradients.",
        invalid="ignored",
        read_only=True,
    ),
    Key(
        *(MODE, "word", "checkpointing.mode", "selective"),
        about="none, selective or full: what of a layer is recomputed in the backward pass.",
        also=("checkpointing.keeps",),
        values={"none": "none", "full": "full", "selective": "selective", "memory_budget": "selective"},
        read=reading.read_checkpointing,
    ),
    Key(
        *(OPTION, "text", "", "2"),
        about="selective: `op` keeps the results of some operators, a number recomputes every so many layers.",
        read_with=MODE,
    ),
    Key(
        *(COMPILE, "flag", "stack.compile", False),
        about="torch.compile of each layer and of the loss.",
        older=("training.compile",),
        also=("loss.compiled",),
        read=reading.read_compile,
        read_only=True,
    ),
    Key(*(PARTS, "any", "", ["model", "loss"]), about="What is compiled.", read_with=COMPILE),
    Key(
        *(CONVERTERS, "any", "precision.fp8"),
        about="What replaces parts of the model: `float8` by torchao.",
        read=reading.read_converters,
        read_only=True,
    ),
    Key(
        *("float8.enable_float8_linear", "flag", "", False),
        about="float8 products, until 0.1.",
        read_with=CONVERTERS,
    ),
    Key(
        *("optimizer.implementation", "word", "optimizer.name", "fused"),
        about="fused, foreach or for-loop, of torch's AdamW.",
        also=("optimizer.foreach",),
        read=reading.read_optimizer,
        read_only=True,
    ),
    Key(
        *("optimizer.early_step_in_backward", "flag", "optimizer.layerwise", False),
        about="Update each parameter in the backward pass and free its gradient.",
        read_with="optimizer.implementation",
        read_only=True,
    ),
    Key(
        *("optimizer.lr", "number", "optimizer.learning_rate", 8e-4),
        about="The learning rate.",
        least=0,
        invalid="ignored",
    ),
)
